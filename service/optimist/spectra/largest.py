"""The largest eigenvalue of a symmetric matrix by Lanczos steps from a start that is nearly its eigenvector."""

from __future__ import annotations

import torch
from torch import Tensor

STEPS = 60
PRECISION = 1e-10
"""Of the value, as a part of it."""


def largest_eigenvalue(matrix: Tensor, start: Tensor | None = None) -> tuple[float, Tensor]:
    """λ_max of a symmetric matrix (m, m), m ≥ 1, and its unit eigenvector (m), to 1e-10 of its size.

    `start` (m) is the eigenvector of a matrix close to it: then some 4 products with the matrix are enough. Without
    one, or where `STEPS` products are not, all eigenvalues are computed. With residual ρ and distance γ to the next
    Ritz value, a Ritz value is off by ρ²/γ (Kato–Temple), and by no more than ρ.
    """
    if start is None or len(matrix) <= STEPS:
        return _direct(matrix)
    basis = start[None] / start.norm()
    steps = matrix.new_zeros(STEPS, STEPS)
    for step in range(STEPS):
        product = matrix @ basis[step]
        # Against all earlier vectors, twice: three-term recurrences lose orthogonality.
        for _ in range(2):
            inner = basis @ product
            steps[: step + 1, step] += inner
            product = product - inner @ basis
        rest = product.norm()
        small = steps[: step + 1, : step + 1]
        values, vectors = torch.linalg.eigh(0.5 * (small + small.T))
        scale = float(values.abs().amax())
        residual = float((rest * vectors[-1, -1]).abs())
        gap = float(values[-1] - values[-2]) - residual if step else 0.0
        error = min(residual, residual**2 / gap) if gap > 0.0 else residual
        # One step alone knows of no second eigenvalue.
        if (step >= 2 and error <= PRECISION * scale) or float(rest) <= PRECISION * scale:
            return float(values[-1]), vectors[:, -1] @ basis
        basis = torch.cat([basis, (product / rest)[None]])
    return _direct(matrix)


def _direct(matrix: Tensor) -> tuple[float, Tensor]:
    values, vectors = torch.linalg.eigh(matrix)
    return float(values[-1]), vectors[:, -1]
