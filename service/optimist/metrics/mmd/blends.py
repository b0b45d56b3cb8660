"""MMD² of blends: L(α) = ‖Σ α_i E φ − m‖² (docs/mixtures.md)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from optimist.metrics.mixtures.objective import Common, Half
from optimist.metrics.mixtures.shared_chance import SharedChance
from optimist.metrics.rows import copied
from optimist.metrics.vendi.pair_objective import ROWS, PairObjective, Seen, checked, places_in
from optimist.metrics.vendi.statistic import KernelStatistic
from optimist.numerics.mixtures.quadratic import Floats

if TYPE_CHECKING:
    from optimist.metrics.mmd.score import MeanDiscrepancy


class CentredKernel:
    """κ(x, y) = factor · (φ(x) − m)ᵀ(φ(y) − m), by the sums of φ: `Pairs`. m is the mean of real data, taken as exact.

    As weights sum to 1, this is the quadratic loss with kernel k and linear part −2 Σ_y k(x, y) over real rows y.
    """

    is_log = False

    def __init__(
        self,
        metric: MeanDiscrepancy,
        statistics: Sequence[KernelStatistic],
        half: Half | None,
        common: Sequence[Common | None] = (),
    ) -> None:
        for statistic in statistics:
            metric.check(statistic)
        samples = [statistic.samples for statistic in statistics]
        checked(samples)
        self.share = SharedChance.of(samples, common).share
        self._metric, self._statistics, self._half = metric, statistics, half
        parts = [statistic.part(half) for statistic in statistics]
        self.samples = tuple(part.count for part in parts)
        self._sums = [part.last_column[:-1] for part in parts]
        self._gaps = [total - n * metric.real.mean for n, total in zip(self.samples, self._sums, strict=True)]
        self._common = [None if rows is None else self._common_features(rows) for rows in common]
        self.constant = -metric.factor * metric.real.excess

    def total(self, i: int, j: int) -> float:
        """By the sums."""
        return self._metric.factor * float(self._gaps[i] @ self._gaps[j])

    def unbiased(self, i: int) -> float:
        """As in an estimate of this generator alone."""
        n, mean = self.samples[i], self._metric.real.mean
        own = n * (1.0 + float(mean @ mean)) - 2.0 * float(self._sums[i] @ mean)
        return (self.total(i, i) - self._metric.factor * own) / (n * (n - 1))

    def features(self, i: int) -> tuple[Tensor, Tensor]:
        """φ − m of the last rows."""
        rows = self._statistics[i].last_rows[-ROWS:]
        centred = rows[:, :-1] - self._metric.real.mean
        return centred, places_in(self._statistics[i].samples, len(rows), self._half, rows.device)

    def common(self, i: int) -> tuple[Tensor, Tensor] | None:
        """φ − m of the common rows. Places in the log count as those of the indices."""
        rows = self._common[i] if self._common else None
        return None if rows is None else (rows, places_in(len(rows), len(rows), self._half, rows.device))

    def seen(self, features: Tensor, j: int) -> Tensor:
        """By the sum of the samples of j."""
        return self._metric.factor * (features @ self._gaps[j])

    def weighed(self, i: int, influence: Tensor, common: bool) -> Tensor:
        """As they are."""
        del i, common
        return influence

    def glimpsed(self, features: Tensor, j: int) -> Tensor:
        """Over all samples."""
        return self.seen(features, j) / self.samples[j]

    def blend(self, shares: Floats) -> Seen:
        """By the weighted sum of the sums."""
        gap = torch.stack([float(share) * gap for share, gap in zip(shares, self._gaps, strict=True)]).sum(0)
        return lambda features: self._metric.factor * (features @ gap)

    def itself(self, features: Tensor) -> Tensor:
        """factor · ‖φ − m‖²."""
        return self._metric.factor * features.square().sum(-1)

    def matched(self, features: Tensor, others: Tensor) -> Tensor:
        """Products row by row."""
        return self._metric.factor * (features * others).sum(-1)

    def _common_features(self, rows: Common) -> Tensor:
        real = self._metric.real
        return real.feature_map.plain(copied(rows["features"], real.feature_map.device)) - real.mean


def mean_objective(
    metric: MeanDiscrepancy,
    statistics: Sequence[KernelStatistic],
    half: Half | None = None,
    common: Sequence[Common | None] = (),
) -> PairObjective:
    """`Score.objective` of MMD², raises as that does."""
    return PairObjective(CentredKernel(metric, statistics, half, common))
