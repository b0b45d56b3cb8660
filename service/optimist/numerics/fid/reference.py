"""The reference moments of a Fréchet distance, checked, with their eigenbasis."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from optimist.numerics.batches import LARGEST
from optimist.numerics.spectra import pair_sum

RANK_CUTOFF = 1e-10
TOLERANCE = 1e-5
"""How far from symmetric, or below zero, a covariance computed in float32 may be, as a part of its largest entry."""
VANISHING = 1e-100
"""Largest eigenvalue up to which a covariance counts as zero: the square of a smaller one is lost to float64."""


class Reference:
    """Mean (d) and covariance (d, d) of the real features, float64 on one device, taken as exact.

    Σ_r stands on its eigenvectors in descending order: `rank` of them have eigenvalues above 1e-10 · λ_max
    (decisions.md §2), `support` ≥ `rank` of them above rounding. Estimators divide by eigenvalues and use the first
    `rank`; the plug-in uses all of the support, so that a set's distance to itself is zero however ill-conditioned.

    Raises ValueError, saying what is wrong, unless the mean is finite, the covariance symmetric, finite and positive
    semi-definite to rounding, and neither has entries that features of magnitude 1e30 could not cause.
    """

    def __init__(
        self, mean: ArrayLike | Tensor, covariance: ArrayLike | Tensor, device: torch.device | str = "cpu"
    ) -> None:
        self.mean = _checked(mean, "mean", LARGEST, device)
        if self.mean.ndim != 1 or len(self.mean) < 1:
            raise ValueError(f"the reference mean must have shape (d,), d ≥ 1, not {tuple(self.mean.shape)}")
        square = (len(self.mean), len(self.mean))
        covariance = _checked(covariance, "covariance", LARGEST**2, device)
        if covariance.shape != square:
            raise ValueError(f"the reference covariance must have shape {square}, not {tuple(covariance.shape)}")
        if bool((covariance - covariance.T).abs().amax() > TOLERANCE * covariance.abs().amax()):
            raise ValueError("the reference covariance must be symmetric")
        self.covariance = 0.5 * (covariance + covariance.T)
        eigenvalues, eigenvectors = (part.flip(-1) for part in torch.linalg.eigh(self.covariance))
        if bool(eigenvalues[-1] < -TOLERANCE * eigenvalues.abs().amax()):
            lowest, highest = float(eigenvalues[-1]), float(eigenvalues[0])
            message = f"its eigenvalues run from {lowest:.3g} to {highest:.3g}"
            raise ValueError(f"the reference covariance must be positive semi-definite: {message}")
        largest = float(eigenvalues[0]) if eigenvalues[0] > VANISHING else torch.inf
        rounding = self.dimension * torch.finfo(torch.float64).eps
        self.rank = int((eigenvalues > RANK_CUTOFF * largest).sum())
        self.support = max(self.rank, int((eigenvalues > rounding * largest).sum()))
        self._eigenvalues = eigenvalues.clamp_min(0.0)
        self._eigenvectors = eigenvectors.contiguous()

    @property
    def dimension(self) -> int:
        """d."""
        return len(self.mean)

    @property
    def bytes(self) -> int:
        """Of its tensors, with those made so far of the ones that are made when they are needed."""
        return sum(value.nbytes for value in list(vars(self).values()) if isinstance(value, Tensor))

    @property
    def device(self) -> torch.device:
        """Where its tensors are."""
        return self.mean.device

    @property
    def eigenvalues(self) -> Tensor:
        """The `rank` eigenvalues above the cut, descending (rank)."""
        return self._eigenvalues[: self.rank]

    @property
    def basis(self) -> Tensor:
        """Their eigenvectors as columns (d, rank)."""
        return self._eigenvectors[:, : self.rank]

    @cached_property
    def root(self) -> Tensor:
        """Eigenvectors times √eigenvalue, over the whole support (d, support): x·root is S x in the eigenbasis."""
        return self._eigenvectors[:, : self.support] * self._eigenvalues[: self.support].sqrt()

    @cached_property
    def projector(self) -> Tensor:
        """Onto the span of `basis` (d, d)."""
        return self.basis @ self.basis.T

    @cached_property
    def trace(self) -> float:
        """Tr Σ_r."""
        return float(self.covariance.trace())

    @cached_property
    def root_trace(self) -> float:
        """Tr Σ_r^{1/2}."""
        return float(self._eigenvalues[: self.support].sqrt().sum())

    @cached_property
    def square_trace(self) -> float:
        """Tr Σ_r² over `basis`."""
        return float(self.eigenvalues.square().sum())

    @cached_property
    def pair_sum(self) -> float:
        """Σ_ij (r_i r_j / (r_i + r_j))² over `eigenvalues` r: the reference's own second-order variance."""
        return pair_sum(self.eigenvalues)

    @property
    def norm(self) -> float:
        """‖Σ_r‖₂, its largest eigenvalue."""
        return float(self._eigenvalues[0])


def _checked(values: ArrayLike | Tensor, name: str, limit: float, device: torch.device | str) -> Tensor:
    """A float64 copy of the values on the device. Raises ValueError on NaN, infinity or anything beyond the limit."""
    source = values if isinstance(values, Tensor) else torch.from_numpy(np.array(values, dtype=np.float64))
    tensor = source.detach().to(device, torch.float64, copy=True)
    # Written so that NaN fails it too.
    if not bool((tensor.abs() <= limit).all()):
        raise ValueError(f"the reference {name} must be finite and at most {limit:g} in magnitude")
    return tensor
