"""KID: MMD² by the cubic kernel, from pair sums of blocks of consecutive rows (equations.md §6)."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from optimist.estimates.pairing import COMMON, LATER
from optimist.estimates.skewness import skewness
from optimist.metrics.base import Analysis, Score, Statistic, linear_share
from optimist.metrics.implementations import Setting, reference_of
from optimist.metrics.mixtures.objective import Common
from optimist.metrics.pair_sums import PairSums, PooledMean, standard_error
from optimist.metrics.state import Buffer, check_rows, check_size, copied
from optimist.references.real_data import RealData, Reference
from optimist_client.errors import FixError
from optimist_client.metrics import KID
from optimist_client.references import some_places

LARGEST = 1e20
"""Largest entry of a row: squares of the kernel then fit a float64."""
SCALE = ", as the cubic kernel grows with its sixth power: scale them"


def cubic(rows: Tensor, others: Tensor) -> Tensor:
    """The kernel (xᵀy/d + 1)³ (n, m) of rows (n, d) and (m, d)."""
    kernel = (rows @ others.T).div_(rows.shape[1]).add_(1.0)
    return kernel.square().mul_(kernel)


class RealRows(Reference):
    """Real rows (m, d), float64, m ≥ 2, and their mean kernel. Raises FixError on huge entries.

    `similarity` is the mean kernel over different rows, unbiased. Like the mean over samples, it is taken within blocks
    of `block` consecutive rows, in an order that `seed` 0 draws: its cost is linear in m.
    """

    def __init__(self, rows: NDArray[np.float64], device: torch.device | str, block: int) -> None:
        self.rows = torch.from_numpy(rows).to(device, torch.float64)
        self.device = self.rows.device
        self.dimension = rows.shape[1]
        check_size("reference", self.rows, LARGEST, SCALE)
        order = torch.from_numpy(np.random.default_rng(0).permutation(len(rows)))
        total, pairs = 0.0, 0
        means: list[Tensor] = []
        for chosen in order.split(block):
            part = self.rows[chosen.to(self.rows.device)]
            by_row = torch.cat([_beside(some, part, index) for index, some in enumerate(part.split(PIECE))])
            total += float(by_row.sum())
            pairs += len(part) * (len(part) - 1)
            if len(part) == min(block, len(rows)):
                means.append(by_row / (len(part) - 1))
        self.similarity = total / pairs
        self.skewness = float(skewness(torch.cat(means).cpu().numpy()))
        """The skewness of the mean kernel of a real row with others: as large as rare rows among the samples have."""
        self.some = self.rows[torch.from_numpy(some_places(len(rows))).to(self.rows.device)]
        """A random choice of the rows (k, d)."""

    def witness(self, rows: Tensor) -> Tensor:
        """The mean kernel (b,) of rows (b, d) with the real ones."""
        # Some real rows at a time, which limits the memory.
        return torch.stack([cubic(rows, some).sum(1) for some in self.rows.split(1024)]).sum(0) / len(self.rows)


def _beside(some: Tensor, part: Tensor, index: int) -> Tensor:
    """The sum of the kernel (p,) of rows with the others of a part, of which they are the piece at this place."""
    kernel = cubic(some, part)
    kernel.diagonal(index * PIECE).zero_()
    return kernel.sum(1)


BLOCK = 2000
"""Rows of a block: all their pairs count. Pairs of rows of different blocks do not."""
PIECE = 256
"""Rows whose kernels with others are computed at once."""
KEPT = 512
"""Last rows of the block before the open one that are kept, to know the mean kernel of a row with the samples."""


class BlockStatistic(Statistic):
    """Sums of q_ab = k_ab − h_a − h_b + c over the pairs of each block; h: mean kernel with real rows, c: among these.

    A row costs (rows of the open block + real rows) · d multiplications, a statistic at most (block + 512) · d numbers.
    The state is a function of the sequence of batches alone. Tensors handed out are views: do not write to them.
    """

    held = (
        *("samples", "_rows", "_witness", "_row_sums", "_squares"),
        *("_closed", "_before", "_means_before", "_with_some"),
    )
    can_merge = True

    def __init__(self, real: RealRows, block: int = BLOCK) -> None:
        if block < 4:
            raise FixError(f"need a block of at least 4 rows, not {block}")
        self.real, self.device = real, real.device
        self.block = block
        self.layout = (real.dimension, block)
        self.samples = 0
        self._closed = self._zeros(0, 4)  # the numbers of the sums of each whole block
        self._before, self._means_before = self._zeros(0, real.dimension), self._zeros(0)
        self._with_some = self._zeros(len(real.some))
        self._open()

    @property
    def blocks(self) -> list[PairSums]:
        """The sums of all blocks, the open one last."""
        sums = self._row_sums
        square = float(sums.square().sum())
        closed = [PairSums(int(n), *rest) for n, *rest in self._closed.tolist()]
        return [*closed, PairSums(len(self._rows), float(sums.sum()), square, float(self._squares))]

    @property
    def rows(self) -> Tensor:
        """The rows (k, d) of the open block, in log order."""
        return self._rows.tensor

    @property
    def last_rows(self) -> Tensor:
        """The rows of the open block, after the last ones of the block before it."""
        return torch.cat([self._before, self.rows])

    @property
    def row_means(self) -> Tensor:
        """The mean q of each of `last_rows` (k,) with the others of its block, half its influence."""
        return torch.cat([self._means_before, self._row_sums / max(len(self._rows) - 1, 1)])

    @property
    def with_some(self) -> Tensor:
        """The mean kernel (k,) of each of the reference's `some` rows with all samples."""
        return self._with_some / self.samples

    def update(self, batch: Tensor) -> None:
        check_rows("features", batch, self.real.dimension)
        check_size("features", batch, LARGEST, SCALE)
        while len(batch):
            take = min(PIECE, self.block - len(self._rows))
            self._add(copied(batch[:take], self.real.device))
            batch = batch[take:]

    def merge(self, other: Self) -> None:
        """As `Statistic.merge` has it. The open block goes on with the open block of the other one, so that its blocks
        differ from the blocks of all samples in their order, but are as good."""
        rows = other.rows
        if len(other._closed):
            self._closed = torch.cat([self._closed, other._closed])
            self._before, self._means_before = other._before, other._means_before
            self._with_some = self._with_some + other._with_some - cubic(rows, self.real.some).sum(0)
            self.samples += other.samples - len(rows)
        if len(rows):
            self.update(rows)

    def _open(self) -> None:
        self._rows = Buffer(self._zeros(0, self.real.dimension), limit=self.block)
        self._witness, self._row_sums = self._zeros(0), self._zeros(0)
        self._squares = self._zeros()

    def _add(self, rows: Tensor) -> None:
        """Take rows (p, d) that the open block has room for."""
        witness, c = self.real.witness(rows), self.real.similarity
        across = cubic(rows, self.rows).sub_(witness[:, None]).sub_(self._witness).add_(c)
        within = cubic(rows, rows).sub_(witness[:, None]).sub_(witness).add_(c)
        within.fill_diagonal_(0.0)
        self._row_sums = torch.cat([self._row_sums + across.sum(0), across.sum(1) + within.sum(1)])
        self._squares = self._squares + 2.0 * across.square().sum() + within.square().sum()
        self._witness = torch.cat([self._witness, witness])
        self._with_some = self._with_some + cubic(rows, self.real.some).sum(0)
        self._rows.append(rows)
        self.samples += len(rows)
        if len(self._rows) == self.block:
            closed = self.blocks[-1]
            numbers = [closed.n, closed.total, closed.row_squares, closed.squares]
            self._closed = torch.cat([self._closed, self._closed.new_tensor([numbers])])
            self._before, self._means_before = self._rows.tail(KEPT), self.row_means[-KEPT:].clone()
            self._open()


class KernelDistance(Score):
    """KID to real rows, lower is better: unbiased, hence also below 0, with the exact variance of every block."""

    declared = KID

    def __init__(self, real: RealRows, block: int = BLOCK) -> None:
        self.real, self.block = real, block
        self.widths = {"features": real.dimension}

    def statistic(self) -> BlockStatistic:
        return BlockStatistic(self.real, self.block)

    def plug_in(self, statistic: BlockStatistic) -> float:
        """The published formula, which is unbiased; of 1 sample the biased one. Raises as `check` does."""
        self.check(statistic)
        if statistic.samples > 1:
            return PooledMean.from_blocks(statistic.blocks).mean
        row = statistic.rows
        return float(cubic(row, row) - 2.0 * self.real.witness(row)) + self.real.similarity

    def analyse(self, statistic: BlockStatistic, common: Common | None = None) -> Analysis:
        """The influence of common rows is by the rows that are still held."""
        self.check(statistic, min_samples=2)
        pooled = PooledMean.from_blocks(statistic.blocks)
        variance = pooled.linear + pooled.quadratic
        error = standard_error(variance, statistic.samples)
        # Rows that are too rare for the samples to have any are among the real ones.
        skewed = float(skewness(statistic.row_means.cpu().numpy())), self.real.skewness
        analysis = Analysis(
            plug_in=pooled.mean,
            estimate=pooled.mean,
            selection_error=error,
            stopping_error=error,
            first_order=linear_share(pooled.linear, variance),
            skewness=max(skewed, key=abs),
            recent=2.0 * statistic.row_means[-LATER:],
        )
        if common is None:
            return analysis
        held = statistic.last_rows
        newest = held[-LATER:] if statistic.samples > COMMON else held[:0]  # before that all have common indices
        influence, recent = (
            2.0 * (_mean_kernel(rows, held) - self.real.witness(rows))
            for rows in (copied(common["features"], self.real.device), newest)
        )
        return replace(
            analysis,
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


def make(declared: KID, setting: Setting) -> KernelDistance:
    """The distance to the metric's reference, which determines the width. Raises FixError without a reference."""
    del setting
    return KernelDistance(reference_of(declared, RealRows))


def reference(declared: KID, data: RealData, device: torch.device | str) -> RealRows:
    """The real rows and their mean kernel. Raises FixError without rows, and on huge ones."""
    return RealRows(data.rows_for(declared.name), device, BLOCK)
