"""Random features of contexts, in which scores are linear."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
MOST_DISTANCES = 1000
"""Contexts from which the median distance is taken."""
BANDWIDTHS = (1e-30, 1e30)
"""The smallest and the largest bandwidth: float32 holds the frequencies of others badly, or not at all."""


class ContextMap:
    """φ(y) = √(2/r) [cos Wy, sin Wy] of contexts y (d), with ‖φ‖ = 1: φ(x)·φ(y) ≈ exp(−‖x − y‖²/(2σ²)).

    `frequencies` is W (r/2, d). Source: RFF-UCB (arXiv 2410.13287).
    """

    def __init__(self, frequencies: Floats) -> None:
        if frequencies.ndim != 2 or not np.isfinite(frequencies).all():
            raise ValueError(f"frequencies: expected finite numbers (r/2, d), got shape {frequencies.shape}")
        self.frequencies = np.asarray(frequencies, dtype=np.float64)

    @classmethod
    def drawn(cls, dimension: int, features: int, bandwidth: float, seed: int = 0) -> ContextMap:
        """The map of the Gaussian kernel of this bandwidth σ with `features` = r entries, an even number."""
        if features < 2 or features % 2:
            raise ValueError(f"features: expected an even number of at least 2, got {features}")
        if not 0.0 < bandwidth < np.inf:
            raise ValueError(f"bandwidth: expected a number above 0, got {bandwidth}")
        normals = np.random.default_rng(seed).standard_normal((features // 2, dimension))
        return cls(normals / bandwidth)

    @property
    def dimension(self) -> int:
        """d."""
        return self.frequencies.shape[1]

    @property
    def width(self) -> int:
        """r, the entries of φ."""
        return 2 * len(self.frequencies)

    def __call__(self, contexts: NDArray[Any]) -> Floats:
        """φ (n, r) of contexts (n, d), any real dtype."""
        angles = np.asarray(contexts, dtype=np.float64) @ self.frequencies.T
        return np.concatenate([np.cos(angles), np.sin(angles)], axis=-1) / np.sqrt(len(self.frequencies))


def checked_context(context: NDArray[Any], dimension: int) -> NDArray[np.float32]:
    """A context (d,) as it is kept, in memory of its own. Raises ValueError unless it has d finite numbers."""
    kept = np.array(context, dtype=np.float32)
    if kept.shape != (dimension,) or not np.isfinite(kept).all():
        raise ValueError(f"context: expected {dimension} finite numbers, got shape {kept.shape}")
    return kept


def median_distance(contexts: NDArray[Any], seed: int = 0) -> float:
    """The median distance of different contexts (n, d), n ≥ 2, by at most 1000 of them.

    Raises ValueError if at least half of all pairs are equal: then there is no scale.
    """
    apart = _distances(contexts, seed)
    found = float(np.median(apart)) if len(apart) else 0.0
    if found <= 0.0:
        raise ValueError("contexts: at least half of all pairs are equal, so that no bandwidth can be taken from them")
    return found


def usual_distance(contexts: NDArray[Any], seed: int = 0) -> float:
    """A distance of contexts (n, d) that is always there: the median, else the mean of those above 0, else 1.

    The second serves where at least half of all pairs are equal, the third where all are: an experiment must not wait
    for contexts that differ. It is a distance that float32 can divide by.
    """
    apart = _distances(contexts, seed)
    above = apart[apart > 0.0]
    if not len(above):
        return 1.0
    middle = float(np.median(apart))
    return float(np.clip(middle if middle > 0.0 else above.mean(), *BANDWIDTHS))


def _distances(contexts: NDArray[Any], seed: int) -> Floats:
    """The distances of all pairs of at most `MOST_DISTANCES` contexts; 0 where one is but rounding of the two."""
    chosen = np.random.default_rng(seed).permutation(len(contexts))[:MOST_DISTANCES]
    rows = np.asarray(contexts, dtype=np.float64)[np.sort(chosen)]
    squares = np.square(rows).sum(1)
    first, second = np.triu_indices(len(rows), 1)
    apart = squares[:, None] + squares[None, :] - 2.0 * (rows @ rows.T)
    pairs = np.sqrt(np.maximum(apart[first, second], 0.0))
    # By the pair: one context of a wrong size must not make all others equal.
    return np.where(pairs > 1e-6 * np.sqrt(np.maximum(squares[first], squares[second])), pairs, 0.0)
