"""The kernel Inception distance."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor

from optimist.metrics.kid.reference import RealRows, cubic
from optimist.metrics.kid.statistic import BLOCK, BlockStatistic
from optimist.metrics.pair_sums import PooledMean, standard_error
from optimist.metrics.rows import copied
from optimist.metrics.score import Analysis, BaseScore, linear_share
from optimist.numerics.pairing import COMMON, LATER
from optimist.numerics.skewness import skewness
from optimist_client.errors import FixError
from optimist_client.metrics import KID


class KernelDistance(BaseScore):
    """KID to real rows, lower is better: unbiased, hence also below 0, with the exact variance of every block."""

    declared = KID

    def __init__(self, real: RealRows, block: int = BLOCK) -> None:
        self.real = real
        self.block = block

    @property
    def widths(self) -> dict[str, int]:
        """d columns of "features"."""
        return {"features": self.real.dimension}

    def statistic(self) -> BlockStatistic:
        """An empty statistic on the reference's device."""
        return BlockStatistic(self.real, self.block)

    def restore(self, tensors: dict[str, Tensor]) -> BlockStatistic:
        """The statistic whose `state` was `tensors`. Raises KeyError or ValueError as `from_tensors` does."""
        return BlockStatistic.from_tensors(tensors, self.real)

    def check(self, statistic: BlockStatistic) -> None:
        """Raises FixError unless the statistic has samples and the layout that `statistic` gives."""
        super().check(statistic)
        if (statistic.real.dimension, statistic.block) != (self.real.dimension, self.block):
            raise FixError("the statistic is laid out for another metric; make it with metric.statistic()")

    def plug_in(self, statistic: BlockStatistic) -> float:
        """The published formula, which is unbiased; of 1 sample the biased one. Raises as `check` does."""
        self.check(statistic)
        if statistic.samples > 1:
            return PooledMean.of(statistic.blocks).mean
        row = statistic.rows
        return float(cubic(row, row) - 2.0 * self.real.witness(row)) + self.real.similarity

    def analyse(self, statistic: BlockStatistic) -> Analysis:
        """The value and its error, from n ≥ 2 samples. Raises FixError on fewer and as `check` does."""
        self.check(statistic)
        if statistic.samples < 2:
            raise FixError("KID needs at least 2 samples")
        found = PooledMean.of(statistic.blocks)
        variance = found.linear + found.quadratic
        error = standard_error(variance, statistic.samples)
        # Rows that are too rare for the samples to have any are among the real ones.
        skewed = float(skewness(statistic.row_means.cpu().numpy())), self.real.skewness
        return Analysis(
            plug_in=found.mean,
            estimate=found.mean,
            selection_error=error,
            stopping_error=error,
            first_order=linear_share(found.linear, variance),
            skewness=max(skewed, key=abs),
        )

    def analyse_paired(self, statistic: BlockStatistic, common: Mapping[str, Tensor]) -> Analysis:
        """The same with the influence of the rows "features" (m, d), by the rows that the statistic still holds."""
        held = statistic.last_rows
        newest = held[-LATER:] if statistic.samples > COMMON else held[:0]  # before that all have common indices
        influence, recent = (
            2.0 * (_mean_kernel(rows, held) - self.real.witness(rows))
            for rows in (copied(common["features"], self.real.device), newest)
        )
        return replace(
            self.analyse(statistic),
            influence=influence,
            recent=recent,
            reference=-2.0 / math.sqrt(len(self.real.rows)) * statistic.with_some,
        )


def _mean_kernel(rows: Tensor, samples: Tensor) -> Tensor:
    """The mean kernel (m,) of rows (m, d) with samples (n, d), without the sample that a row itself is."""
    norms = samples.square().sum(1)
    nearest = (norms - 2.0 * rows @ samples.T).argmin(1)
    itself = (samples[nearest] == rows).all(1)
    kernel = cubic(rows, samples)
    own = torch.where(itself, kernel.gather(1, nearest[:, None])[:, 0], 0.0)
    return (kernel.sum(1) - own) / (len(samples) - itself.to(kernel.dtype)).clamp_min(1.0)
