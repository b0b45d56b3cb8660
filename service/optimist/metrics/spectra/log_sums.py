"""Powers and x log x as sums of logarithms, whose traces change by determinants if a matrix changes by low rank.

For f(x) ≈ c + βx + Σ_q w_q log(x + t_q) on a spectrum, and A' = A + UUᵀ,

    Tr f(A') − Tr f(A) = β tr UUᵀ + Σ_q w_q logdet(I + Uᵀ (A + t_q I)⁻¹ U),

by the matrix determinant lemma. Nodes t_q are chosen among a few sets, weights are least squares on a grid: computed
where they are needed, for any order and range, and accepted by the error they show on a grid three times as fine.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import product

import numpy as np
from numpy.typing import NDArray

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
        best = min(tried, key=lambda found: found.error)
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
