"""Differences of means, and the rare values that a generator may not have shown yet (rules/calibration.md). No torch.

Before the rare values of a skewed law come, the mean of its samples is off and their variance is too small. The other
generator may have shown such values, and two models are often alike. So a generator borrows γ² samples of the other
one, γ the skewness of the other's values: as many as could hide its own variance. And a difference is less sure where
values that are rare among the samples would speak against it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from optimist.arrays import Floats
from optimist.estimates.estimate import Estimate
from optimist.estimates.skewness import OF_MEANS, against, widening


class Means(NamedTuple):
    """The samples, sampling variances of the mean, and skewness of the values of each of k means, arrays (k,)."""

    samples: Floats
    variances: Floats
    skewness: Floats

    def at(self, index: int) -> Means:
        """The moments of one mean."""
        return Means(*(numbers[index] for numbers in self))

    @property
    def of_values(self) -> tuple[Floats, Floats]:
        """Second and third central moments of the values."""
        second = self.samples * self.variances
        return second, self.skewness * np.power(second, 1.5)


class SampledVariances(NamedTuple):
    """The sampling variances of k differences from a base, and their skewness, arrays (k,)."""

    own: Floats
    """The variance of the base, with what it borrows."""
    each: Floats
    """The variance of the other one, with what it borrows."""
    skewness: Floats
    """The skewness of the difference, the other one less the base."""

    def factors(self, differences: Floats) -> Floats:
        """The factors (k,) by which rare values that speak against these differences (k,) widen their variances."""
        return widening(against(self.skewness, differences), 1.0, OF_MEANS)


def moments_of(estimates: Sequence[Estimate], sign: float, variances: Floats) -> Means | None:
    """The moments of estimates whose means have these variances by sampling; None if they are no means of values.

    sign: what makes losses of the values.
    """
    skewness = [estimate.value_skewness for estimate in estimates]
    signed = [sign * each for each in skewness if each is not None]
    if not signed or len(signed) < len(skewness):
        return None
    return Means(np.array([float(estimate.samples) for estimate in estimates]), variances, np.array(signed))


@np.errstate(divide="ignore", invalid="ignore", over="ignore")
def sampled(base: Means, means: Means) -> SampledVariances:
    """The variances and skewness of differences of these means (k,) from `base`, one or k, if they are independent.

    Variances are not finite where a mean's own is not.
    """
    own, of_base = _borrowed(base, means)
    each, of_means = _borrowed(means, base)
    skewness = (of_means - of_base) / np.power(own + each, 1.5)
    return SampledVariances(own, each, np.where(np.isfinite(skewness), skewness, 0.0))


def _borrowed(one: Means, other: Means) -> tuple[Floats, Floats]:
    """Second and third central moment of a mean by sampling, with what it borrows of the other one."""
    (second, third), (others, third_of_other) = one.of_values, other.of_values
    # Values that are all equal say nothing of what the others would be.
    samples = np.where(second <= 1e-12 * others, one.samples, np.square(other.skewness))
    share = samples / (one.samples + samples)
    second, third = np.maximum(second, second + share * (others - second)), third + share * (third_of_other - third)
    return second / one.samples, third / np.square(one.samples)
