"""Tr f(A + UUᵀ) while U grows by a few rows at a time, from the eigenvalues of A alone; f as a sum of logarithms.

For f(x) ≈ c + βx + Σ_q w_q log(x + t_q) on a spectrum, and A' = A + UUᵀ,

    Tr f(A') − Tr f(A) = β tr UUᵀ + Σ_q w_q logdet(I + Uᵀ (A + t_q I)⁻¹ U),

by the matrix determinant lemma. Nodes t_q are chosen among a few sets, weights are least squares on a grid: computed
where they are needed, for any order and range, and accepted by the error they show on a grid three times as fine.

In A's eigenbasis U has coordinates W (k, m), and each node t of f's sum asks for log det B, B = I + W (Λ + tI)⁻¹ Wᵀ.
A row block of B is one GEMM with the W so far, for all nodes at once; its Cholesky factor is kept in row panels, whose
diagonal blocks are inverted, so that a new block costs two reads of a triangle and no dense solve.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import product

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from optimist.metrics.state import Buffer
from optimist_client.errors import FixError

COUNTS = (8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 20, 22, 24, 27, 30, 34, 38, 43, 48)
"""Numbers of nodes to try, in this order: the cost of a low-rank change is proportional."""
POINTS = 600
"""Number of points of the grid on which weights are fitted."""
LOWEST = 1e-20
"""The first grid point after 0, for a range that begins at 0."""


@dataclass(frozen=True)
class LogSum:
    """f(x) ≈ c + slope·x + Σ weights · log(x + nodes) for a ≤ x ≤ 1; c never matters."""

    nodes: NDArray[np.float64]
    """t (Q), ascending, all > 0."""
    weights: NDArray[np.float64]
    """w (Q), of either sign."""
    slope: float
    error: float
    """The largest error on the fine grid."""


@lru_cache(maxsize=256)
def log_sum(order: float, start: float, tolerance: float) -> LogSum | None:
    """The shortest sum for x^`order`, or x log x at order 1, on [`start`, 1] within the tolerance; None if none is.

    `start` is 0 or more, below 1.
    """
    for count in COUNTS:
        tried = (_fit(order, start, nodes) for nodes in _nodes(order, start, tolerance, count))
        best = min(tried, key=lambda candidate: candidate.error)
        if best.error <= tolerance:
            return best
    return None


def _nodes(order: float, start: float, tolerance: float, count: int) -> Iterator[NDArray[np.float64]]:
    """Sets of nodes to choose from. None is optimal for all functions, but for each one of them is nearly so.

    For smaller x the relative error of x^order may be larger, and nodes further apart: in optimal sets their
    density falls, linearly in log t, to 0 where t^order is about the tolerance. Large tolerances leave it even.
    """
    lows = [0.1 * start, 0.3 * start, start] if start > 0.0 else [10.0**-power for power in range(4, 22, 2)]
    for low, high in product(lows, (10.0, 30.0)):
        yield np.geomspace(low, high, count)
    for beyond, high in product((1.0, 3.0), (3.0, 6.0)):
        origin = math.log(tolerance) / order - beyond
        last = (math.log(high) - origin) ** 2
        firsts = [(math.log(low) - origin) ** 2 for low in lows if math.log(low) > origin]
        for first in firsts if start > 0.0 else [last / count * part for part in (0.15, 0.5, 1.5)]:
            squares = np.linspace(first, last, count)
            # The points at the ends have only one neighbour.
            squares[-1] += 0.4 * (squares[1] - squares[0])
            logs = origin + np.sqrt(squares)
            if logs[0] > math.log(LOWEST):
                yield np.exp(logs)


def _fit(order: float, start: float, nodes: NDArray[np.float64]) -> LogSum:
    coarse = _grid(start, POINTS)
    terms = _terms(coarse, nodes)
    scale = np.abs(terms).max(0)
    if start == 0.0:
        # Without c the error at 0 is zero: most eigenvalues of a matrix of low rank are 0.
        scale[-1] = np.inf
    solution = np.linalg.lstsq(terms / scale, _values(coarse, order), rcond=1e-15)[0] / scale
    fine = _grid(start, 3 * POINTS)
    error = float(np.abs(_terms(fine, nodes) @ solution - _values(fine, order)).max())
    return LogSum(nodes, solution[:-2], float(solution[-2]), error)


def _grid(start: float, points: int) -> NDArray[np.float64]:
    grid = np.geomspace(start if start > 0.0 else LOWEST, 1.0, points)
    return grid if start > 0.0 else np.concatenate([[0.0], grid])


def _terms(x: NDArray[np.float64], nodes: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.concatenate([np.log1p(x[:, None] / nodes), x[:, None], np.ones((len(x), 1))], 1)


def _values(x: NDArray[np.float64], order: float) -> NDArray[np.float64]:
    if order == 1.0:
        return x * np.log(np.where(x > 0.0, x, 1.0))
    return x**order


def rounded_down(value: float, factor: float = 10.0) -> float:
    """The largest power of `factor` up to `value`, 0 below 1e-14: so similar ranges and tolerances share a fit."""
    return 0.0 if value < 1e-14 else factor ** math.floor(math.log(value) / math.log(factor))


PANEL = 64
"""Smallest number of rows of a panel: enough for BLAS-3, few enough to factor again with every block."""


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
        # The largest eigenvalue may exceed its expected growth by half.
        self._unit = float(eigenvalues.amax()) * 1.5 * (1.0 + limit / rows)
        self._scale = self._unit**order
        start = 0.0 if width else rounded_down(float(eigenvalues.amin()) / self._unit)
        size = abs(self._base) / self._scale if order != 1.0 else rows / self._unit
        # Tr f(A) is off by 1e-5 of itself at most if the errors of all new rows add up; no fit is finer than 1e-12.
        tolerance = rounded_down(min(max(1e-5 * size / limit, 1e-12), tolerance), 10.0**0.5)
        approximation = log_sum(order, start, tolerance)
        if approximation is None:
            raise FixError(f"no sum of logarithms is within {tolerance:g} of x^{order:g}")
        self._slope = approximation.slope
        self._weights = torch.from_numpy(approximation.weights).to(eigenvalues.device)
        nodes = torch.from_numpy(approximation.nodes).to(eigenvalues.device)
        relative = eigenvalues / self._unit
        # The last "node" is I − W (X − Λ)⁻¹ Wᵀ, positive definite as long as no eigenvalue exceeds X.
        self._resolvents = torch.cat([1.0 / (relative + nodes[:, None]), -1.0 / (1.0 - relative)[None]])
        self._beyond = torch.cat([1.0 / nodes, nodes.new_tensor([-1.0])])[:, None, None]
        self._rows = Buffer(self._empty(0, len(eigenvalues)))
        self._wholes = Buffer(self._empty(0, width))
        self._added = 0.0
        self._panels: list[tuple[Tensor, Tensor]] = []
        self._settled = torch.zeros(len(nodes), dtype=torch.float64, device=eigenvalues.device)
        self._begin_panel()

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def bytes(self) -> int:
        """Bytes of rows and factors, which grow with every row."""
        panels = [part for panel in self._panels for part in panel]
        rows = (self._rows.tensor, self._wholes.tensor)
        return sum(part.nbytes for part in [self._resolvents, *rows, self._left, self._corner, *panels])

    @property
    def value(self) -> float:
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
        products = (scaled.flatten(0, 1) @ self._rows.tensor.T).view(len(scaled), len(block), -1)
        if whole is not None:
            # Outside, all nodes' resolvents are multiples of one matrix.
            self._wholes.append(whole)
            products += self._beyond * (whole @ self._wholes.tensor.T - block @ self._rows.tensor.T)
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
