"""Helpers for symmetric eigenproblems, batched over leading dimensions where a shape says "…"."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from optimist.metrics.spectra.lapack import Tridiagonal

TRIDIAGONAL_SIZE = 512
"""Smallest matrix whose tridiagonal form is taken by scipy's LAPACK. Of smaller ones torch decomposes as fast."""


def centre(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Mean (…, d) of rows (…, n, d), and the rows minus it; these are exactly zero if all rows are equal."""
    offset = rows - rows[..., :1, :]
    mean = offset.mean(-2, keepdim=True)
    return rows[..., 0, :] + mean[..., 0, :], offset - mean


def double_centre(gram: Tensor) -> Tensor:
    """The Gram matrix (…, n, n) of the same vectors minus their mean."""
    column = gram.mean(-2, keepdim=True)
    return gram - column - column.mT + column.mean(-1, keepdim=True)


def pair_sum(values: Tensor) -> float:
    """Σ_ij (s_i s_j / (s_i + s_j))² over values s > 0 (k)."""
    # By parts that fit into a core's cache.
    parts = (part[:, None] for part in values.split(64))
    return sum(float((part * values / (part + values)).square().sum()) for part in parts)


def eigen_basis(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """Eigenvalues (…, m), ascending, and eigenvectors as columns (…, m, m) of symmetric matrices (…, m, m).

    Where torch has MKL, large matrices cost it more than scipy's LAPACK, on AMD processors twice as much.
    """
    return Tridiagonal(matrix).eigenvectors() if _is_large(matrix) else torch.linalg.eigh(matrix)


def eigen_coordinates(matrix: Tensor, rows: Tensor, *others: Tensor) -> tuple[Tensor, ...]:
    """Eigenvalues (…, m), ascending, of symmetric matrices (…, m, m), and rows (…, k, m) in their eigenbases.

    `others`: more such rows, which change no bit of what is found for the first.
    A few rows need no eigenvectors: at m = 2048 the tridiagonal form, and 512 rows by its eigenvectors, take 2.1 s of
    processor time, `eigh` 3.0 s (one thread).
    """
    if 2 * len(rows) > len(matrix) or not _is_large(matrix):
        eigenvalues, eigenvectors = eigen_basis(matrix)
        return eigenvalues, *(each @ eigenvectors for each in (rows, *others))
    reduced = Tridiagonal(matrix)
    eigenvalues, eigenvectors = reduced.eigen()
    return eigenvalues, *(reduced.rotated(each) @ eigenvectors for each in (rows, *others))


def _is_large(matrix: Tensor) -> bool:
    return matrix.ndim == 2 and len(matrix) >= TRIDIAGONAL_SIZE and matrix.device.type == "cpu"


def root_trace(eigenvalues: Tensor, factor: Callable[[], Tensor]) -> float:
    """Tr √(FᵀF) from the computed eigenvalues (k) of FᵀF or FFᵀ; if their noise is too large, from F's singular values.

    An eigenvalue is known to ε·λ_max, so the root of one that should be zero to √ε: 1e-8 each, which is more than a
    Fréchet distance of a set to itself may show. `factor` is asked for F only where these add up to k² ε of the trace.
    """
    if eigenvalues.numel() == 0:
        return 0.0
    epsilon = torch.finfo(eigenvalues.dtype).eps
    noise = epsilon * eigenvalues.max()
    if noise <= 0.0:
        return 0.0
    roots = eigenvalues.clamp_min(0.0).sqrt()
    error = (noise / eigenvalues.clamp_min(noise).sqrt()).sum()
    if error <= epsilon * len(roots) ** 2 * roots.sum():
        return float(roots.sum())
    return float(torch.linalg.svdvals(factor()).sum())
