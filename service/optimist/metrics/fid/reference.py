"""The reference moments of a Fréchet distance, and the error that the choice of its rows makes (equations.md §1)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from optimist.estimates.skewness import missing_widening, skewness
from optimist.metrics.spectra.eigen import eigen_basis, eigenvalues_of, pair_sum, square_norms
from optimist.metrics.spectra.symmetric import symmetric_product
from optimist.references.real_data import Reference, check_lowest, check_moments
from optimist_client.references import SOME


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
    """True if the rows are Gaussian ones."""
    rows: Tensor
    """v of each row (k, d)."""
    coordinates: Tensor
    """c of each row (k, rank)."""

    @classmethod
    def from_rows(cls, reference: FrechetReference, samples: int, rows: Tensor | None) -> Self:
        """rows: (k, d), of the `samples` that the moments come from; None if they are not known."""
        centred = _gaussian(reference) if rows is None else rows.double() - reference.mean
        if reference.rank == reference.dimension:
            coordinates = torch.linalg.solve_triangular(reference.factor, centred, upper=True, left=False)
        else:
            basis = reference.basis()
            coordinates = (centred @ basis / reference.eigenvalues) @ (reference.factor @ basis).T
        return cls(samples, rows is None, centred, coordinates)

    @property
    def bytes(self) -> int:
        return self.rows.nbytes + self.coordinates.nbytes

    def by_gram(self, whitened: Tensor, eigenvalues: Tensor, eigenvectors: Tensor) -> Tensor:
        """vᵀ T v (k,) for rows (n, rank) times Rᵀ, and the eigenpairs (n − 1) of their Gram matrix/(n − 1), centred."""
        kept = eigenvalues > 1e-12 * eigenvalues.amax()
        turned = (self.coordinates @ whitened.T) @ eigenvectors[:, kept]
        return (turned.square() / eigenvalues[kept].sqrt()).sum(-1) / (len(whitened) - 1)

    def influence(self, shift: Tensor, quadratic: Tensor) -> Tensor:
        """w(y)/√m (k,) for μ_g − μ_r (d,) and vᵀ T v (k,)."""
        influence = self.rows.square().sum(-1) - 2.0 * (self.rows @ shift) - quadratic
        # Real rows may differ by twice as much in their influence as Gaussian ones with the same moments do.
        return (2.0 if self.is_guessed else 1.0) / math.sqrt(self.samples) * influence

    def missing(self, influence: Tensor, variance: float, samples: int) -> float:
        """`Analysis.missing` of so many samples whose influences have this variance, by the real rows'."""
        if self.is_guessed or variance <= 0.0:
            return 1.0
        values = influence.cpu().numpy()
        return missing_widening(self.samples * float(values.var()) / variance, float(skewness(values)), samples)

    def warnings(self, samples: int) -> tuple[str, ...]:
        """A warning where the part of the reference in differences is guessed, and so many samples make it large."""
        # From m/5 samples on the choice of m real rows is a large part of what is open in a difference.
        if not self.is_guessed or samples <= self.samples / 5.0:
            return ()
        return (
            f"of the reference's {self.samples} samples only mean and covariance are known, so what their choice "
            "leaves open in differences is guessed, so that intervals may be 1.6 times as wide as needed: make the "
            "reference from rows",
        )


UNKNOWN = (
    "how many samples the reference was made of is not known, so differences take it as exact: "
    "give `samples`, or make the reference from rows"
)
"""The warning where the number of real rows is not known."""


def by_covariance(eigenvalues: Tensor, coordinates: Tensor) -> Tensor:
    """vᵀ T v (k,) from the eigenvalues (rank) of M, and c (k, rank) in its eigenbasis."""
    return (coordinates.square() * eigenvalues.sqrt()).sum(-1)


def _gaussian(reference: FrechetReference) -> Tensor:
    """Rows (256, d) of N(0, Σ_r); the symmetric root makes them the same on all machines, to rounding."""
    normal = np.random.default_rng(0).standard_normal((SOME, reference.dimension))
    basis = reference.basis()
    return ((torch.from_numpy(normal).to(reference.device) @ basis) * reference.eigenvalues.sqrt()) @ basis.T


class FrechetReference(Reference):
    """Mean (d) and covariance (d, d) of the real features, float64 on one device.

    They are regarded as exact, except in differences of distances where `finite` is known.

    The eigenvalues of Σ_r are in descending order: `rank` of them are above 1e-10 · λ_max (rules/estimates.md),
    `support` ≥ `rank` of them above rounding. Estimators divide by eigenvalues and use the first `rank`; the plug-in
    uses all of the support, so that a set's distance to itself is zero however ill-conditioned.

    Where the rank is full, as with many real features, only `factor` is kept, and from the first estimate of more
    samples than that on `square`; the eigenvectors are found again where somebody asks for them.

    samples: how many real features there were, if that is known; some_rows: some of them (k, d), if they are kept.
    Raises FixError, as the checks in `references.real_data` do.
    """

    def __init__(
        self,
        mean: ArrayLike | Tensor,
        covariance: ArrayLike | Tensor,
        device: torch.device | str = "cpu",
        *,
        samples: int | None = None,
        some_rows: NDArray[np.floating] | None = None,
    ) -> None:
        checked = _array(mean), _array(covariance)
        scale = check_moments(*checked)
        self.dimension, self.device = len(checked[0]), torch.device(device)
        self.mean, covariance = (torch.from_numpy(part).to(device, copy=True) for part in checked)
        eigenvalues = eigenvalues_of(covariance).flip(-1)
        check_lowest(float(eigenvalues[-1]), scale)
        # Up to this a covariance counts as zero: the square of a smaller eigenvalue underflows.
        largest = float(eigenvalues[0]) if eigenvalues[0] > 1e-100 else torch.inf
        rounding = self.dimension * torch.finfo(torch.float64).eps
        self.rank = int((eigenvalues > 1e-10 * largest).sum())
        self.support = max(self.rank, int((eigenvalues > rounding * largest).sum()))
        self._eigenvalues = eigenvalues.clamp_min(0.0)
        self._eigenvectors: Tensor | None = None
        self.trace = float(covariance.trace())
        """Tr Σ_r, of the covariance."""
        if self.rank == self.dimension:
            self.factor = torch.linalg.cholesky(covariance, upper=True)
            """Upper trapezoidal R (rank, d) with RᵀR = Σ_r over `basis`: R Σ Rᵀ has the eigenvalues of S Σ S."""
        else:
            self._eigenvectors = _descending(covariance)
            self.factor = torch.linalg.qr((self.basis() * self.eigenvalues.sqrt()).T, mode="r").R
        self._samples = samples
        self._some_rows = None if some_rows is None else torch.from_numpy(some_rows).to(device)

    @property
    def eigenvalues(self) -> Tensor:
        """The `rank` eigenvalues above the cut, descending (rank)."""
        return self._eigenvalues[: self.rank]

    def basis(self) -> Tensor:
        """The eigenvectors of `eigenvalues` as columns (d, rank). Where the rank is full, they are not kept, but found
        again: at d = 2048 in 2 s.
        """
        if self._eigenvectors is None:
            return _descending(symmetric_product(self.factor.T, self.factor))
        return self._eigenvectors[:, : self.rank]

    @cached_property
    def covariance(self) -> Tensor:
        """Σ_r (d, d), to rounding."""
        if self._eigenvectors is None:
            return symmetric_product(self.factor.T, self.factor)
        return (self._eigenvectors * self._eigenvalues) @ self._eigenvectors.T

    @cached_property
    def root(self) -> Tensor:
        """Eigenvectors times √eigenvalue, over the whole support (d, support): x·root is S x in the eigenbasis."""
        vectors = self.basis() if self._eigenvectors is None else self._eigenvectors[:, : self.support]
        return vectors * self._eigenvalues[: self.support].sqrt()

    @cached_property
    def whole_factor(self) -> Tensor:
        """The factor of `factor` over the whole support (support, d)."""
        return self.factor if self.rank == self.support else torch.linalg.qr(self.root.T, mode="r").R

    @cached_property
    def square(self) -> Tensor:
        """R Σ_r Rᵀ (rank, rank), R = `factor`: Σ_r² in the basis of R Σ Rᵀ."""
        gram = symmetric_product(self.factor, self.factor.T)
        return symmetric_product(gram, gram)

    def square_norms(self, rows: Tensor) -> Tensor:
        """‖Bᵀx‖² (k) of rows x (k, d), B = `basis`."""
        inside = rows if self.rank == self.dimension else rows @ self.basis()
        return square_norms(inside)

    @cached_property
    def projector(self) -> Tensor:
        """Onto the span of `basis` (d, d)."""
        return self.basis() @ self.basis().T

    @cached_property
    def root_trace(self) -> float:
        """Tr Σ_r^{1/2}, of the root of the covariance."""
        return float(self._eigenvalues[: self.support].sqrt().sum())

    @cached_property
    def square_trace(self) -> float:
        """Tr Σ_r² over `basis`."""
        return float(self.eigenvalues.square().sum())

    @cached_property
    def pair_sum(self) -> float:
        """Σ_ij (r_i r_j / (r_i + r_j))² over `eigenvalues` r: the reference's own second-order variance."""
        return pair_sum(self.eigenvalues)

    @cached_property
    def finite(self) -> FiniteReference | None:
        """The effect of the choice of the real features on distances; None if their number is not known."""
        return None if self._samples is None else FiniteReference.from_rows(self, self._samples, self._some_rows)

    @property
    def norm(self) -> float:
        """‖Σ_r‖₂, its largest eigenvalue."""
        return float(self._eigenvalues[0])


def _descending(covariance: Tensor) -> Tensor:
    """The eigenvectors (d, d) as columns, by descending eigenvalues."""
    return eigen_basis(covariance)[1].flip(-1).contiguous()


def _array(values: ArrayLike | Tensor) -> NDArray[np.float64]:
    """A float64 copy of the values, in row-major order."""
    source = values.detach().double().cpu().numpy() if isinstance(values, Tensor) else values
    return np.array(source, dtype=np.float64, order="C")
