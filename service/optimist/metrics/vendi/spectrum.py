"""The spectrum of a kernel statistic, the coordinates of its last φ, and derivatives of log Vendi in eigenvalues."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from optimist.metrics.spectra import eigen_coordinates, symmetric_product
from optimist.metrics.vendi.statistic import KernelStatistic

FLOOR = 1e-12
"""Smallest eigenvalue relative to the largest: smaller ones are raised to it."""


def shares_of(statistic: KernelStatistic, *seen: Tensor) -> tuple[Tensor, ...]:
    """Eigenvalues (k) of C, descending, k = min(n, width), and (u_iᵀφ)² (b, k) of the last φ.

    `seen`: then those of more φ (m, width), among all that the statistic has seen.
    """
    eigenvalues, *coordinates = _eigen(statistic, *seen)
    if statistic.rows is None:
        return eigenvalues, *(each.square() for each in coordinates)
    # uᵀφ of an eigenvector u of C and a row φ is the entry of the Gram matrix's eigenvector at that row, times √(n g).
    return eigenvalues, *(each.square() * (statistic.samples * eigenvalues) for each in coordinates)


def weights_of(statistic: KernelStatistic, *seen: Tensor) -> tuple[Tensor, ...]:
    """The same eigenvalues (k), and (u_iᵀφ)²/(n g_i) (b, k), which of a Gram matrix is known where g_i = 0, too."""
    eigenvalues, *coordinates = _eigen(statistic, *seen)
    if statistic.rows is None:
        scale = statistic.samples * floored_at(eigenvalues)
        return eigenvalues, *(each.square() / scale for each in coordinates)
    return eigenvalues, *(each.square() for each in coordinates)


def floored_at(eigenvalues: Tensor) -> Tensor:
    """Descending eigenvalues (k), none below `FLOOR` times the largest."""
    return eigenvalues.clamp_min(FLOOR * float(eigenvalues[0]))


def _eigen(statistic: KernelStatistic, *seen: Tensor) -> tuple[Tensor, ...]:
    """Eigenvalues (k) of C or of the Gram matrix over n, descending, ≥ 0, and the last φ in its eigenvectors (b, k)."""
    rows, n = statistic.rows, statistic.samples
    last = statistic.last_rows
    if rows is None:
        matrix, places = statistic.moment / n, [last, *seen]
    else:
        matrix = symmetric_product(rows, rows.T) / n
        each = torch.eye(n, dtype=matrix.dtype, device=matrix.device)
        # A φ of norm 1 is nearest to itself; repeats have equal coordinates.
        places = [each[n - len(last) :], *(each[(found @ rows.T).argmax(-1)] for found in seen)]
    eigenvalues, *coordinates = (part.flip(-1) for part in eigen_coordinates(matrix, *places))
    return eigenvalues.clamp_min(0.0), *coordinates


def slopes(values: Tensor, order: float) -> Tensor:
    """∂ log Vendi_α / ∂λ (k) at eigenvalues (k) > 0, descending, but for a constant at α = 1."""
    if order == 1.0:
        return -values.log()
    if math.isinf(order):
        found = torch.zeros_like(values)
        found[0] = -1.0 / values[0]
        return found
    # Divided by the largest, so that no power underflows.
    ratio = values / values[0]
    return order / (1.0 - order) * ratio ** (order - 1.0) / (values[0] * (ratio**order).sum())


def second_order(values: Tensor, found: Tensor, order: float) -> float:
    """Variance of the second-order term, times n², from eigenvalues (k) and their `slopes` (k) of finite order."""
    curvature = _divided_differences(values, found, order)
    return float((curvature * values * values[:, None]).square().sum())


def _divided_differences(values: Tensor, slopes: Tensor, order: float) -> Tensor:
    """(f_i − f_j)/(g_i − g_j) (k, k) of finite order, the derivative f′ where two values are equal to rounding."""
    gaps = values[:, None] - values
    equal = gaps.abs() <= 1e-8 * torch.maximum(values[:, None], values)
    derivative = slopes * (order - 1.0) / values if order != 1.0 else -1.0 / values
    ratios = (slopes[:, None] - slopes) / torch.where(equal, 1.0, gaps)
    return torch.where(equal, derivative[:, None], ratios)
