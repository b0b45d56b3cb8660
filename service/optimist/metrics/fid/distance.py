"""The terms of a Fréchet distance, by the Gram matrix of a statistic's rows or by its scatter (equations.md §1)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from optimist.metrics.fid.reference import Reference
from optimist.metrics.fid.statistic import GaussianStatistic
from optimist.metrics.spectra import centre, root_trace
from optimist_client.errors import FixError

Route = Literal["gram", "covariance"]


@dataclass(frozen=True)
class FrechetTerms:
    """The terms of a Fréchet distance, before the scatter is divided by n or n − 1."""

    gap: float
    """‖μ̂ − μ_r‖²."""
    trace: float
    """Tr of the scatter."""
    root: float
    """Tr (S · scatter · S)^{1/2}."""
    reference_trace: float
    """Tr Σ_r."""

    def distance(self, degrees: int) -> float:
        """The distance with scatter / degrees as covariance, never negative. Raises FixError on degrees < 1."""
        if degrees < 1:
            raise FixError("the unbiased covariance needs at least 2 samples")
        spread = self.trace / degrees + self.reference_trace - 2.0 * self.root / math.sqrt(degrees)
        return max(self.gap + spread, 0.0)


def terms_of(
    reference: Reference,
    statistic: GaussianStatistic,
    *,
    route: Route | None = None,
    spectrum: Tensor | None = None,
) -> FrechetTerms:
    """The distance's terms from 1 sample or more, by the route that suits n unless another is given.

    `spectrum` saves the eigenproblem where the caller has the eigenvalues of rootᵀ scatter root over the reference's
    `rank`, or those of the Gram matrix. Raises FixError on the Gram route without rows.
    """
    rows = statistic.rows
    # The caller's spectrum lacks the eigenvalues between rank and support.
    spectrum = spectrum if reference.rank == reference.support else None
    if rows is not None:
        mean, centred = centre(rows)
        trace = float(centred.square().sum())
    elif route != "gram":
        mean, centred, trace = statistic.mean, None, statistic.scatter_trace
    else:
        raise FixError(f"the Gram route needs all rows, which are kept up to {statistic.keep} samples")
    if centred is not None and route != "covariance":
        root = _gram_root(centred, reference.root, spectrum)
    else:
        root = _covariance_root(statistic.scatter, reference.root, spectrum)
    return FrechetTerms(float((mean - reference.mean).square().sum()), trace, root, reference.trace)


def _gram_root(centred: Tensor, root: Tensor, spectrum: Tensor | None) -> float:
    """Tr √(ZᵀZ), Z = centred · root, from centred rows (n, d) by the Gram matrix of Z."""
    if spectrum is not None:
        return root_trace(spectrum, lambda: centred @ root)
    whitened = centred @ root
    # Centred rows are linearly dependent: the smallest eigenvalue is zero plus noise, which a root would magnify.
    return root_trace(torch.linalg.eigvalsh(whitened @ whitened.T)[1:], lambda: whitened)


def _covariance_root(scatter: Tensor, root: Tensor, spectrum: Tensor | None) -> float:
    """Tr √(rootᵀ scatter root), scatter (d, d)."""
    eigenvalues: Tensor = torch.linalg.eigvalsh(root.T @ scatter @ root) if spectrum is None else spectrum

    def factor() -> Tensor:
        squares, eigenvectors = torch.linalg.eigh(scatter)
        # In directions without samples the eigenvalues are noise, and each would add its root.
        noise = len(squares) * torch.finfo(squares.dtype).eps * squares[-1]
        roots = torch.where(squares > noise, squares, 0.0).sqrt()
        return roots[:, None] * (eigenvectors.T @ root)

    return root_trace(eigenvalues, factor)
