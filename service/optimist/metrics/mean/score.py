"""The mean of the values, with its standard error (decisions.md §2, mean)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor

from optimist.metrics.mean.sequences import ConfidenceSequence
from optimist.metrics.mean.statistic import MeanStatistic
from optimist.metrics.rows import copied
from optimist.metrics.score import Analysis, BaseScore
from optimist_client.metrics.mean import OfValues

FEW = 5.0
"""The variance of the mean is 1 + 5/n times the usual one, because the standard deviation is estimated, too: errors of
Student's distribution are as far from 0 at z = 3."""
_WARNED = 20
"""Samples from which on it is said that rare values may be missing; no decision is made with fewer."""
_RARE = 0.2
"""γ²/n above which rare values decide: for values of two points, one of them with fewer than about five samples."""


class MeanScore(BaseScore):
    """The mean of one number for each sample, which has no bias."""

    def __init__(self, declared: OfValues) -> None:
        self.declared = declared
        self.limits = declared.limits.get(declared.first_array())

    @property
    def widths(self) -> dict[str, int]:
        """One column of "values"."""
        return {"values": 1}

    def statistic(self, sequence: ConfidenceSequence | None = None) -> MeanStatistic:
        """An empty statistic, which also feeds an empty `sequence` if there is one."""
        return MeanStatistic(sequence)

    def restore(self, tensors: dict[str, Tensor]) -> MeanStatistic:
        """The statistic whose `state` was `tensors`. Raises KeyError on missing tensors."""
        return MeanStatistic.from_tensors(tensors)

    def plug_in(self, statistic: MeanStatistic) -> float:
        """The mean. Raises FixError on no samples."""
        self.check(statistic)
        return statistic.mean

    def analyse(self, statistic: MeanStatistic) -> Analysis:
        """The mean and its error, from n ≥ 2 samples. Raises FixError on fewer."""
        return self._analysis(statistic, None)

    def analyse_paired(self, statistic: MeanStatistic, common: Mapping[str, Tensor]) -> Analysis:
        """The same with the influence of the rows "values" (m, 1): their distance from the mean."""
        rows = copied(common["values"], torch.device("cpu")).flatten()
        found = self._analysis(statistic, rows - statistic.mean)
        # Values that repeat may be equal in all pairs of two generators; one more pair could differ by a step.
        step = min(step_of(rows) / (math.sqrt(2.0) * statistic.samples), found.selection_error)
        return replace(found, systematic_selection=step, systematic_stopping=step)

    def _analysis(self, statistic: MeanStatistic, influence: Tensor | None) -> Analysis:
        n, mean = statistic.samples, statistic.mean
        error = math.sqrt(statistic.variance / n * (1.0 + FEW / n))
        if statistic.squares == 0.0 and self.limits is not None:
            # Equal values have no spread; one sample at the farther limit would have had about this one.
            error = max(mean - self.limits[0], self.limits[1] - mean) / n
        return Analysis(
            plug_in=mean,
            estimate=mean,
            selection_error=error,
            stopping_error=error,
            influence=influence,
            value_skewness=statistic.skewness,
            warnings=self._rare_values(statistic),
        )

    def _rare_values(self, statistic: MeanStatistic) -> tuple[str, ...]:
        """What is said where rare values may decide the mean that have not come yet."""
        n, skewness = statistic.samples, statistic.skewness
        if n < _WARNED:
            return ()
        if statistic.squares == 0.0:
            return () if self.limits else (f"all {n:,} values are equal: rare other ones may decide the mean",)
        if skewness**2 <= _RARE * n:
            return ()
        return (f"rare values decide the mean (skewness {skewness:.1f} of {n:,} samples): more of them may come",)


def step_of(values: Tensor) -> float:
    """By how much a value of `values` (m,) differs from the nearest other one, as a root mean square over all of them.

    A value that occurs once counts as 0: continuous values are not equal by chance. 0 where all values are equal.
    """
    levels, counts = torch.unique(values, return_counts=True)
    if len(levels) < 2:
        return 0.0
    gaps, end = levels.diff(), levels.new_full((1,), math.inf)
    nearest = torch.minimum(torch.cat([end, gaps]), torch.cat([gaps, end]))
    return math.sqrt(float((nearest.square() * counts * (counts > 1)).sum()) / len(values))
