"""The positive part of C_X − η C_Y, and KEN, which is its entropy times its trace (equations.md §8)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

ROUNDING = 1e-12
"""Eigenvalues up to this count as zero. The trace of C_X is 1."""


@dataclass(frozen=True)
class Novel:
    """The positive eigenvalues (k), descending, of a difference D (w, w) with their eigenvectors (w, k)."""

    values: Tensor
    vectors: Tensor

    @classmethod
    def of(cls, difference: Tensor) -> Novel:
        """The positive part of a symmetric matrix."""
        values, vectors = (part.flip(-1) for part in torch.linalg.eigh(difference))
        kept = int((values > ROUNDING).sum())
        return cls(values[:kept], vectors[:, :kept])

    @property
    def score(self) -> float:
        """KEN of these eigenvalues."""
        return ken(self.values)

    @cached_property
    def slopes(self) -> Tensor:
        """log(S/λ) (k), the derivative of KEN in each eigenvalue; S is their sum."""
        return (self.values.sum() / self.values).log()

    def along(self, features: Tensor) -> Tensor:
        """⟨G, φφᵀ⟩ (b,) of φ (b, w), where G is the gradient of KEN: the influence of a sample, up to a constant."""
        return (features @ self.vectors).square() @ self.slopes

    def linear(self, difference: Tensor) -> float:
        """⟨G, D⟩ of another difference: KEN of it, linearised here. That of this one itself is KEN."""
        return float(((difference @ self.vectors) * self.vectors).sum(0) @ self.slopes)


def ken(eigenvalues: Tensor) -> float:
    """Σ λ log(S/λ) over the positive ones of eigenvalues (k), S their sum; 0 where none is."""
    positive = eigenvalues[eigenvalues > ROUNDING]
    return float((positive * (positive.sum() / positive).log()).sum())
