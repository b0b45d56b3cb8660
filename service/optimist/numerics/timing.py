"""Relation between the scores of a generator's batches and their duration."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FEWEST_BATCHES = 4
"""Batches from which on it is said whether scores go with time: 20 samples, with which a decision can come, are four
picks."""
RELATED = 0.5
"""The rank correlation of a batch's mean with its time a sample above which scores go with time, from 20 batches on."""
CHANCE = 2.2
"""Factor of 1/√(k − 1), the standard deviation of the rank correlation of k independent batches: with fewer than 20
batches scores are related to time only above this, as 3 % of independent ones are. Four or five batches are where time
orders them exactly."""
KEPT = 256
"""The newest batches that are looked at."""


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
        if self.batches < FEWEST_BATCHES:
            return False
        return abs(self.correlation) > min(max(RELATED, CHANCE / math.sqrt(self.batches - 1)), 1.0 - 1e-9)


def rank_correlation(values: NDArray[np.float64], other: NDArray[np.float64]) -> float:
    """Spearman's rank correlation of two arrays (k,), equal numbers having their mean rank; 0 where all are equal."""
    first, second = (ranks - ranks.mean() for ranks in map(_ranks, (values, other)))
    scale = float(np.sqrt((first @ first) * (second @ second)))
    return float(first @ second) / scale if scale > 0.0 else 0.0


def _ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    _, labels, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (counts.cumsum() - 0.5 * (counts - 1)).astype(np.float64)[labels]
