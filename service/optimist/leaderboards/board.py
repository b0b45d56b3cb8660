"""Models by tasks: means, paired differences with errors, verdicts, and the answer at both extremes of missing scores.

Epochs are clusters, and tasks are strata: the macro mean of T tasks has the variance Σ V/T².
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import NormalDist
from typing import Literal, NamedTuple

import numpy as np

from optimist.datasets.logs.reading import Answers
from optimist.leaderboards.strata import Of, Stratum, direction_of, mean_of, metrics_in, strata_of, together
from optimist.numerics.clusters import FEW, clusters_to_decide
from optimist.numerics.prompted import Kind, differing
from optimist_client.errors import FixError

Verdict = Literal["base", "better", "worse", "close"]
_MANY = 100
"""Times as many questions above which no number of them is said: the difference may as well be none."""


@dataclass(frozen=True)
class Asked:
    """What is asked of logs."""

    metrics: tuple[str, ...] = ()
    """Of each task the first that it has; none: its first one."""
    filter: str | None = None
    baseline: str | None = None
    """The model that others are compared with; None: the best one."""
    micro: bool = False
    """Whether all questions count alike; otherwise all tasks do."""
    kind: Kind = "sample"
    """Whether scores are about questions like these, or about exactly these."""
    delta: float = 0.05
    several: tuple[Of, int] | None = None
    """pass@k or pass^k instead of the mean."""


@dataclass(frozen=True)
class Measured:
    """A mean, or a difference of two, with its errors."""

    value: float
    standard_error: float
    """That of the textbook: cluster-robust where questions have epochs; inf from one question."""
    stopping_error: float
    """By which intervals are made: it allows for few questions, and for differences that have not come yet."""
    clusters: int
    lasting: float = 0.0
    """The part of its variance that more epochs of the same questions do not take away."""

    def interval(self, delta: float) -> tuple[float, float]:
        """The interval that covers 1 − δ."""
        half = -NormalDist().inv_cdf(delta / 2.0) * self.stopping_error
        return self.value - half, self.value + half

    def half(self, delta: float) -> float:
        """Half of the interval, which stands after ±."""
        return self.interval(delta)[1] - self.value


@dataclass(frozen=True)
class Cell:
    """A model on a task, or on all of them."""

    answers: int
    questions: int
    missing: int
    mean: Measured
    difference: Measured | None
    """Its mean less that of the baseline, or of the best; None for this itself."""
    is_tied: bool
    """Whether the model is the best one here, or cannot be told from it."""


@dataclass(frozen=True)
class Standing:
    """A model: its mean over all tasks, and each of them."""

    model: str
    overall: Cell
    tasks: Mapping[str, Cell]
    verdict: Verdict
    """About the baseline, or the best one, all models together at 1 − δ."""
    cost: float
    """Mean cost of an answer, NaN where it is not known."""
    seconds: float


@dataclass(frozen=True)
class Extreme:
    """The answer with one value for all missing scores."""

    value: float
    means: Mapping[str, float]
    """By model."""
    best: str
    verdicts: Mapping[str, Verdict]


@dataclass(frozen=True)
class Board:
    """Models by tasks, the best first."""

    asked: Asked
    strata: Sequence[Stratum]
    lower_is_better: bool
    base: str
    standings: Sequence[Standing]
    extremes: Sequence[Extreme]
    """With all missing scores at the worst and at the best value; empty where none is missing."""
    left_out: Sequence[str]
    """Tasks that only some of the models have, which no mean over tasks counts."""
    others: Mapping[str, Mapping[str, tuple[Measured, bool]]]
    """What further metrics say: the mean of each model, and whether it is the best or cannot be told from it."""
    more: More | None
    """What would tell the closest rival from the base; None where all are told, or scores are about these questions."""

    @property
    def best(self) -> str:
        """The model with the best mean."""
        return self.standings[0].model

    @cached_property
    def title(self) -> str:
        """What is compared: the metrics with their filters, or pass@k."""
        names = [*dict.fromkeys(f"{one.metric}, {one.filter}" if one.filter else one.metric for one in self.strata)]
        of = self.asked.several
        told = "" if of is None else f"{'pass@' if of[0] == 'pass' else 'pass^'}{of[1]} of "
        return told + "; ".join(names)


class More(NamedTuple):
    """What would tell a rival from the base, if their difference stays as it is."""

    model: str
    questions: int | None
    """How many more of them; None: more than `_MANY` times as many as there are."""
    not_epochs: bool
    """Whether more epochs of the same questions would not."""


class Means:
    """The means of all models on some strata, and their differences."""

    def __init__(self, strata: Sequence[Stratum], asked: Asked, lower_is_better: bool) -> None:
        self.models = [name for name in strata[0].scores if all(name in one.scores for one in strata)]
        counted = [together(strata)] if asked.micro else strata
        if asked.several is not None:
            counted = [one.of_several(*asked.several) for one in counted]
        self.strata, self.sign = counted, -1.0 if lower_is_better else 1.0
        self._kind = asked.kind
        self._against: dict[tuple[str, str], Measured] = {}
        self._cells = [{name: one.mean_of(name, asked.kind) for name in one.scores} for one in counted]
        # Equal scores have no spread: one more question could have differed by all that scores do.
        values = np.concatenate([own.scored.values for one in counted for own in one.scores.values()])
        self._range = float(np.ptp(values)) or 1.0

    def mean(self, model: str, at: int) -> Measured:
        """The mean of a model in a stratum."""
        mean, prompted = self._cells[at][model]
        return self._measured(mean, prompted.parts.total, prompted.clusters, prompted.samples)

    def difference(self, model: str, base: str, at: int) -> Measured:
        """The mean of a model in a stratum less that of the base."""
        (own, one), (other, against) = self._cells[at][model], self._cells[at][base]
        found = differing(one, against)
        samples = min(one.samples, against.samples)
        return self._measured(own - other, found.parts.total, found.clusters, samples, found.lasting)

    def overall(self, of: Callable[[int], Measured]) -> Measured:
        """The macro mean over strata of what these have."""
        parts, count = [of(at) for at in range(len(self.strata))], len(self.strata)
        return Measured(
            math.fsum(one.value for one in parts) / count,
            math.hypot(*(one.standard_error for one in parts)) / count,
            math.hypot(*(one.stopping_error for one in parts)) / count,
            sum(one.clusters for one in parts),
            math.fsum(one.lasting for one in parts) / count**2,
        )

    @cached_property
    def total(self) -> dict[str, Measured]:
        """The mean of each model over all strata, the best first."""
        found = {name: self.overall(lambda at, name=name: self.mean(name, at)) for name in self.models}
        return dict(sorted(found.items(), key=lambda one: -self.sign * one[1].value))

    def against(self, model: str, base: str) -> Measured:
        """The mean of a model over all strata less that of the base."""
        found = self._against.get((model, base))
        if found is None:
            found = self._against[model, base] = self.overall(lambda at: self.difference(model, base, at))
        return found

    def is_tied(self, model: str, delta: float) -> bool:
        """Whether a model is the best one, or cannot be told from it."""
        best = next(iter(self.total))
        return model == best or self.verdict(model, best, delta) != "worse"

    def verdict(self, model: str, base: str, delta: float) -> Verdict:
        """Whether a model is better or worse than the base, all models together at 1 − δ."""
        if model == base:
            return "base"
        low, high = sorted(self.sign * end for end in self.against(model, base).interval(self.each(delta)))
        return "better" if low > 0.0 else "worse" if high < 0.0 else "close"

    def each(self, delta: float) -> float:
        """The δ of each of all differences from one model, so that they hold together."""
        return delta / max(len(self.models) - 1, 1)

    def _measured(self, value: float, variance: float, clusters: int, samples: int, lasting: float = 0.0) -> Measured:
        units = clusters if self._kind == "sample" else samples
        error = math.sqrt(variance / (1.0 + FEW / units)) if math.isfinite(variance) else math.inf
        least = self._range / units if variance == 0.0 and self._kind == "sample" else 0.0
        return Measured(value, error, max(math.sqrt(variance), least), clusters, lasting)


def board_of(answers: Mapping[str, Sequence[Answers]], asked: Asked) -> Board:
    """The models compared. Raises FixError for fewer than two, and where it is not known which scores are meant."""
    strata = strata_of(answers, asked.metrics or None, asked.filter)
    models = [name for name in answers if any(name in one.scores for one in strata)]
    if len(models) < 2:
        raise FixError(f"expected the answers of two or more models, found {', '.join(models)}")
    if asked.baseline is not None and asked.baseline not in models:
        raise FixError(f"--baseline {asked.baseline}: no such model; there are {', '.join(models)}")
    common = [one for one in strata if len(one.scores) == len(models)]
    if not common:
        lacks = ", ".join(f"{one.task}: {', '.join(one.scores)}" for one in strata)
        raise FixError(f"expected a task that all models have; found {lacks}")
    lower = direction_of(common, answers)
    means = Means(common, asked, lower)
    best = next(iter(means.total))
    base = asked.baseline or best
    extremes = _extremes(common, asked, lower, base)
    alone = {one.task: ([one], Means([one], asked, lower)) for one in strata}
    standings = [
        Standing(
            name,
            _cell(common, means, name, base, asked.delta),
            {task: _cell(*of, name, base, asked.delta) for task, of in alone.items() if name in of[1].models},
            means.verdict(name, base, asked.delta),
            *(mean_of(answers[name], of) for of in ("costs", "seconds")),
        )
        for name in means.total
    ]
    left_out = [one.task for one in strata if one not in common]
    others = _others(answers, asked, {(one.metric, one.filter) for one in common}, set(models))
    return Board(asked, strata, lower, base, standings, extremes, left_out, others, _more(means, base, asked))


def _cell(strata: Sequence[Stratum], means: Means, model: str, base: str, delta: float) -> Cell:
    scored = [one.scores[model].scored for one in strata]
    return Cell(
        sum(len(own.values) for own in scored),
        sum(own.distinct for own in scored),
        sum(one.missing(model) for one in strata),
        means.total[model],
        means.against(model, base) if model != base and base in means.models else None,
        means.is_tied(model, delta),
    )


def _extremes(strata: Sequence[Stratum], asked: Asked, lower: bool, base: str) -> list[Extreme]:
    """The answers with all missing scores 0, and 1; or where scores have another range, at its ends."""
    if not any(one.missing(name) for one in strata for name in one.scores):
        return []
    values = np.concatenate([own.scored.values for one in strata for own in one.scores.values()])
    low, high = float(values.min()), float(values.max())
    ends = (0.0, 1.0) if low >= 0.0 and high <= 1.0 else (low, high)
    found: list[Extreme] = []
    for end in ends:
        means = Means([one.filled(end) for one in strata], asked, lower)
        best = next(iter(means.total))
        against = asked.baseline or base
        verdicts: dict[str, Verdict] = {name: means.verdict(name, against, asked.delta) for name in means.models}
        found.append(Extreme(end, {name: one.value for name, one in means.total.items()}, best, verdicts))
    return found


def _others(
    answers: Mapping[str, Sequence[Answers]], asked: Asked, main: set[tuple[str, str]], models: set[str]
) -> dict[str, dict[str, tuple[Measured, bool]]]:
    """What the metrics say that are not the main ones, each on the tasks that have it."""
    found: dict[str, dict[str, tuple[Measured, bool]]] = {}
    for metric, filter in metrics_in(answers):
        if (metric, filter) in main or asked.several is not None:
            continue
        parts = {
            name: [part for part in own if part.filter == filter and metric in part.scores]
            for name, own in answers.items()
        }
        strata = [one for one in strata_of(parts, [metric], filter) if {*one.scores} == models]
        if not strata:
            continue
        means = Means(strata, asked, direction_of(strata, answers))
        found[f"{metric}, {filter}" if filter else metric] = {
            name: (one, means.is_tied(name, asked.delta)) for name, one in means.total.items()
        }
    return found


def _more(means: Means, base: str, asked: Asked) -> More | None:
    """The rival that is closest to being told from the base, of those that are not, and what would tell it."""
    reach = -NormalDist().inv_cdf(means.each(asked.delta) / 2.0)
    close = {
        name: means.against(name, base) for name in means.models if means.verdict(name, base, asked.delta) == "close"
    }
    if not close or asked.kind != "sample":
        return None
    model = max(close, key=lambda name: abs(close[name].value) / close[name].stopping_error)
    found = close[model]
    needed = clusters_to_decide(found.value, found.stopping_error**2, found.clusters, reach)
    has_epochs = any(one.has_epochs for one in means.strata)
    lasts = has_epochs and found.lasting > 0.5 * found.stopping_error**2
    return More(model, needed if needed is not None and needed <= _MANY * found.clusters else None, lasts)
