"""Tr f(A + UUᵀ) while U grows by a few rows at a time, from the eigenvalues of A alone (see `log_sums`).

In A's eigenbasis U has coordinates W (k, m), and each node t of f's sum asks for log det B, B = I + W (Λ + tI)⁻¹ Wᵀ.
The rows of all B that a batch adds are made together (see `_Resolvents`). The Cholesky factor of B is kept in panels of
rows, each with the inverse of its diagonal block, so that a batch reads the factor once and solves nothing.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from optimist.numerics.rows import Rows
from optimist.numerics.spectra.log_sums import log_sum, rounded_down

PANEL = 128
"""Rows of a panel: enough for BLAS-3. Measured at 14 nodes: 64 to 160 are equally fast."""
ACCURACY = 1e-5
"""Largest error of Tr f(A) from the fit of f, relative to it, if the errors of all new rows added up."""
FINEST = 1e-12
"""The smallest tolerance that is requested of a fit."""
HEADROOM = 1.5
"""Factor by which the largest eigenvalue may exceed its expected growth."""
SPAN = 4.0
"""Ratio of the largest eigenvalue of a block to its smallest."""
PRECISION = 1e-9
"""Error of the resolvents, relative to each."""


class LowRankTrace:
    """Tr f(A + UUᵀ), f = x^order or x log x (order 1), for up to `limit` rows in U.

    `eigenvalues` (m) of A, ≥ 0, ascending, not all 0; `rows`: the number of rows that made A, by which it is expected
    to grow. tolerance: largest error of f, relative to its largest value.
    Raises ValueError if no sum of logarithms is close enough to f: for small orders near zero, or large orders.
    """

    def __init__(self, eigenvalues: Tensor, order: float, rows: int, limit: int, tolerance: float) -> None:
        self.limit = limit
        self._order = order
        self._base = trace_of(eigenvalues, order)
        # Everything below is in units of X; an eigenvalue above X is detected.
        self._unit = float(eigenvalues.amax()) * HEADROOM * (1.0 + limit / rows)
        self._scale = self._unit**order
        start = rounded_down(float(eigenvalues.amin()) / self._unit)
        size = abs(self._base) / self._scale if order != 1.0 else rows / self._unit
        tolerance = rounded_down(min(max(ACCURACY * size / limit, FINEST), tolerance), 10.0**0.5)
        found = log_sum(order, start, tolerance)
        if found is None:
            raise ValueError(f"no sum of logarithms is within {tolerance:g} of x^{order:g}")
        self._slope = found.slope
        self._weights = torch.from_numpy(found.weights).to(eigenvalues.device)
        nodes = torch.from_numpy(found.nodes).to(eigenvalues.device)
        self._resolvents = _Resolvents(eigenvalues / self._unit, nodes)
        self._count = len(nodes) + 1
        self._rows = Rows(eigenvalues.new_empty(0, len(eigenvalues)))
        self._added = 0.0
        self._determinants = torch.zeros(self._count, dtype=torch.float64, device=eigenvalues.device)
        # Of each panel its rows of the factor left of the diagonal block, and the inverse of that.
        self._panels: list[tuple[Tensor, Tensor]] = []

    def __len__(self) -> int:
        """Rows in U."""
        return len(self._rows)

    @property
    def bytes(self) -> int:
        """Bytes of rows and factors, which grow with every row."""
        panels = [part for panel in self._panels for part in panel]
        return self._resolvents.bytes + sum(part.nbytes for part in [self._rows.view(), *panels])

    @property
    def value(self) -> float:
        """Tr f(A + UUᵀ)."""
        change = float(self._weights @ self._determinants[:-1]) + self._slope * self._added
        if self._order == 1.0:
            return self._base + self._unit * (change + math.log(self._unit) * self._added)
        return self._base + self._scale * change

    def append(self, coordinates: Tensor) -> bool:
        """Add rows (b, m), b ≥ 1, to U. Returns False if the sum is no longer valid (too many rows, or
        an eigenvalue above X); then do not use the object any more.
        """
        if len(self) + len(coordinates) > self.limit:
            return False
        rows = coordinates / self._unit**0.5
        room = PANEL - len(self) % PANEL
        return all(self._append(block) for block in (rows[:room], *rows[room:].split(PANEL)) if len(block))

    def _append(self, block: Tensor) -> bool:
        """Add rows (b, m) that fit into the last panel."""
        before, end = len(self), len(self) + len(block)
        self._rows.append(block)
        self._added += float(block.square().sum())
        products = self._resolvents.products(block, self._rows.view())
        if before % PANEL == 0:
            empty = self._determinants.new_zeros
            self._panels.append((empty(self._count, PANEL, before), empty(self._count, PANEL, PANEL)))
        left = products[..., :before]
        for start, (below, inverse) in zip(range(0, before, PANEL), self._panels, strict=False):
            stop = min(start + PANEL, before)
            known, used = below[:, : stop - start], inverse[:, : stop - start, : stop - start]
            rest = torch.baddbmm(left[..., start:stop], left[..., :start], known.mT, alpha=-1.0)
            left[..., start:stop] = rest @ used.mT
        corner = torch.baddbmm(products[..., before:], left, left.mT, alpha=-1.0)
        corner.diagonal(dim1=-2, dim2=-1)[:] += 1.0
        factor, info = torch.linalg.cholesky_ex(corner)
        if bool(info.any()):
            return False
        self._determinants = self._determinants + 2.0 * factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)
        below, inverse = self._panels[-1]
        first = below.shape[-1]
        old, new = slice(0, before - first), slice(before - first, end - first)
        identity = torch.eye(len(block), dtype=factor.dtype, device=factor.device).expand_as(factor)
        own = torch.linalg.solve_triangular(factor, identity, upper=False)
        below[:, new] = left[..., :first]
        inverse[:, new, old] = -(own @ left[..., first:]) @ inverse[:, old, old]
        inverse[:, new, new] = own
        return True


class _Resolvents:
    """w (λ + t)⁻¹ w'ᵀ of rows w, w' (·, m) for every node t (Q), and for the last "node" w (λ − 1)⁻¹ w'ᵀ.

    The last is −I at most as long as no eigenvalue exceeds 1. Of eigenvalues λ (m, ascending) of similar size the
    resolvents span few functions of λ to `PRECISION`, half as many as there are nodes: so these are multiplied. An
    error relative to each resolvent is one of no more than that in each log det.
    """

    def __init__(self, eigenvalues: Tensor, nodes: Tensor) -> None:
        resolvents = torch.cat([1.0 / (eigenvalues + nodes[:, None]), -1.0 / (1.0 - eigenvalues)[None]])
        self._blocks: list[tuple[slice, Tensor]] = []
        mixed: list[Tensor] = []
        start = 0
        while start < len(eigenvalues):
            stop = int(torch.searchsorted(eigenvalues, SPAN * eigenvalues[start], right=True))
            part = resolvents[:, start:stop]
            sizes = part.abs().amax(1, keepdim=True)
            left, values, right = torch.linalg.svd(part / sizes, full_matrices=False)
            rank = int((values > PRECISION * values[0]).sum())
            self._blocks.append((slice(start, stop), right[:rank]))
            mixed.append(sizes * left[:, :rank] * values[:rank])
            start = stop
        self._mixed = torch.cat(mixed, 1)

    @property
    def bytes(self) -> int:
        """Bytes of memory."""
        return self._mixed.nbytes + sum(functions.nbytes for _, functions in self._blocks)

    def products(self, rows: Tensor, others: Tensor) -> Tensor:
        """(Q + 1, b, k) of rows (b, m) and (k, m)."""
        found = rows.new_empty(self._mixed.shape[1], len(rows), len(others))
        at = 0
        for part, functions in self._blocks:
            weighted = (functions[:, None] * rows[:, part]).flatten(0, 1)
            torch.mm(weighted, others[:, part].T, out=found[at : at + len(functions)].flatten(0, 1))
            at += len(functions)
        return (self._mixed @ found.flatten(1)).view(-1, len(rows), len(others))


def trace_of(eigenvalues: Tensor, order: float) -> float:
    """Σ λ^order, or Σ λ log λ at order 1, over eigenvalues (k) ≥ 0."""
    if order == 1.0:
        return float(torch.xlogy(eigenvalues, eigenvalues).sum())
    return float(eigenvalues.pow(order).sum())
