"""Gaussian features of given moments: endless, and their Fréchet distance is known in closed form."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from optimist.evaluation import Question
from optimist.numerics.fid.reference import Reference
from optimist.simulation.sources.base import Draw, Rows
from optimist_client.metrics import FID


class GaussianSource:
    """A generator whose features are N(mean (d,), covariance (d, d)).

    Raises ValueError, as `Reference` does, where these are no moments.
    """

    samples = None

    def __init__(self, mean: ArrayLike, covariance: ArrayLike, origin: str = "a Gaussian") -> None:
        moments = Reference(mean, covariance)
        self.mean: NDArray[np.float64] = moments.mean.numpy()
        self.covariance: NDArray[np.float64] = moments.covariance.numpy()
        self.origin = origin

    @property
    def widths(self) -> dict[str, int]:
        """See `Source.widths`."""
        return {"features": len(self.mean)}

    def stream(self, draw: Draw) -> GaussianStream:
        """See `Source.stream`; the next rows are always new ones."""
        return GaussianStream(self.mean, self._root, draw.rng())

    def exact(self, question: Question) -> float | None:
        """The Fréchet distance between two Gaussians (equations.md §1); None for other metrics."""
        reference = question.reference
        if reference is None or not isinstance(question.metric, FID):
            return None
        covariance = torch.from_numpy(self.covariance)
        squares = torch.linalg.eigvalsh(reference.root.T @ covariance @ reference.root)
        gap = float((torch.from_numpy(self.mean) - reference.mean).square().sum())
        return gap + float(covariance.trace()) + reference.trace - 2.0 * float(squares.clamp_min(0.0).sqrt().sum())

    @cached_property
    def _root(self) -> NDArray[np.float64]:
        """R (d, d) with R Rᵀ = covariance, transposed; by its eigenvectors, as it may be singular."""
        eigenvalues, eigenvectors = np.linalg.eigh(self.covariance)
        return (eigenvectors * np.sqrt(eigenvalues.clip(0.0))).T


class GaussianStream:
    """Normal rows, made as they are taken."""

    def __init__(self, mean: NDArray[np.float64], root: NDArray[np.float64], rng: np.random.Generator) -> None:
        self._mean = mean
        self._root = root
        self._rng = rng

    def take(self, count: int) -> Rows:
        """See `Stream.take`."""
        return {"features": self._mean + self._rng.standard_normal((count, len(self._mean))) @ self._root}
