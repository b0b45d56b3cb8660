"""Tr f(A + UUᵀ) while U grows by a few rows at a time, from the eigenvalues of A alone (see `log_sums`).

In A's eigenbasis U has coordinates W (k, m), and each node t of f's sum asks for log det B, B = I + W (Λ + tI)⁻¹ Wᵀ.
A row block of B is one GEMM with the W so far, for all nodes at once; its Cholesky factor is kept in row panels, whose
diagonal blocks are inverted, so that a new block costs two reads of a triangle and no dense solve.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from optimist.metrics.rows import Rows
from optimist.metrics.spectra.log_sums import log_sum, rounded_down
from optimist_client.errors import FixError

PANEL = 64
"""Smallest number of rows of a panel: enough for BLAS-3, few enough to factor again with every block."""
ACCURACY = 1e-5
"""Largest error of Tr f(A) from the fit of f, relative to it, if the errors of all new rows added up."""
FINEST = 1e-12
"""The smallest tolerance that is requested of a fit."""
HEADROOM = 1.5
"""Factor by which the largest eigenvalue may exceed its expected growth."""


class LowRankTrace:
    """Tr f(A + UUᵀ), f = x^order or x log x (order 1), for up to `limit` rows in U.

    `eigenvalues` (m) of A, ≥ 0, not all 0; `width`: the columns of U, if it has parts outside these eigenvectors, where
    A is 0; `rows`: the number of rows that made A, by which it is expected to grow.
    tolerance: largest error of f, relative to its largest value.
    Raises FixError if no sum of logarithms is close enough to f: for small orders near zero, or large orders.
    """

    def __init__(
        self, eigenvalues: Tensor, order: float, rows: int, limit: int, tolerance: float, width: int = 0
    ) -> None:
        self.limit = limit
        self._order = order
        self._base = trace_of(eigenvalues, order)
        # Everything below is in units of X; an eigenvalue above X is detected.
        self._unit = float(eigenvalues.amax()) * HEADROOM * (1.0 + limit / rows)
        self._scale = self._unit**order
        start = 0.0 if width else rounded_down(float(eigenvalues.amin()) / self._unit)
        size = abs(self._base) / self._scale if order != 1.0 else rows / self._unit
        tolerance = rounded_down(min(max(ACCURACY * size / limit, FINEST), tolerance), 10.0**0.5)
        found = log_sum(order, start, tolerance)
        if found is None:
            raise FixError(f"no sum of logarithms is within {tolerance:g} of x^{order:g}")
        self._slope = found.slope
        self._weights = torch.from_numpy(found.weights).to(eigenvalues.device)
        nodes = torch.from_numpy(found.nodes).to(eigenvalues.device)
        relative = eigenvalues / self._unit
        # The last "node" is I − W (X − Λ)⁻¹ Wᵀ, positive definite as long as no eigenvalue exceeds X.
        self._resolvents = torch.cat([1.0 / (relative + nodes[:, None]), -1.0 / (1.0 - relative)[None]])
        self._beyond = torch.cat([1.0 / nodes, nodes.new_tensor([-1.0])])[:, None, None]
        self._rows = Rows(self._empty(0, len(eigenvalues)))
        self._wholes = Rows(self._empty(0, width))
        self._added = 0.0
        self._panels: list[tuple[Tensor, Tensor]] = []
        self._settled = torch.zeros(len(nodes), dtype=torch.float64, device=eigenvalues.device)
        self._begin_panel()

    def __len__(self) -> int:
        """Rows in U."""
        return len(self._rows)

    @property
    def bytes(self) -> int:
        """Bytes of rows and factors, which grow with every row."""
        panels = [part for panel in self._panels for part in panel]
        rows = (self._rows.view(), self._wholes.view())
        return sum(part.nbytes for part in [self._resolvents, *rows, self._left, self._corner, *panels])

    @property
    def value(self) -> float:
        """Tr f(A + UUᵀ)."""
        change = float(self._weights @ (self._settled + self._open)) + self._slope * self._added
        if self._order == 1.0:
            return self._base + self._unit * (change + math.log(self._unit) * self._added)
        return self._base + self._scale * change

    def append(self, coordinates: Tensor, wholes: Tensor | None = None) -> bool:
        """Add rows (b, m), b ≥ 1, to U: coordinates in A's eigenbasis, and with a `width` the whole rows (b, width).

        Returns False if the sum is no longer valid (too many rows, or an eigenvalue above X); then do not use the
        object any more.
        """
        if len(self) + len(coordinates) > self.limit:
            return False
        root = self._unit**0.5
        blocks = (coordinates / root).split(PANEL)
        if wholes is None:
            return all(map(self._append, blocks))
        return all(map(self._append, blocks, (wholes / root).split(PANEL)))

    def _append(self, block: Tensor, whole: Tensor | None = None) -> bool:
        self._rows.append(block)
        scaled = self._resolvents[:, None] * block
        products = (scaled.flatten(0, 1) @ self._rows.view().T).view(len(scaled), len(block), -1)
        if whole is not None:
            # Outside, all nodes' resolvents are multiples of one matrix.
            self._wholes.append(whole)
            products += self._beyond * (whole @ self._wholes.view().T - block @ self._rows.view().T)
            block = whole
        settled = self._left.shape[-1]
        left = self._empty(len(scaled), len(block), settled)
        at = 0
        for below, inverse in self._panels:
            end = at + inverse.shape[-1]
            rest = torch.baddbmm(products[..., at:end], left[..., :at], below.mT, alpha=-1.0)
            left[..., at:end] = rest @ inverse.mT
            at = end
        self._left = torch.cat([self._left, left], 1)
        rows = torch.baddbmm(products[..., settled:], left, self._left.mT, alpha=-1.0)
        size, before = rows.shape[-1], self._corner.shape[-1]
        corner = self._empty(len(scaled), size, size)
        corner[:, :before, :before] = self._corner
        corner[:, before:] = rows
        corner[:, :before, before:] = rows[..., :before].mT
        corner.diagonal(dim1=-2, dim2=-1)[:, before:] += 1.0
        self._corner = corner
        self._added += float(block.square().sum())
        factor, info = torch.linalg.cholesky_ex(corner)
        if bool(info.any()):
            return False
        self._open = 2.0 * factor[:-1].diagonal(dim1=-2, dim2=-1).log().sum(-1)
        if size >= PANEL:
            identity = torch.eye(size, dtype=factor.dtype, device=factor.device)
            inverse = torch.linalg.solve_triangular(factor, identity.expand_as(factor), upper=False)
            self._panels.append((self._left, inverse))
            self._settled = self._settled + self._open
            self._begin_panel()
        return True

    def _begin_panel(self) -> None:
        count = len(self._resolvents)
        self._left = self._empty(count, 0, len(self))
        self._corner = self._empty(count, 0, 0)
        self._open = torch.zeros_like(self._settled)

    def _empty(self, *shape: int) -> Tensor:
        return self._resolvents.new_empty(shape)


def trace_of(eigenvalues: Tensor, order: float) -> float:
    """Σ λ^order, or Σ λ log λ at order 1, over eigenvalues (k) ≥ 0."""
    if order == 1.0:
        return float(torch.xlogy(eigenvalues, eigenvalues).sum())
    return float(eigenvalues.pow(order).sum())
