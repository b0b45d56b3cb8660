"""Unlimited Gaussian features with given moments, whose Fréchet distance has a closed form."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from optimist.estimation.question import Question
from optimist.metrics.fid.reference import Reference
from optimist.simulation.sources.base import Draw, Rows


class GaussianSource:
    """A generator whose features are N(mean (d,), covariance (d, d)).

    Raises FixError like `Reference` if these are not valid moments.
    """

    samples = None

    def __init__(self, mean: ArrayLike, covariance: ArrayLike, origin: str = "a Gaussian") -> None:
        moments = Reference(mean, covariance)
        self.mean: NDArray[np.float64] = moments.mean.numpy()
        self.covariance: NDArray[np.float64] = moments.covariance.numpy()
        self.origin = origin

    @property
    def widths(self) -> dict[str, int]:
        """The number of columns of each tensor, by name."""
        return {"features": len(self.mean)}

    def stream(self, draw: Draw) -> GaussianStream:
        """An unlimited stream of new rows."""
        return GaussianStream(self.mean, self._root, draw.rng())

    def exact(self, question: Question) -> float | None:
        """The Fréchet distance between two Gaussians (equations.md §1); None for other metrics."""
        reference = question.reference
        if not isinstance(reference, Reference):
            return None
        covariance = torch.from_numpy(self.covariance)
        squares = torch.linalg.eigvalsh(reference.root.T @ covariance @ reference.root)
        gap = float((torch.from_numpy(self.mean) - reference.mean).square().sum())
        return gap + float(covariance.trace()) + reference.trace - 2.0 * float(squares.clamp_min(0.0).sqrt().sum())

    @cached_property
    def _root(self) -> NDArray[np.float64]:
        """Rᵀ (d, d) with R Rᵀ = covariance, from the eigendecomposition because the covariance may be singular."""
        eigenvalues, eigenvectors = np.linalg.eigh(self.covariance)
        return (eigenvectors * np.sqrt(eigenvalues.clip(0.0))).T


class GaussianStream:
    """Normally distributed rows, generated on demand."""

    def __init__(self, mean: NDArray[np.float64], root: NDArray[np.float64], rng: np.random.Generator) -> None:
        self._mean = mean
        self._root = root
        self._rng = rng

    def take(self, count: int) -> Rows:
        """The next `count` rows of each tensor."""
        return {"features": self._mean + self._rng.standard_normal((count, len(self._mean))) @ self._root}
