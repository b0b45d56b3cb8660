"""Symmetric products by one triangle of panels: little more than half the arithmetic of a whole product."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

PANEL = 256
"""Rows of a panel. Measured at 2000 rows: 0.67, 0.70, 0.81 of a whole product's time with panels of 128, 256, 512."""


def symmetric_product(left: Tensor, right: Tensor) -> Tensor:
    """left (m, k) times right (k, m) where that is a symmetric matrix (m, m)."""
    found = left.new_empty(len(left), len(left))
    for start, stop, panel in _panels(left, right):
        found[start:stop, :stop] = panel
        found[:start, start:stop] = panel[:, :start].T
        # Only on some machines is the product of BLAS symmetric to the last bit.
        square = panel[:, start:]
        found[start:stop, start:stop] = square.tril() + square.tril(-1).T
    return found


def congruence(factor: Tensor, matrix: Tensor) -> Tensor:
    """F A Fᵀ (k, k) of an upper trapezoidal F (k, m), k ≤ m, and a symmetric A (m, m): k³ flops where k = m.

    Two products of which one is symmetric take three times as many. Neither zeros of F nor the lower triangle of F A
    are multiplied.
    """
    count, columns = factor.shape
    half, found = factor.new_zeros(count, columns), factor.new_empty(count, count)
    for start in range(0, count, PANEL):
        stop = min(start + PANEL, count)
        panel = factor[start:stop, start:]
        torch.mm(panel, matrix[start:, start:], out=half[start:stop, start:])
        above = half[:stop, start:] @ panel.T
        found[:stop, start:stop] = above
        found[start:stop, :start] = above[:start].T
        square = above[start:]
        found[start:stop, start:stop] = square.triu() + square.triu(1).T
    return found


def times_upper(rows: Tensor, factor: Tensor) -> Tensor:
    """Rows (b, k) times an upper trapezoidal F (k, m), k ≤ m: (b, m). Zeros of F are not multiplied."""
    found = rows.new_empty(len(rows), factor.shape[1])
    for start in range(0, factor.shape[1], PANEL):
        stop = start + PANEL
        found[:, start:stop] = rows[:, :stop] @ factor[:stop, start:stop]
    return found


def times_lower(rows: Tensor, factor: Tensor) -> Tensor:
    """Rows (b, m) times Fᵀ of an upper trapezoidal F (k, m), k ≤ m: (b, k). Zeros of F are not multiplied."""
    found = rows.new_empty(len(rows), len(factor))
    for start in range(0, len(factor), PANEL):
        found[:, start : start + PANEL] = rows[:, start:] @ factor[start : start + PANEL, start:].T
    return found


def gram_square_sum(rows: Tensor) -> float:
    """‖XXᵀ‖_F² of rows X (n, d), by the smaller of XXᵀ and XᵀX."""
    left = rows if len(rows) <= rows.shape[1] else rows.T
    sums = [2.0 * panel.square().sum() - panel[:, start:].square().sum() for start, _, panel in _panels(left, left.T)]
    return float(torch.stack(sums).sum()) if sums else 0.0


def _panels(left: Tensor, right: Tensor) -> Iterator[tuple[int, int, Tensor]]:
    """First row and end of each panel of the product, and its columns up to that end."""
    for start in range(0, len(left), PANEL):
        stop = min(start + PANEL, len(left))
        yield start, stop, left[start:stop] @ right[:, :stop]
