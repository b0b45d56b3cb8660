"""The sums of a regression: additive, hence in any order, and one sample can be taken back."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from optimist.numerics.routing.features import Floats
from optimist_client.errors import FixError


@dataclass(frozen=True, eq=False)
class Moments:
    """The sums over samples with features φ (r) and scores s that regressions of s on φ need."""

    samples: int
    gram: Floats
    """Σ φφᵀ (r, r)."""
    total: Floats
    """Σ φ (r,)."""
    cross: Floats
    """Σ sφ (r,)."""
    sum: float
    """Σ s."""
    squares: float
    """Σ s²."""

    @classmethod
    def of(cls, features: Floats, scores: Floats) -> Moments:
        """The sums of features (n, r) and scores (n,), n ≥ 0. Raises FixError if a number is not finite."""
        if features.ndim != 2 or scores.shape != features.shape[:1]:
            raise FixError(f"expected features (n, r) and scores (n,), got {features.shape} and {scores.shape}")
        if not (np.isfinite(features).all() and np.isfinite(scores).all()):
            raise FixError("expected finite features and scores")
        return cls(
            len(scores),
            features.T @ features,
            features.sum(0),
            scores @ features,
            float(scores.sum()),
            float(scores @ scores),
        )

    @classmethod
    def none(cls, width: int) -> Moments:
        """The sums of no samples."""
        return cls(0, np.zeros((width, width)), np.zeros(width), np.zeros(width), 0.0, 0.0)

    def __add__(self, other: Moments) -> Moments:
        return self._with(other, 1)

    def __sub__(self, other: Moments) -> Moments:
        """Without the samples of `other`, which are among these."""
        return self._with(other, -1)

    def _with(self, other: Moments, sign: int) -> Moments:
        return Moments(
            self.samples + sign * other.samples,
            self.gram + sign * other.gram,
            self.total + sign * other.total,
            self.cross + sign * other.cross,
            self.sum + sign * other.sum,
            self.squares + sign * other.squares,
        )

    @property
    def mean(self) -> float:
        """Mean score; 0 without samples."""
        return self.sum / max(self.samples, 1)

    @property
    def centre(self) -> Floats:
        """Mean φ (r,); 0 without samples."""
        return self.total / max(self.samples, 1)

    @property
    def centred(self) -> tuple[Floats, Floats, float]:
        """Σ φφᵀ (r, r), Σ sφ (r,) and Σ s² of φ and s minus their means."""
        outer = np.outer(self.total, self.centre)
        squares = max(self.squares - self.sum * self.mean, 0.0)
        return self.gram - outer, self.cross - self.mean * self.total, squares
