"""The pair sums of MMD² from a statistic of [φ, 1] (equations.md §6)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from optimist.metrics.pair_sums import PairSums
from optimist.metrics.vendi.statistic import KernelStatistic


@dataclass(frozen=True)
class Moments:
    """What is known of n features φ, ‖φ‖ = 1, against a mean m (w,): s = Σφ and C = Σφφᵀ through some products."""

    n: int
    total: Tensor
    """s (w,)."""
    with_mean: Tensor
    """C m (w,)."""
    with_total: Tensor
    """C s (w,)."""
    square: float
    """‖C‖_F²."""

    def sums(self, mean: Tensor) -> PairSums:
        """Those of q_ab = (φ_a − m)ᵀ(φ_b − m)."""
        n, s, cm = self.n, self.total, self.with_mean
        size, along, within = float(mean @ mean), float(s @ mean), float(mean @ cm)
        gap = s - n * mean
        length = float(gap @ gap)
        a = 1.0 + size
        own = n * a - 2.0 * along
        own_squares = n * a**2 - 4.0 * a * along + 4.0 * within
        crossed = a * length - 2.0 * float((cm - along * mean) @ gap)
        image = self.with_total - n * cm - float(mean @ gap) * s - float(s @ gap) * mean
        image += n * float(mean @ gap) * mean
        square = self.square - 4.0 * float(s @ cm) + 2.0 * n * within
        square += 2.0 * float(s @ s) * size + 2.0 * along**2 - 4.0 * n * along * size + (n * size) ** 2
        return PairSums(
            n,
            total=length - own,
            row_squares=float(gap @ image) - 2.0 * crossed + own_squares,
            squares=square - own_squares,
        )


def pair_sums(statistic: KernelStatistic, mean: Tensor) -> PairSums:
    """Those of the samples against a mean (w,) of φ: of all rows while they are held, then of the moments."""
    rows = statistic.rows
    if rows is None:
        return moments_of(statistic, mean).sums(mean)
    centred = rows[:, :-1] - mean
    products = (centred @ centred.T).fill_diagonal_(0.0)
    by_row = products.sum(1)
    return PairSums(
        len(rows),
        total=float(by_row.sum()),
        row_squares=float(by_row.square().sum()),
        squares=float(products.square().sum()),
    )


def moments_of(statistic: KernelStatistic, mean: Tensor) -> Moments:
    """The products of the second moment of [φ, 1] that `Moments` holds."""
    n, total = statistic.samples, total_of(statistic)
    asked = torch.stack([mean, total])
    with_mean, with_total = statistic.times(torch.cat([asked, asked.new_zeros(2, 1)], dim=1))[:, :-1]
    square = statistic.square_sum - 2.0 * float(total @ total) - float(n) ** 2
    return Moments(n, total, with_mean, with_total, square)


def total_of(statistic: KernelStatistic) -> Tensor:
    """Σφ (w,)."""
    rows = statistic.rows
    if rows is not None:
        return rows[:, :-1].sum(0)
    last = torch.zeros(1, statistic.width, dtype=torch.float64, device=statistic.feature_map.device)
    last[0, -1] = 1.0
    return statistic.times(last)[0, :-1]
