"""Entropies of spectra, and spectra of unit-norm features (equations.md §3)."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from optimist.numerics.checks import check_number
from optimist_client.errors import FixError

SMALLEST_ORDER = 1e-6
"""Smallest α. Its score nearly counts the eigenvalues; smaller orders drown in rounding."""


def check_order(order: float) -> float:
    """α as a float, exactly 1 if it differs by no more than 1e-7. Raises FixError unless it is in 1e-6 … inf."""
    order = check_number("order", order)
    if not order >= SMALLEST_ORDER:
        raise FixError(f"the order must be positive, from {SMALLEST_ORDER:g} to inf, not {order!r}")
    # 1/(1 − α) magnifies rounding.
    return 1.0 if abs(order - 1.0) <= 1e-7 else order


def log_vendi(eigenvalues: Tensor, order: float = 1.0, truncation: int | None = None) -> float:
    """log Vendi_α of eigenvalues (k) of sum 1, in any order, t-truncated if asked; never negative (equations.md §3).

    Eigenvalues up to k · ε · λ_max, ε of float64, count as zero: with a low order their noise would dominate.
    Raises FixError on an order below 1e-6, or on a truncation below 1.
    """
    order = check_order(order)
    eigenvalues = eigenvalues.sort(descending=True).values.clamp_min(0.0)
    noise = len(eigenvalues) * torch.finfo(eigenvalues.dtype).eps * eigenvalues[0]
    values = truncated(eigenvalues[eigenvalues > noise], truncation)
    logs = values.log()
    if order == 1.0:
        return max(-float((values * logs).sum()), 0.0)
    top = float(logs[0])
    if math.isinf(order):
        return max(-top, 0.0)
    # By the largest, so that no power underflows.
    powers = float(torch.logsumexp(order * (logs - top), 0))
    return max(order / (1.0 - order) * top + powers / (1.0 - order), 0.0)


def truncated(eigenvalues: Tensor, truncation: int | None) -> Tensor:
    """The t largest of descending eigenvalues (k) with the rest spread evenly over them (min(k, t)).

    Raises FixError on a truncation below 1.
    """
    if truncation is None:
        return eigenvalues
    if truncation < 1:
        raise FixError(f"the truncation must be at least 1, not {truncation!r}")
    return eigenvalues[:truncation] + eigenvalues[truncation:].sum() / truncation


def spectrum_of_rows(features: Tensor) -> Tensor:
    """The min(n, width) largest eigenvalues of (1/n) ΦᵀΦ, Φ (n, width), descending and ≥ 0, by the smaller matrix."""
    count, width = features.shape
    return eigenvalues_of((features @ features.T if count <= width else features.T @ features) / count)


def eigenvalues_of(matrix: Tensor) -> Tensor:
    """Eigenvalues (m) of a symmetric, positive semi-definite matrix (m, m), descending and ≥ 0."""
    return torch.linalg.eigvalsh(matrix).flip(-1).clamp_min(0.0)
