"""Precision, density and coverage: higher is better (equations.md §7)."""

from __future__ import annotations

import hashlib
import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from optimist.metrics.neighbours.balls import Balls
from optimist.metrics.neighbours.coverage import FEW, CoverageAnalysis, analyse_coverage
from optimist.metrics.neighbours.statistic import CoverageStatistic, HitStatistic, pack, unpack
from optimist.metrics.score import Analysis, BaseScore, Identity
from optimist_client.errors import FixError
from optimist_client.metrics import Coverage, Density, Metric, Precision


@dataclass(frozen=True, kw_only=True)
class ShareAnalysis(Analysis):
    """The numbers of one analysis of a mean."""

    plain_error: float
    """Standard deviation by 1/(n − 1), over √n."""


class NeighbourScore(BaseScore):
    """What the scores share: their balls, and the balls of common rows, which are found once."""

    def __init__(self, balls: Balls) -> None:
        self.balls = balls
        self._known: WeakKeyDictionary[Any, dict[bytes, Tensor]] = WeakKeyDictionary()

    @property
    def widths(self) -> dict[str, int]:
        """d columns of "features"."""
        return {"features": self.balls.dimension}

    def check(self, statistic: Any) -> None:
        """Raise FixError unless the statistic has samples, and counts in the same balls."""
        mine, its = self.balls, statistic.balls
        if mine.neighbours != its.neighbours or not torch.equal(mine.digest, its.digest):
            raise FixError("the statistic is laid out for another reference; make it with metric.statistic()")
        super().check(statistic)

    def analyse(self, statistic: Any) -> Analysis:
        """The score with its error, from n ≥ 2 samples. Raises FixError on fewer, or on another statistic."""
        self._check_two(statistic)
        return self._analysis(statistic, None)

    def analyse_paired(self, statistic: Any, common: Mapping[str, Tensor]) -> Analysis:
        """The same with the influence of the rows "features" (m, d). Raises as `analyse` does."""
        self._check_two(statistic)
        return self._analysis(statistic, self._inside(statistic, common["features"]))

    def identity(self) -> Identity:
        """The rows of the reference."""
        return [("reference", (self.balls.digest,))]

    @abstractmethod
    def _analysis(self, statistic: Any, common: Tensor | None) -> Analysis:
        """The analysis; common: which balls the common rows are inside (·, m), bool."""

    def _check_two(self, statistic: Any) -> None:
        self.check(statistic)
        if statistic.samples < 2:
            raise FixError("the error of 1 sample is not defined")

    def _inside(self, statistic: Any, rows: Tensor) -> Tensor:
        """Which balls rows (b, d) are inside (b, m), bool; those of the last call are remembered."""
        known = self._known.get(statistic, {})
        names = [hashlib.blake2b(row.numpy().data, digest_size=16).digest() for row in rows.cpu().double().contiguous()]
        fresh = {name: place for place, name in enumerate(names) if name not in known}
        if fresh:
            packed = torch.cat([pack(inside) for inside in self.balls.inside(rows[list(fresh.values())])])
            known = known | dict(zip(fresh, packed, strict=True))
        self._known[statistic] = {name: known[name] for name in names}
        return unpack(torch.stack([known[name] for name in names]), self.balls.count)


class MeanOfHits(NeighbourScore):
    """The mean of s/`unit`, where s is the number of balls that a sample is inside, counted up to `most`."""

    most: ClassVar[int]

    @property
    @abstractmethod
    def unit(self) -> int:
        """The value of s that counts as 1."""

    def statistic(self) -> HitStatistic:
        """An empty statistic."""
        return HitStatistic(self.balls, self.most)

    def restore(self, tensors: dict[str, Tensor]) -> HitStatistic:
        """The statistic whose `state` was `tensors`. Raises KeyError or ValueError on other tensors."""
        return HitStatistic.from_tensors(tensors, self.balls)

    def plug_in(self, statistic: HitStatistic) -> float:
        """The mean, from 1 sample or more."""
        self.check(statistic)
        return int(statistic.sums[0]) / (statistic.samples * self.unit)

    def _analysis(self, statistic: HitStatistic, common: Tensor | None) -> ShareAnalysis:
        n, unit, mean = statistic.samples, self.unit, self.plug_in(statistic)
        total, squares = statistic.sums.tolist()
        # Whole numbers of any size: no cancellation.
        variance = (n * squares - total**2) / (n * (n - 1) * unit**2)
        # With two more samples, of 0 and of 1: a score is not certain because all samples so far are alike.
        with_two = ((n + 2) * (squares + unit**2) - (total + unit) ** 2) / ((n + 2) ** 2 * unit**2)
        error = math.sqrt(max(variance, with_two) / n * (1.0 + FEW / n))
        # Scores of whole steps may be equal in all pairs of two generators; one more pair could differ by a step.
        step = min(1.0 / (math.sqrt(2.0) * n * unit), error)
        return ShareAnalysis(
            plug_in=mean,
            estimate=mean,
            plain_error=math.sqrt(variance / n),
            selection_error=error,
            stopping_error=error,
            systematic_selection=step,
            systematic_stopping=step,
            influence=None if common is None else common.sum(1).clamp_max(self.most).double() / unit,
        )


class PrecisionScore(MeanOfHits):
    """The share of samples that are inside a ball."""

    declared = Precision
    most = 1

    @property
    def unit(self) -> int:
        """1."""
        return 1


class DensityScore(MeanOfHits):
    """The mean number of balls that a sample is inside, divided by k."""

    declared: type[Metric] | Metric = Density
    most = 2**31

    @property
    def unit(self) -> int:
        """k."""
        return self.balls.neighbours


class CoverageScore(NeighbourScore):
    """The share of balls that `at` samples reach."""

    declared = Coverage

    def __init__(self, balls: Balls, at: int) -> None:
        super().__init__(balls)
        self.at = at

    def statistic(self) -> CoverageStatistic:
        """An empty statistic."""
        return CoverageStatistic(self.balls)

    def restore(self, tensors: dict[str, Tensor]) -> CoverageStatistic:
        """The statistic whose `state` was `tensors`. Raises KeyError or ValueError on other tensors."""
        return CoverageStatistic.from_tensors(tensors, self.balls)

    def plug_in(self, statistic: CoverageStatistic) -> float:
        """The share of balls that the n samples reach, which grows with n; from 1 sample or more."""
        self.check(statistic)
        return float((statistic.counts > 0).double().mean())

    def _analysis(self, statistic: CoverageStatistic, common: Tensor | None) -> CoverageAnalysis:
        n, k = statistic.samples, self.balls.neighbours
        return analyse_coverage(statistic.counts, n, self.at, k, statistic.last, common)
