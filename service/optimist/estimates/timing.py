"""Relation between the scores of a generator's batches and their duration."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Timing:
    """Relation of scores to the time from ask to tell of a generator's batches."""

    pace: float
    """Median of the seconds a sample."""
    batches: int
    """Number of newest batches in the relation."""
    correlation: float
    """Spearman's rank correlation of the mean of a batch with its seconds a sample."""

    @classmethod
    def of(cls, batches: NDArray[np.float64]) -> Timing | None:
        """The timing of batches (k, 2), each the mean and the seconds a sample; None without any."""
        if not len(batches):
            return None
        means, seconds = batches.T
        return cls(float(np.median(seconds)), len(batches), rank_correlation(means, seconds))

    @property
    def is_related(self) -> bool:
        """True if scores are related to time, in either direction."""
        # 20 samples, with which a decision can come, are four picks.
        if self.batches < 4:
            return False
        # Of fewer than 20 batches 3 % of independent ones are related so; of four or five, only if time orders them.
        by_chance = 2.2 / math.sqrt(self.batches - 1)
        return abs(self.correlation) > min(max(0.5, by_chance), 1.0 - 1e-9)


def rank_correlation(values: NDArray[np.float64], other: NDArray[np.float64]) -> float:
    """Spearman's rank correlation of two arrays (k,), equal numbers having their mean rank; 0 where all are equal."""
    first, second = (ranks - ranks.mean() for ranks in map(_ranks, (values, other)))
    scale = float(np.sqrt((first @ first) * (second @ second)))
    return float(first @ second) / scale if scale > 0.0 else 0.0


def _ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    _, labels, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (counts.cumsum() - 0.5 * (counts - 1)).astype(np.float64)[labels]
