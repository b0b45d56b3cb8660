"""The Gaussian statistic of a feature stream: samples, mean, scatter, and the few rows that estimators ask for."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from optimist.numerics.rows import LastRows, Rows, check_rows

BLOCK = 4096
"""Rows of a batch that are taken at once: what a larger one needs beside itself is bounded."""


class GaussianStatistic:
    """Mean and scatter of a stream of feature rows, updated one batch at a time by Chan's formula in float64.

    While `samples` ≤ `keep` all rows are held and no d × d matrix is, unless `scatter=True` asks for it from the start;
    the batch that passes `keep` has the scatter built and the rows dropped. The state is a function of the sequence of
    batches alone: reading a property never changes it. Tensors handed out are views of the state: do not write to them.
    """

    def __init__(
        self,
        dimension: int,
        *,
        keep: int = 0,
        first: int = 300,
        last: int = 512,
        scatter: bool = False,
        device: torch.device | str = "cpu",
    ) -> None:
        if dimension < 1 or min(keep, first, last) < 0:
            raise ValueError(f"need dimension ≥ 1 and keep, first, last ≥ 0, not {(dimension, keep, first, last)}")
        self.dimension = dimension
        self.keep = keep
        self.first = first
        self.last = last
        self.device = torch.device(device)
        self._samples = 0
        self._mean = self._zeros(dimension)
        self._trace = self._zeros()
        self._scatter: Tensor | None = self._zeros(dimension, dimension) if scatter else None
        self._head = Rows(self._zeros(0, dimension), limit=max(keep, first))
        self._tail = LastRows(self._zeros(0, dimension), last)

    @property
    def samples(self) -> int:
        """Rows seen."""
        return self._samples

    @property
    def mean(self) -> Tensor:
        """Mean of the rows (d,); zeros before the first."""
        return self._mean

    @property
    def scatter(self) -> Tensor:
        """Σ (x − μ)(x − μ)ᵀ (d, d); built from the rows on demand while no matrix is held."""
        if self._scatter is not None:
            return self._scatter
        centred = self._head.view() - self._mean
        return centred.T @ centred

    @property
    def scatter_trace(self) -> float:
        """Σ ‖x − μ‖²."""
        return float(self._trace)

    @property
    def rows(self) -> Tensor | None:
        """All rows (samples, d) in log order while samples ≤ keep, else None."""
        return self._head.view() if self._samples <= self.keep else None

    @property
    def first_rows(self) -> Tensor:
        """The first min(samples, `first`) rows, in log order."""
        return self._head.view()[: self.first]

    @property
    def last_rows(self) -> Tensor:
        """The last min(samples, `last`) rows, in log order."""
        # A copy: the last bit of a sum depends on where its rows begin in memory.
        return self._head.tail(self.last) if self._samples <= self.keep else self._tail.copy()

    def latest(self, count: int) -> Tensor | None:
        """A copy of the last `count` rows, in log order; None where not so many are kept."""
        held = self._head if self._samples <= self.keep else self._tail
        return held.tail(count) if count <= len(held) else None

    @property
    def holds_scatter(self) -> bool:
        """Whether the matrix is held, so that reading it costs nothing."""
        return self._scatter is not None

    def covariance(self, unbiased: bool) -> Tensor:
        """The scatter over n − 1 (`unbiased`) or n, (d, d). Raises ValueError with fewer samples than that needs."""
        degrees = self._samples - int(unbiased)
        if degrees < 1:
            raise ValueError(f"the covariance of {self._samples} samples with unbiased={unbiased} is not defined")
        return self.scatter / degrees

    def update(self, batch: Tensor) -> None:
        """Add a batch (b, d) of any real dtype, b ≥ 1. Raises ValueError, changing nothing, on anything else."""
        check_rows("features", batch, self.dimension)
        for block in batch.split(BLOCK):
            self._take(block.to(self.device, torch.float64))

    def _take(self, batch: Tensor) -> None:
        rows = batch
        if self._scatter is None and self._samples + len(batch) > self.keep:
            # One pass over all rows, so that the scatter begins the same however they were batched: just past `keep`
            # the smallest eigenvalues magnify what rounding there is.
            rows = torch.cat([self._head.view(), batch])
            self._samples, self._mean, self._trace = 0, self._zeros(self.dimension), self._zeros()
            self._scatter = self._zeros(self.dimension, self.dimension)
        # Means are taken about the first row, so that identical rows have a scatter of exactly zero.
        centred = rows - rows[0]
        offset = centred.mean(0)
        self._absorb(len(rows), rows[0] + offset, centred - offset, None)
        self._remember(len(batch), batch, batch)

    def merge(self, other: GaussianStatistic) -> None:
        """Add all that `other` has seen, as if its batches came after these. Raises ValueError on another layout."""
        if self._layout()[1:] != other._layout()[1:]:
            raise ValueError("only statistics of the same dimension, keep, first and last can be merged")
        if other.samples == 0:
            return
        rows = other.rows
        start = other.first_rows if rows is None else rows
        if rows is None or (self._scatter is not None and other._scatter is not None):
            self._absorb(other.samples, other.mean, self._zeros(0, self.dimension), other)
        else:
            self._absorb(other.samples, other.mean, rows - other.mean, None)
        self._remember(other.samples, start, other.last_rows)

    def state(self) -> dict[str, Tensor]:
        """See `Statistic.state`: `layout` (int64), the rest float64."""
        tensors = {
            "layout": torch.tensor(self._layout(), dtype=torch.int64),
            "mean": self._mean,
            "trace": self._trace,
            "head": self._head.view(),
        }
        if self._scatter is not None:
            tensors["scatter"] = self._scatter
        if self._samples > self.keep:
            tensors["tail"] = self.last_rows
        return tensors

    def to_tensors(self) -> dict[str, Tensor]:
        """See `Statistic.to_tensors`."""
        return {name: tensor.clone() for name, tensor in self.state().items()}

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor], device: torch.device | str = "cpu") -> GaussianStatistic:
        """The inverse of `to_tensors`, bit for bit, for every later update too. Raises KeyError on missing tensors."""
        samples, dimension, keep, first, last = tensors["layout"].tolist()
        statistic = cls(dimension, keep=keep, first=first, last=last, device=device)
        state = {name: tensor.to(device, copy=True) for name, tensor in tensors.items()}
        statistic._samples = samples
        statistic._mean = state["mean"]
        statistic._trace = state["trace"]
        statistic._head = Rows(state["head"], limit=max(keep, first))
        statistic._scatter = state.get("scatter")
        if samples > keep:
            statistic._tail = LastRows(state["tail"], last)
        return statistic

    def _layout(self) -> tuple[int, int, int, int, int]:
        return (self._samples, self.dimension, self.keep, self.first, self.last)

    def _zeros(self, *shape: int) -> Tensor:
        return torch.zeros(shape, dtype=torch.float64, device=self.device)

    def _absorb(self, count: int, mean: Tensor, centred: Tensor, other: GaussianStatistic | None) -> None:
        """Chan's update of the moments by `count` rows of that mean: `centred` are they less it, unless `other` has
        their scatter and trace.
        """
        total = self._samples + count
        shift = mean - self._mean
        # The distance between the two means is one more row of the same GEMM.
        between = math.sqrt(self._samples * count / total) * shift
        centred = torch.cat([centred, between[None]])
        if total > self.keep and self._scatter is None:
            self._scatter = self.scatter
        if self._scatter is not None:
            self._scatter.addmm_(centred.T, centred)
        self._trace = self._trace + centred.square().sum()
        if other is not None:
            self._trace = self._trace + other._trace
            if self._scatter is not None:
                self._scatter += other.scatter
        self._mean = self._mean + shift * (count / total)
        self._samples = total

    def _remember(self, count: int, start: Tensor, end: Tensor) -> None:
        """Keep what must be kept of `count` rows just absorbed, given their earliest (all, while kept) and latest."""
        before = self._samples - count
        if self._samples <= self.keep:
            self._head.append(start)
            return
        if before <= self.keep:
            self._tail = LastRows(self._head.tail(self.last), self.last)
            self._head = Rows(self._head.view()[: self.first].clone(), limit=self.first)
        self._head.append(start[: self.first - len(self._head)])
        self._tail.append(end)
