"""Tr f of the scatter of a growing set of rows, by the fastest way that is exact to a few 1e-8.

| rows so far | way |
| --- | --- |
| up to `GRAM_ROWS`, and the width r | the Gram matrix, grown by b rows a batch, and its eigenvalues |
| up to `SHARE` · r | low-rank changes (`LowRankTrace`) of the Gram matrix's spectrum, in its eigenbasis and beside it |
| more | low-rank changes of the spectrum of the r × r scatter |

Every `cycle` rows the spectrum is computed again from rows or scatter, so that errors do not
accumulate. Below `SMALLEST_WIDTH` a plain eigenproblem costs less.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from optimist.metrics.spectra.eigen import eigen_basis, root_trace
from optimist.metrics.spectra.low_rank import LowRankTrace, trace_of
from optimist.metrics.spectra.symmetric import symmetric_product, times_lower, times_upper
from optimist.metrics.state import Buffer

SMALLEST_WIDTH = 256
GRAM_ROWS = 512
SHARE = 0.8
"""Share of the width up to which the Gram matrix is used. ms per batch at r = 2048 by it and by the scatter: 28,
39 from n = 1500, 39, 34 from 1750, 38, 33 from 2000 (AMD)."""
CYCLE = 512
"""Rows between two refreshes of the spectrum, past `SHARE` of the width by a quarter of it more."""
FINE, COARSE = 1.1e-8, 3.3e-8
"""Tolerances of the sum that approximates f, a little above the powers of √10 to which they are rounded down."""


def cycle(count: int, width: int) -> int:
    """Number of rows between two refreshes of the spectrum, past `GRAM_ROWS`; the first one is at `count` rows.

    A refresh costs r³; a batch costs more with each row since the last refresh, in proportion to r. Milliseconds per
    batch of 5, refreshes included, at r = 2048 (AMD): 41, 37, 36, 35, 36, 36 for cycles of 512, 640, 768, 896, 1024,
    1152 rows from n = 5000, 38, 35, 33, 33, 33 for 512 to 1024 from n = 2000. By the Gram matrix a refresh costs n³:
    for cycles of 256, 384, 512, 640 rows 25, 23, 23, 23 from n = 700, 28, 25, 23, 23 from n = 1000.
    """
    return CYCLE if count <= SHARE * width else CYCLE + width // 4


class TraceFollower:
    """Tr f(Σ zzᵀ) of a growing set of rows z = F·u (r), f = x^order, 0 < order < ∞, or x log x at order 1.

    `factor` F (r, d), upper trapezoidal, or None if the given rows are z. This is a cache: rows or scatter
    give the same result.
    """

    def __init__(self, order: float, width: int, factor: Tensor | None = None) -> None:
        self.count = 0
        """Rows taken."""
        self._order = order
        self._width = width
        self._factor = factor
        self._rows: Buffer | None = None
        self._gram: Tensor | None = None
        # Eigenvectors as rows: projecting a batch then takes only one pass over them.
        self._basis: Tensor | None = None
        self._is_complete = False
        self._low: LowRankTrace | None = None
        self._retry = 0

    def append(self, rows: Tensor, scatter: Callable[[], Tensor]) -> None:
        """Take rows u (b, d), b ≥ 1; `scatter` makes Σ zzᵀ (r, r) of all rows up to these on demand."""
        has_all_rows = self._rows is not None or self.count == 0
        self.count += len(rows)
        if has_all_rows and not self._is_complete:
            rows = rows if self._factor is None else times_lower(rows, self._factor)
            if self._rows is None:
                self._rows = Buffer(rows.new_empty(0, self._width))
            self._rows.append(rows)
        if self._rows is not None and self.count <= min(GRAM_ROWS, self._width):
            self._grow_gram(self._rows.tensor, rows)
            return
        self._gram = None
        if self._low is not None and self._low.append(*self._coordinates(rows)):
            return
        self._low = None
        if self.count >= self._retry:
            self._begin(scatter)

    def start(self, count: int, scatter: Callable[[], Tensor]) -> None:
        """Start with more rows than the width: after `count` rows that are no longer kept."""
        self.count = count
        self._begin(scatter)

    @property
    def bytes(self) -> int:
        """Bytes of memory, without the factor."""
        rows = None if self._rows is None else self._rows.tensor
        held = [part.nbytes for part in (rows, self._gram, self._basis) if part is not None]
        return sum(held) + (0 if self._low is None else self._low.bytes)

    @property
    def value(self) -> float | None:
        """Tr f, or None if only another way is accurate enough."""
        if self._gram is not None and self._rows is not None:
            rows, eigenvalues = self._rows.tensor, torch.linalg.eigvalsh(self._gram)
            if self._order == 0.5:
                return root_trace(eigenvalues, lambda: rows)
            return trace_of(eigenvalues.clamp_min(0.0), self._order)
        return None if self._low is None else self._low.value

    def _grow_gram(self, rows: Tensor, fresh: Tensor) -> None:
        """The Gram matrix including the newest rows."""
        before = len(rows) - len(fresh)
        gram = rows.new_empty(len(rows), len(rows))
        if before and self._gram is not None:
            gram[:before, :before] = self._gram
        gram[before:] = fresh @ rows.T
        gram[:before, before:] = gram[before:, :before].T
        self._gram = gram

    def _coordinates(self, rows: Tensor) -> tuple[Tensor, ...]:
        """Rows in the eigenbasis; if it is incomplete, also the rows themselves."""
        assert self._basis is not None
        # By panels of 128 vectors: 4.4 ms at r = 2048, 6.7 ms by one product (AMD).
        inside = torch.cat([rows @ part.T for part in self._basis.split(128)], -1)
        return (inside,) if self._is_complete else (inside, rows)

    def _begin(self, scatter: Callable[[], Tensor]) -> None:
        """Refresh the spectrum if rounding is small in the trace and f has a sum, else retry only after a cycle."""
        limit = cycle(self.count, self._width)
        if self._rows is not None and self.count <= SHARE * self._width:
            rows = self._rows.tensor
            eigenvalues, vectors = eigen_basis(symmetric_product(rows, rows.T))
            eigenvalues = eigenvalues.clamp_min(0.0)
            # Directions that come from rounding are left out: no row has a part in them.
            kept = eigenvalues > len(eigenvalues) * torch.finfo(eigenvalues.dtype).eps * eigenvalues[-1]
            self._basis = (vectors[:, kept].T @ rows) / eigenvalues[kept].sqrt()[:, None]
            spectrum, beside = eigenvalues[kept], self._width
        else:
            rows = None if self._rows is None else self._rows.tensor
            eigenvalues, vectors = eigen_basis(scatter() if rows is None else symmetric_product(rows.T, rows))
            spectrum = eigenvalues.clamp_min(0.0)
            # Of fewer rows than the width, the smallest ones are exactly zero.
            spectrum[: max(self._width - self.count, 0)] = 0.0
            eigenvalues = spectrum[-self.count :]
            self._rows, beside = None, 0
            self._basis = vectors.T.contiguous() if self._factor is None else times_upper(vectors.T, self._factor)
            self._is_complete = True
        self._retry = self.count + limit
        # Rounding of the eigenvalues may cause this fraction of the trace when low-rank changes begin.
        if eigenvalues.amax() <= 0.0 or _noise(eigenvalues, self._order) > 1e-7:
            return
        try:
            self._low = LowRankTrace(spectrum, self._order, self.count, limit, self._tolerance(), beside)
        except ValueError:
            return

    def _tolerance(self) -> float:
        """The error that f's sum may have: past r a smaller one for roots, as a distance is a difference of them.

        Closest soon after r, where eigenvalues move far: with `FINE` itself, FID at n = 1.2 r was off by 1.3e-7.
        """
        if self._order >= 1.0 or self.count <= self._width:
            return COARSE
        return FINE * min(1.0, (self.count / (2.0 * self._width)) ** 2)


def _noise(eigenvalues: Tensor, order: float) -> float:
    """The part of Σ λ^order that errors of ε·λ_max in each λ may make together; 0 from order 1 on."""
    if order >= 1.0:
        return 0.0
    rounding = torch.finfo(eigenvalues.dtype).eps * eigenvalues.amax()
    return float(rounding * eigenvalues.clamp_min(rounding).pow(order - 1.0).sum() / eigenvalues.pow(order).sum())
