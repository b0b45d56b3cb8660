"""The Gaussian statistic of a feature stream: samples, mean, scatter, and the few rows that estimators need, with the
Gram matrix of these."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from optimist.metrics.base import Statistic
from optimist.metrics.spectra.eigen import centre, double_centre
from optimist.metrics.spectra.symmetric import SymmetricSum, times_lower
from optimist.metrics.state import Buffer, LastRows, check_rows
from optimist_client.errors import FixError


@dataclass(frozen=True, eq=False)
class RowMoments:
    """Count, mean (d,) and scatter Σ (x − μ)(x − μ)ᵀ (d, d) of some rows."""

    count: int
    mean: Tensor
    scatter: Tensor

    def without(self, part: RowMoments) -> RowMoments:
        """The moments of the other rows, where `part` is of some of these. Raises FixError if no row is left."""
        count = self.count - part.count
        if count < 1:
            raise FixError("a half needs at least 1 sample")
        shift = part.mean - self.mean
        mean = self.mean - shift * (part.count / count)
        between = shift * math.sqrt(part.count * self.count / count)
        return RowMoments(count, mean, self.scatter - part.scatter - torch.outer(between, between))


GRAM_BLOCK = 32
"""Rows that are whitened, and multiplied by all before them, at once. They are at fixed places, so that the bits of an
estimate do not depend on which estimates were made before it."""
BLOCK = 4096
"""Rows of a batch that are processed at once, which limits the additional memory."""


class GaussianStatistic(Statistic):
    """Mean and scatter of a stream of feature rows, updated one batch at a time by Chan's formula in float64.

    While `samples` ≤ `keep` it holds all rows and no d × d matrix, unless `scatter=True` requests that from the start;
    the batch that exceeds `keep` builds the scatter and, with `halves`, the moments of the samples in even places of
    the log, one triangle more, and drops the rows. The state is a function of the sequence of batches alone:
    reading a property never changes it. Tensors handed out are views of the state: do not write to them.
    """

    held = ("samples", "mean", "_trace", "_head", "_tail", "_scatter", "_even")
    can_merge = True

    def __init__(
        self,
        dimension: int,
        *,
        keep: int = 0,
        first: int = 300,
        last: int = 512,
        scatter: bool = False,
        halves: bool = True,
        device: torch.device | str = "cpu",
    ) -> None:
        if dimension < 1 or min(keep, first, last) < 0:
            raise FixError(f"need dimension ≥ 1 and keep, first, last ≥ 0, not {(dimension, keep, first, last)}")
        self.dimension = dimension
        self.keep = keep
        self.first = first
        self.last = last
        self.halves = halves
        self.layout = (dimension, keep, first, last)
        self.device = torch.device(device)
        self.samples = 0
        self.mean = self._zeros(dimension)
        """Mean of the rows (d,); zeros before the first."""
        self._trace = self._zeros()
        self._scatter = SymmetricSum(dimension, self.device) if scatter else None
        self._head = Buffer(self._zeros(0, dimension), limit=max(keep, first))
        self._tail = LastRows(self._zeros(0, dimension), last)
        self._even: GaussianStatistic | None = None

    @property
    def scatter(self) -> Tensor:
        """Σ (x − μ)(x − μ)ᵀ (d, d), built on demand: from the triangle that is held, or from the rows."""
        if self._scatter is not None:
            return self._scatter.dense()
        centred = self._head.tensor - self.mean
        return centred.T @ centred

    @property
    def triangle(self) -> SymmetricSum:
        """The scatter as a triangle, as which it is held: for readers of every batch. From rows, built on demand."""
        return SymmetricSum.pack(self.scatter) if self._scatter is None else self._scatter

    @property
    def scatter_trace(self) -> float:
        """Tr of the scatter: Σ ‖x − μ‖²."""
        return float(self._trace)

    def mean_and_trace(self) -> tuple[Tensor, float]:
        """Mean (d,), and Σ ‖x − μ‖²; while all rows are held, by these, so that batches change no bit."""
        rows = self.rows
        if rows is None or not len(rows):
            return self.mean, self.scatter_trace
        # By parts that fit into a core's cache. Identical rows have a trace of exactly zero.
        parts = rows.split(GRAM_BLOCK)
        mean = rows[0] + sum(((part - rows[0]).sum(0) for part in parts), self._zeros(self.dimension)) / len(rows)
        return mean, float(sum(((part - mean).square().sum() for part in parts), self._zeros()))

    @property
    def rows(self) -> Tensor | None:
        """All rows (samples, d) in log order while samples ≤ keep, else None."""
        return self._head.tensor if self.holds_rows else None

    @property
    def first_rows(self) -> Tensor:
        """The first min(samples, `first`) rows, in log order."""
        return self._head.tensor[: self.first]

    @property
    def last_rows(self) -> Tensor:
        """The last min(samples, `last`) rows, in log order."""
        # A copy: the last bit of a sum depends on where its rows begin in memory.
        return self._head.tail(self.last) if self.holds_rows else self._tail.tensor

    def latest(self, count: int) -> Tensor | None:
        """A copy of the last `count` rows, in log order; None where not so many are kept."""
        held = self._head if self.holds_rows else self._tail
        return held.tail(count) if count <= len(held) else None

    def half(self, parity: int) -> RowMoments:
        """The moments of the samples in even (0) or odd (1) places of the log.

        Raises FixError where there are none, and where they are not kept.
        """
        if self.holds_rows:
            rows = self._head.tensor[parity::2]
            if not len(rows):
                raise FixError("a half needs at least 1 sample")
            mean, centred = centre(rows)
            return RowMoments(len(rows), mean, centred.T @ centred)
        if self._even is None:
            raise FixError("the halves of the stream are kept only with halves=True")
        even = RowMoments(self._even.samples, self._even.mean, self._even.scatter)
        return even if parity == 0 else RowMoments(self.samples, self.mean, self.scatter).without(even)

    def last_of_half(self, parity: int) -> Tensor:
        """The rows of `last_rows` in even (0) or odd (1) places of the log, in its order."""
        last = self.last_rows
        return last[(self.samples - len(last) + parity) % 2 :: 2]

    @property
    def holds_rows(self) -> bool:
        return self.samples <= self.keep

    @property
    def holds_scatter(self) -> bool:
        """True while the scatter is held, so that reading it costs no product of rows."""
        return self._scatter is not None

    def update(self, batch: Tensor) -> None:
        check_rows("features", batch, self.dimension)
        # One for all blocks: fresh memory takes longer than what is done in it.
        room = self._room(min(len(batch), BLOCK))
        for block in batch.split(BLOCK):
            self._take(block, room)

    def _room(self, count: int) -> Tensor:
        """Memory for `count` rows (d,), and one for the distance between two means."""
        return torch.empty(count + 1, self.dimension, dtype=torch.float64, device=self.device)

    def _take(self, batch: Tensor, room: Tensor) -> None:
        if self.halves:
            self._take_even(batch.to(self.device, torch.float64))
        rows = batch
        if self._scatter is None and self.samples + len(batch) > self.keep:
            # One pass over all rows, so that the scatter does not depend on the batches: just past `keep` the smallest
            # eigenvalues magnify differences of rounding.
            if len(self._head):
                rows = torch.cat([self._head.tensor, batch.to(self.device, torch.float64)])
                room = self._room(len(rows))
            self._begin_scatter()
        self._absorb(rows, room[: len(rows) + 1])
        self._remember(batch)

    def merge(self, other: Self) -> None:
        if self.halves:
            raise FixError("statistics with halves are not merged")
        if other.rows is not None:
            if len(other.rows):
                self.update(other.rows)
            return
        assert other._scatter is not None
        if self._scatter is None:
            rows = self._head.tensor
            self._begin_scatter()
            if len(rows):
                self._absorb(rows, self._room(len(rows)))
        assert self._scatter is not None
        if self.holds_rows:
            self._drop_rows()
        self._head.append(other.first_rows[: self.first - len(self._head)])
        self._tail.append(other.last_rows)
        between = self._move(other.samples, other.mean)
        self._scatter.packed += other._scatter.packed
        self._scatter.add(between[None])
        self._trace = self._trace + other._trace + between.square().sum()

    def _begin_scatter(self) -> None:
        """Begin again, with a scatter."""
        self.samples, self.mean, self._trace = 0, self._zeros(self.dimension), self._zeros()
        self._scatter = SymmetricSum(self.dimension, self.device)

    def _take_even(self, batch: Tensor) -> None:
        """Add the rows of even places to their half, which begins with the batch that exceeds `keep`."""
        if self.samples + len(batch) <= self.keep:
            return
        rows = batch[self.samples % 2 :: 2]
        if self._even is None:
            self._even, rows = self._empty_half(), torch.cat([self._head.tensor, batch])[::2]
        if len(rows):
            self._even.update(rows)

    def _empty_half(self) -> GaussianStatistic:
        return GaussianStatistic(self.dimension, first=0, last=0, scatter=True, halves=False, device=self.device)

    def restore(self, tensors: Mapping[str, Tensor]) -> Self:
        if int(tensors["samples"]) > self.keep:
            self._scatter = SymmetricSum(self.dimension, self.device)
            self._even = self._empty_half() if self.halves else None
        return super().restore(tensors)

    def _absorb(self, rows: Tensor, room: Tensor) -> None:
        """Chan's update of the moments by rows (b ≥ 1, d) of any real dtype; room (b + 1, d) is written to."""
        # About the first row, so that identical rows have a scatter of exactly zero.
        first = rows[0].to(self.device, torch.float64)
        centred = torch.sub(rows.to(self.device), first, out=room[:-1])
        offset = centred.mean(0)
        centred -= offset
        # The distance between the two means is one more row of the same product.
        room[-1] = self._move(len(rows), first + offset)
        if self._scatter is not None:
            self._scatter.add(room)
        self._trace = self._trace + room.square_().sum()

    def _move(self, count: int, mean: Tensor) -> Tensor:
        """The row (d,) that the scatter gets of the distance between the mean and the mean of `count` further samples,
        which are counted."""
        total = self.samples + count
        shift = mean - self.mean
        between = math.sqrt(self.samples * count / total) * shift
        self.mean = self.mean + shift * (count / total)
        self.samples = total
        return between

    def _remember(self, batch: Tensor) -> None:
        """Keep the rows of the newest batch that must be kept."""
        before = self.samples - len(batch)
        if self.holds_rows:
            self._head.append(batch)
            return
        if before <= self.keep:
            self._drop_rows()
        self._head.append(batch[: self.first - len(self._head)])
        self._tail.append(batch)

    def _drop_rows(self) -> None:
        """Go on with the first and the last rows alone."""
        self._tail = LastRows(self._head.tail(self.last), self.last)
        self._head = Buffer(self._head.tensor[: self.first].clone(), limit=self.first)


class KeptGram:
    """ZZᵀ of rows Z = (X − x₀)Rᵀ, where the rows X of a stream only grow, and R (k, d) is a factor.

    Rows behind the last whole block are not kept.
    """

    def __init__(self, factor: Tensor) -> None:
        self._factor = factor
        self._count = 0
        # Buffers that grow by a quarter, of which the first `count` rows, and columns, are kept.
        self._whitened = factor.new_empty(0, len(factor))
        self._gram = factor.new_empty(0, 0)

    @property
    def bytes(self) -> int:
        """Bytes of what is kept."""
        return self._whitened.nbytes + self._gram.nbytes

    def take(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Z (n, k) of all rows (n, d), or of the first n, and the Gram matrix (n, n) of Z minus its mean.

        Z is valid until the next call.
        """
        n, whole = len(rows), len(rows) - len(rows) % GRAM_BLOCK
        whitened, gram = self._room(n)
        for start in range(min(self._count, whole), n, GRAM_BLOCK):
            stop = min(start + GRAM_BLOCK, n)
            whitened[start:stop] = times_lower(rows[start:stop] - rows[0], self._factor)
            block = torch.mm(whitened[start:stop], whitened[:stop].T, out=gram[start:stop, :stop])
            gram[:start, start:stop] = block[:, :start].T
        self._count = max(self._count, whole)
        return whitened, double_centre(gram)

    def _room(self, n: int) -> tuple[Tensor, Tensor]:
        """Rows (n, k) and products (n, n) that begin with those that are kept, in memory that may be written to behind
        these."""
        count = self._count
        if n < count:
            return self._whitened[:n].clone(), self._gram[:n, :n].clone()
        if n > len(self._whitened):
            size = max(n, min(n + n // 4, len(self._factor)))
            grown, products = self._factor.new_empty(size, len(self._factor)), self._factor.new_empty(size, size)
            grown[:count], products[:count, :count] = self._whitened[:count], self._gram[:count, :count]
            self._whitened, self._gram = grown, products
        return self._whitened[:n], self._gram[:n, :n]
