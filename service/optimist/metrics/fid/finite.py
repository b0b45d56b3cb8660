"""What the choice of a reference's rows does to a Fréchet distance (equations.md §1)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np
import torch
from torch import Tensor

from optimist_client.references import SOME

if TYPE_CHECKING:
    from optimist.metrics.fid.reference import Reference

_GAUSSIAN_FACTOR = 2.0
"""By how much more real rows may differ in their influence than Gaussian ones with the same moments do."""
_MATTERS = 5.0
"""From m/5 samples of a generator on the choice of m real rows is a large part of what is open in a difference."""


@dataclass(frozen=True, eq=False)
class FiniteReference:
    """Some of the m real rows that a reference was made of, or Gaussian rows with its moments where none are known.

    The influence of a real row y on the distance of a generator is, with v = y − μ_r,

        w(y) = 2 (μ_r − μ_g)·v + v·v − vᵀ T v,    T = Σ_g^{1/2} (Σ_g^{1/2} Σ_r Σ_g^{1/2})^{−1/2} Σ_g^{1/2}

    In the coordinates of R, RᵀR = Σ_r, T is the root of M = R Σ_g Rᵀ: vᵀ T v = cᵀ M^{1/2} c with Rᵀ c = v.
    """

    samples: int
    """m"""
    is_guessed: bool
    """Whether the rows are Gaussian ones."""
    rows: Tensor
    """v of each row (k, d)."""
    coordinates: Tensor
    """c of each row (k, rank)."""

    @classmethod
    def of(cls, reference: Reference, samples: int, rows: Tensor | None) -> Self:
        """rows: (k, d), of the `samples` that the moments come from; None if they are not known."""
        centred = _gaussian(reference) if rows is None else rows.double() - reference.mean
        basis, eigenvalues = reference.basis, reference.eigenvalues
        return cls(samples, rows is None, centred, (centred @ basis / eigenvalues) @ (reference.factor @ basis).T)

    @property
    def bytes(self) -> int:
        """Bytes of its tensors."""
        return self.rows.nbytes + self.coordinates.nbytes

    def by_gram(self, whitened: Tensor, eigenvalues: Tensor, eigenvectors: Tensor) -> Tensor:
        """vᵀ T v (k,) for centred rows (n, rank) times Rᵀ, and the eigenpairs (n − 1) of their Gram matrix/(n − 1)."""
        kept = eigenvalues > 1e-12 * eigenvalues.amax()
        turned = (self.coordinates @ whitened.T) @ eigenvectors[:, kept]
        return (turned.square() / eigenvalues[kept].sqrt()).sum(-1) / (len(whitened) - 1)

    def influence(self, shift: Tensor, quadratic: Tensor) -> Tensor:
        """w(y)/√m (k,) for μ_g − μ_r (d,) and vᵀ T v (k,)."""
        found = self.rows.square().sum(-1) - 2.0 * (self.rows @ shift) - quadratic
        return (_GAUSSIAN_FACTOR if self.is_guessed else 1.0) / math.sqrt(self.samples) * found

    def warnings(self, samples: int) -> tuple[str, ...]:
        """A warning where the part of the reference in differences is guessed, and so many samples make it large."""
        if not self.is_guessed or samples <= self.samples / _MATTERS:
            return ()
        return (
            f"of the reference's {self.samples} samples only mean and covariance are known, so what their choice "
            "leaves open in differences is guessed: make the reference from rows",
        )


UNKNOWN = (
    "how many samples the reference was made of is not known, so differences take it as exact: "
    "give `samples`, or make the reference from rows"
)
"""The warning where the number of real rows is not known."""


def by_covariance(eigenvalues: Tensor, coordinates: Tensor) -> Tensor:
    """vᵀ T v (k,) from the eigenvalues (rank) of M, and c (k, rank) in its eigenbasis."""
    return (coordinates.square() * eigenvalues.sqrt()).sum(-1)


def _gaussian(reference: Reference) -> Tensor:
    """Rows (256, d) of N(0, Σ_r); the symmetric root makes them the same on all machines, to rounding."""
    normal = np.random.default_rng(0).standard_normal((SOME, reference.dimension))
    inside = torch.from_numpy(normal).to(reference.device) @ reference.basis
    return (inside * reference.eigenvalues.sqrt()) @ reference.basis.T
