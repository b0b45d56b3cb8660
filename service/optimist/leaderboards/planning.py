"""Number of questions that a comparison needs, from the answers of a pilot."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import NormalDist

from optimist.datasets.logs.reading import Answers
from optimist.estimates.clusters import FEW
from optimist.leaderboards.board import ModelMeans, Spec
from optimist.leaderboards.strata import direction_of, strata_of
from optimist_client.errors import FixError
from optimist_client.models.decisions import about, lowered


@dataclass(frozen=True)
class Need:
    """Questions that tell two models apart, with as many epochs as the pilot has."""

    models: tuple[str, str]
    pilot: int
    """Questions of both in the pilot."""
    questions: int
    """Questions of both, in the proportions of the pilot's tasks."""
    unpaired: int
    """Questions needed where each model has different ones."""
    least: int | None
    """Questions with as many epochs as one likes; None where the pilot does not say."""


@dataclass(frozen=True)
class PilotPlan:
    """Needs of a comparison: a difference of this size is told at δ with probability `power`."""

    difference: float
    delta: float
    power: float
    needs: Sequence[Need]
    """Needs of each two models, largest first."""

    @property
    def sentence(self) -> str:
        """The answer, for the two models that need most."""
        most = self.needs[0]
        sentences = [
            f"To tell a difference of {self.difference:g} at δ = {self.delta:g} with a chance of {self.power:.0%} "
            f"takes {_about(most.questions)} questions, by {' and '.join(most.models)}, which take most; "
            f"{_about(most.unpaired)} if each model had questions of its own."
        ]
        if most.least is not None:
            sentences.append(f"With more epochs it takes {_about(most.least)} or more.")
        return " ".join(sentences)


def _about(count: int) -> str:
    return lowered(about((count, count)))


def plan_of(answers: Mapping[str, Sequence[Answers]], asked: Spec, difference: float, power: float) -> PilotPlan:
    """Questions that tell a difference between each two models, where it varies as in the pilot's pairs.

    A difference d is told if it is z(1 − δ/2) errors away from 0, which has the chance `power` where its error is
    d/(z(1 − δ/2) + z(power)). Raises FixError as `board_of`, and for a pilot that says nothing of errors.
    """
    if not difference > 0.0:
        raise FixError(f"--difference {difference:g}: expected a number above 0")
    if not asked.delta / 2.0 < power < 1.0:
        raise FixError(f"--power {power:g}: expected a chance between {asked.delta / 2.0:g} and 1")
    strata = [s for s in strata_of(answers, asked.metrics or None, asked.filter) if len(s.scores) == len(answers)]
    if len(answers) < 2 or not strata:
        raise FixError("expected a pilot of two or more models with a task that all of them have")
    means = ModelMeans(strata, asked, direction_of(strata, answers))
    reach = NormalDist().inv_cdf(1.0 - asked.delta / 2.0) + NormalDist().inv_cdf(power)
    has_epochs = any(stratum.has_epochs for stratum in strata)
    needs: list[Need] = []
    for model, other in combinations(means.models, 2):
        contrast = means.against(model, other)
        if not math.isfinite(contrast.standard_error):
            raise FixError("expected a pilot of at least 2 questions of each task")
        scale = contrast.clusters * (reach / difference) ** 2
        apart = math.hypot(means.total[model].standard_error, means.total[other].standard_error)
        # A comparison allows for few questions, as the pilot does not.
        paired = (contrast.standard_error or contrast.stopping_error) ** 2
        counts = [math.ceil(scale * variance + FEW) for variance in (paired, apart**2, contrast.lasting)]
        least = counts[2] if has_epochs and contrast.lasting else None
        needs.append(Need((model, other), contrast.clusters, counts[0], counts[1], least))
    return PilotPlan(difference, asked.delta, power, sorted(needs, key=lambda need: -need.questions))
