"""The goal "mixture" in a simulation: the value of drawn samples and named weights as mixtures."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import NormalDist
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from optimist.estimates.mixture import Mixture
from optimist.estimates.programme import Floats, minimise
from optimist.estimation.question import Question
from optimist.local.evaluation import Evaluation
from optimist.metrics.threads import one_thread
from optimist.simulation.inputs import SimulationInputs
from optimist.simulation.judges.judge import CurveFigure, ReportColumn
from optimist.simulation.judges.sampled import SampledJudge, all_samples
from optimist.simulation.run import NO_GENERATOR, PolicyRun, last_known
from optimist.simulation.runner import Runner
from optimist.simulation.sources import Source
from optimist.simulation.trial import Recorder
from optimist_client.errors import FixError
from optimist_client.goals import BestMixture
from optimist_client.tolerance import share_of


def marks_of(rounds: int, generators: int, count: int = 24) -> NDArray[np.int64]:
    """The rounds after which losses are computed, evenly in their logarithm, from one batch of each generator on.

    They are few, as the true loss of a mixture can take as long as an estimate.
    """
    first = min(generators, rounds)
    return np.unique(np.geomspace(first, rounds, count).round().astype(np.int64))


class NamedMixture(NamedTuple):
    """A mixture as it was named after a round."""

    played: int
    """Rounds played by then."""
    mixture: Mixture


class NamedMixtures(Recorder):
    """Keeps the mixtures in their order, each when it was new."""

    def __init__(self, evaluation: Evaluation) -> None:
        super().__init__(evaluation)
        self._played, self._named = 0, list[NamedMixture]()

    def record(self, stop: bool) -> bool:
        self._played += 1
        newest = self.evaluation.latest_mixture
        if newest is not None and (not self._named or newest is not self._named[-1].mixture):
            self._named.append(NamedMixture(self._played, newest))
        return stop and self.evaluation.decision(explain=False).decided

    def seen(self) -> tuple[NamedMixture, ...]:
        return tuple(self._named)


@dataclass(frozen=True, eq=False)
class TrueMixtures:
    """The true loss of every mixture of generators, in their order, and the best mixture."""

    loss: Callable[[Floats], float]
    """The loss of weights (G,) on the metric's scale: the score where lower is better, else minus the score."""
    weights: Floats
    """The weights of the least loss (G,)."""
    origin: str = "given"
    """A text that says how it was obtained."""


@dataclass(frozen=True, eq=False)
class MixtureJudge(SampledJudge):
    """Judges by the true loss of mixtures: an excess is by how much one is above the least. Shares are of the least."""

    goal = "mixture"
    policies = BestMixture.policies
    default = ("ogd", "mixture-greedy", "uniform")
    shows_shares = True
    recorder = NamedMixtures
    columns = (
        ReportColumn("excess of the samples drawn", "drawn_excess"),
        ReportColumn("share", "drawn_share", is_percent=True),
        ReportColumn("excess of the weights named", "named_excess"),
        ReportColumn("share", "named_share", is_percent=True),
        ReportColumn("gain", "gain"),
        ReportColumn("its interval holds", "gain_holds", is_percent=True),
        ReportColumn("samples", "samples"),
    )
    figures: ClassVar = {
        "drawn_excess": CurveFigure("drawn_excess", "excess loss of the samples drawn", is_log=True),
        "named_excess": CurveFigure("named_excess", "excess loss of the weights named", is_log=True),
    }

    truth: TrueMixtures

    @classmethod
    def with_truth(cls, inputs: SimulationInputs, truth: Any, runner: Runner) -> MixtureJudge:
        if inputs.watched:
            raise FixError("watch: further metrics are compared with the goal 'best' only")
        if truth is None:
            truth = true_mixtures(inputs.sources, inputs.question, inputs.plan.seed)
        if not isinstance(truth, TrueMixtures):
            raise FixError(f"truth: expected TrueMixtures for the goal 'mixture', got {type(truth).__name__}")
        if len(truth.weights) != len(inputs.sources):
            raise FixError(f"truth: expected the weights of {len(inputs.sources)} generators, got {len(truth.weights)}")
        return cls(tuple(inputs.sources), inputs.plan, inputs, inputs.question.metric, truth)

    @cached_property
    def min_loss(self) -> float:
        """The least loss of a mixture."""
        return self.truth.loss(self.truth.weights)

    @cached_property
    def singles(self) -> Floats:
        """The loss of each generator alone (G,)."""
        return np.array([self.truth.loss(alone) for alone in np.eye(len(self.truth.weights))])

    @property
    def best_single(self) -> str:
        """The best generator alone."""
        return self.generators[int(self.singles.argmin())]

    @property
    def single_excess(self) -> float:
        """Its loss above the best mixture's."""
        return float(self.singles.min()) - self.min_loss

    @property
    def single_share(self) -> float:
        """That loss as a share of the least loss; NaN where that is not above 0."""
        return float(self.share(self.singles.min(keepdims=True) - self.min_loss)[0])

    @property
    def tolerated(self) -> float:
        """The excess that does not matter to the stopping rule."""
        tolerance = self.plan.tolerance
        share = share_of(tolerance)
        if share is None:
            return float(tolerance)
        return math.log1p(share) if self._is_log else share * max(self.min_loss, 0.0)

    @property
    def _is_log(self) -> bool:
        return self.metric.scale == "log"

    def share(self, excess: Floats) -> Floats:
        """An excess as a share of the least loss; NaN where this is not above 0. A log counts as its exponential."""
        if self._is_log:
            return np.expm1(excess)
        return excess / self.min_loss if self.min_loss > 0.0 else np.full_like(excess, math.nan)

    def judged(self, run: PolicyRun, seen: Sequence[tuple[NamedMixture, ...]]) -> PolicyRun:
        marks = marks_of(run.picks.shape[1], len(self.generators))
        with one_thread():
            rows = [self._excesses(*trial, marks) for trial in zip(run.picks, run.decided, seen, strict=True)]
        drawn, named, holds = (np.stack(curve) for curve in zip(*rows, strict=True))
        last = [own[-1].mixture if own else None for own in seen]
        unknown = np.full(len(self.generators), math.nan)
        return replace(
            run,
            marks=marks,
            curves={
                "drawn_excess": drawn,
                "named_excess": named,
                "drawn_share": self.share(drawn),
                "named_share": self.share(named),
                "gain_holds": holds,
            },
            arrays={"weights": np.stack([unknown if m is None else np.array(m.weights) for m in last])},
            totals={"gain": np.array([math.nan if m is None else m.gain for m in last])},
            wrong=last_known(named) > self.tolerated,
        )

    def _excesses(
        self, picks: NDArray[np.int32], decided: bool, seen: Sequence[NamedMixture], marks: NDArray[np.int64]
    ) -> tuple[Floats, Floats, Floats]:
        """The excess of the samples drawn and of the weights named in one trial, and 1 where the gain holds (M,)."""
        drawn, named, holds = curves = tuple(np.full(len(marks), math.nan) for _ in range(3))
        picks = picks[picks != NO_GENERATOR]
        judged: dict[int, tuple[float, float]] = {}
        for i, mark in enumerate(marks):
            if mark > len(picks) and not decided:
                break
            if i and mark > len(picks) and marks[i - 1] >= len(picks):
                for curve in curves:
                    curve[i] = curve[i - 1]
                continue
            counts = np.bincount(picks[:mark], minlength=len(self.generators))
            drawn[i] = self.truth.loss(counts / counts.sum()) - self.min_loss
            newest = sum(entry.played <= mark for entry in seen) - 1
            if newest >= 0:
                judged.setdefault(newest, self._of(seen[newest].mixture))
                named[i], holds[i] = judged[newest]
        return drawn, named, holds

    def _of(self, mixture: Mixture) -> tuple[float, float]:
        loss = self.truth.loss(np.array(mixture.weights))
        apart = abs(mixture.gain - (float(self.singles.min()) - loss))
        z = NormalDist().inv_cdf(1.0 - self.plan.delta / 2.0)
        return loss - self.min_loss, float(apart <= z * mixture.gain_error)

    @property
    def subject(self) -> str:
        return f"{self.unit} of mixtures of {len(self.generators)} generators{', paired' * bool(self.plan.paired)}"

    @property
    def best_shares(self) -> Mapping[str, float]:
        return dict(zip(self.generators, self.truth.weights.tolist(), strict=True))

    @property
    def level(self) -> tuple[float, str]:
        return self.single_excess, f"{self.best_single} alone"

    def notes(self) -> Iterator[str]:
        single = f"{self.best_single} alone has {self.single_excess:.4g} more"
        if math.isfinite(self.single_share):
            single = f"{single} ({self.single_share:.1%})"
        yield (
            f"The least loss is {self.min_loss:.4g}; {single}. Truth: {self.truth.origin}. Mean ± standard error over "
            "trials."
        )
        yield from super().notes()

    def document(self) -> dict[str, Any]:
        return {
            "metric": self.metric.name,
            "best_weights": self.best_shares,
            "least": self.min_loss,
            "singles": dict(zip(self.generators, self.singles.tolist(), strict=True)),
            "truth_origin": self.truth.origin,
        }


def true_mixtures(sources: Mapping[str, Source], question: Question, seed: int) -> TrueMixtures:
    """The de-biased loss by all samples of each source, with the given kernels, as mixtures compute it.

    Raises FixError, naming the source, if its samples cannot be scored.
    """
    statistics = []
    bound, counts = None, []
    for name, source in sources.items():
        rows, count = all_samples(name, source, seed)
        own = question.own({array: torch.from_numpy(np.asarray(part, np.float64)) for array, part in rows.items()})
        if bound is None:
            bound = question.bound_for({array: part.shape[1] for array, part in own.items()})
        statistic = bound.statistic()
        try:
            statistic.update(*(own[array] for array in bound.metric.widths))
        except ValueError as error:
            raise FixError(f"{source.origin}: {error}") from None
        statistics.append(statistic)
        counts.append(count)
    assert bound is not None
    objective = bound.metric.objective(statistics)
    smallest, largest = min(counts), max(counts)
    origin = f"de-biased, {f'{smallest:,} to ' * (smallest < largest)}{largest:,} samples of each"
    return TrueMixtures(objective.loss, minimise(objective), origin)
