"""Rare rows that decide a score: the skewness of influences widens errors (rules/calibration.md). No torch.

The mean of skewed rows and its error are correlated: before the rare large rows come, both are too small. A variance
from n rows of skewness γ is therefore multiplied by 1 + c γ²/n, and the variance of a difference, whose sign is
claimed, by (1 + γ/√n)², where γ speaks against the claim.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from optimist.arrays import Floats

OF_SCORES = 10.0
"""c of a score's sd_stop²."""
OF_MEANS = 80.0
"""c of the variance of a difference of means by their own skewness, which counts on one side only, too. It is of the
skewness of the difference itself, so that n = 1."""


def skewness(values: NDArray[np.floating[Any]]) -> Floats:
    """The skewness (…) of rows of numbers (…, m), of which NaN are missing: third central moment over deviation³.

    0 where a row has fewer than three numbers, or does not vary beyond rounding.
    """
    rows = np.asarray(values, dtype=np.float64)
    told = ~np.isnan(rows)
    count = np.maximum(told.sum(axis=-1, keepdims=True), 1)
    rows = np.where(told, rows, 0.0)
    largest = np.abs(rows).max(axis=-1, keepdims=True, initial=0.0)
    rows = rows / np.where(largest > 0.0, largest, 1.0)
    rows = np.where(told, rows - rows.sum(axis=-1, keepdims=True) / count, 0.0)
    second, third = (np.power(rows, power).sum(axis=-1) / count[..., 0] for power in (2, 3))
    varies = (second > 1e-14) & (count[..., 0] >= 3)
    return np.where(varies, third / np.power(np.where(varies, second, 1.0), 1.5), 0.0)


def against(skewed: Floats, differences: Floats) -> Floats:
    """The skewness (k,) of differences (k,) where it speaks against their sign, 0 elsewhere.

    Rare rows that would make a difference larger can be missing where it is below 0, and only there do they mislead.
    """
    return np.where(skewed * differences < 0.0, skewed, 0.0)


def widening(skewed: Floats | float, samples: Floats | float, weight: float) -> Floats:
    """1 + `weight` γ²/n, the factor of a variance from n = `samples` rows of skewness γ = `skewed`."""
    return 1.0 + weight * np.square(skewed) / samples


def missing_widening(ratio: float, skewed: float, samples: int) -> float:
    """The factor of a variance from n = `samples` rows, which may lack rare kinds of real rows of skewness `skewed`.

    ratio: the variance by the real rows over that by the samples. b = γ²/10 real rows count beside the n samples:
    (n + b ratio)/(n + b), or 1 where the samples vary more.
    """
    borrowed = 0.1 * skewed * skewed
    return max(1.0, (samples + borrowed * ratio) / (samples + borrowed))


def against_widening(skewed: Floats, samples: Floats | float) -> Floats:
    """(1 + |γ|/√n)², the factor of the variance of a difference by a skewness that speaks against its sign.

    The statistic t of n rows has about the quantiles z + γ (2z² + 1)/(6√n), z the normal quantiles. At z of about 2.8,
    as decisions need, this is z (1 + γ/√n).
    """
    return np.square(1.0 + np.abs(skewed) / np.sqrt(samples))
