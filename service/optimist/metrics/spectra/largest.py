"""The largest eigenvalue of a symmetric matrix, by Lanczos steps from a start near its eigenvector."""

from __future__ import annotations

import torch
from torch import Tensor

from optimist.metrics.symmetric import SymmetricSum

STEPS = 60
LEAST_STEPS = 6
PRECISION = 1e-10
"""Relative error of the value."""
MIXED = 4
"""Number of top Ritz vectors in the next start, with weights falling by 3: their order may change by then."""


def largest_eigenvalue(matrix: SymmetricSum, start: Tensor | None = None) -> tuple[float, Tensor]:
    """λ_max of a symmetric matrix (m, m), m ≥ 1, to 1e-10 of its size, and a start (m) for a matrix close to this one.

    With the start that a close matrix gave some 10 products with the matrix are enough. Without one, or where `STEPS`
    are not, all eigenvalues are computed. With residual ρ and distance γ to the next Ritz value, a Ritz value is off by
    ρ²/γ (Kato–Temple), and by no more than ρ.
    """
    if start is None or matrix.width <= STEPS:
        return _direct(matrix.dense())
    basis = start[None] / start.norm()
    projected = start.new_zeros(STEPS, STEPS)
    for step in range(STEPS):
        product = matrix.times(basis[step : step + 1])[0]
        # Against all earlier vectors, twice: three-term recurrences lose orthogonality.
        for _ in range(2):
            inner = basis @ product
            projected[: step + 1, step] += inner
            product = product - inner @ basis
        rest = product.norm()
        small = projected[: step + 1, : step + 1]
        values, vectors = torch.linalg.eigh(small.triu() + small.triu(1).T)
        scale = float(values.abs().amax())
        residual = float((rest * vectors[-1, -1]).abs())
        gap = float(values[-1] - values[-2]) - residual if step else 0.0
        error = min(residual, residual**2 / gap) if gap > 0.0 else residual
        is_invariant = float(rest) <= PRECISION * scale
        if is_invariant or (step + 1 >= LEAST_STEPS and error <= PRECISION * scale):
            return float(values[-1]), _mixed(vectors) @ basis
        basis = torch.cat([basis, (product / rest)[None]])
    return _direct(matrix.dense())


def _direct(matrix: Tensor) -> tuple[float, Tensor]:
    values, vectors = torch.linalg.eigh(matrix)
    return float(values[-1]), _mixed(vectors)


def _mixed(vectors: Tensor) -> Tensor:
    """The sum of the columns (m, k), with weights that decrease from the last to the first."""
    last = vectors[:, -MIXED:].flip(-1)
    return last @ (1.0 / 3.0) ** torch.arange(last.shape[1], dtype=last.dtype, device=last.device)
