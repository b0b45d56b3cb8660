"""The bounds of a mean whose intervals hold at all sample sizes at once."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from optimist.metrics.bound import InfluenceBound, check_delta, with_strict_interval
from optimist.metrics.mean.score import MeanScore
from optimist.metrics.mean.sequences import Betting, ConfidenceSequence, EmpiricalBernstein
from optimist.metrics.mean.statistic import MeanStatistic
from optimist.numerics.estimate import Estimate
from optimist_client.errors import FixError

CONTRADICTED = "the values contradict their own earlier interval: their mean may have changed"
"""The warning of a confidence sequence that no mean is left to."""


@dataclass(frozen=True)
class _SequenceBound:
    """The interval of a confidence sequence at level δ around the mean, with the standard error of `influence`.

    Raises FixError on δ outside [1e-12, 1), or a metric without limits.
    """

    metric: MeanScore
    delta: float = 0.05
    sequence: ClassVar[type[ConfidenceSequence]]

    def __post_init__(self) -> None:
        check_delta(self.delta)
        self._empty()

    def _empty(self) -> ConfidenceSequence:
        if self.metric.limits is None:
            raise FixError("range: a confidence sequence needs the least and the largest value")
        return self.sequence(self.metric.limits, self.delta)

    def statistic(self) -> MeanStatistic:
        """An empty statistic with an empty confidence sequence."""
        return self.metric.statistic(self._empty())

    def estimate(self, statistic: MeanStatistic) -> Estimate:
        """The estimate from 1 sample or more. Raises as `Bound.estimate` does."""
        found, sequence = InfluenceBound(self.metric, self.delta).estimate(statistic), statistic.sequence
        if sequence is None:
            raise FixError("the statistic has no confidence sequence; make it with bound.statistic()")
        return with_strict_interval(found, *sequence.interval, (CONTRADICTED,) if sequence.is_contradicted else ())


@dataclass(frozen=True)
class EmpiricalBernsteinBound(_SequenceBound):
    """The interval of the empirical Bernstein sequence."""

    sequence = EmpiricalBernstein
    name: str = field(default="empirical-bernstein", init=False)


@dataclass(frozen=True)
class BettingBound(_SequenceBound):
    """The interval of the betting sequence, which is narrower and takes a grid of candidate means."""

    sequence = Betting
    name: str = field(default="betting", init=False)
