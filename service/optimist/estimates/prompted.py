"""Mean of answers to recurring prompts, and of the difference of two means (rules/calibration.md).

On a *sample* of prompts the error is by clusters; on a *list* it is a finite population's. No torch.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import PlainSerializer, PlainValidator

from optimist.estimates.clusters import (
    FEW,
    Floats,
    clustered_variance,
    lasting_variance,
    list_variance,
    unevenness,
    within_variance,
)
from optimist.estimates.pairing import StoredInts, as_text, from_text
from optimist.records import codec

ScoreTarget = Literal["sample", "list", "repeatable"]
"""Subject of the score: prompts like these; exactly these; exactly these, where a prompt's score is always the same."""
PackedFloats = Annotated[
    NDArray[np.float64], PlainValidator(partial(from_text, dtype="<f8")), PlainSerializer(partial(as_text, dtype="<f8"))
]


class ListParts(NamedTuple):
    """The variance of a mean, or of a difference, by chance within prompts, and by which prompts came how often."""

    by_values: float
    by_prompts: float

    @property
    def total(self) -> float:
        """Their sum."""
        return self.by_values + self.by_prompts


@codec.record
@dataclass(frozen=True, eq=False)
class PromptedMean:
    """The mean of n values, k of known prompts, m ≥ 1 different ones of `length`."""

    kind: ScoreTarget
    length: int
    """The number of all prompts."""
    prompts: StoredInts
    """The prompts seen (m,), ascending."""
    counts: StoredInts
    """Number of values of each prompt (m,); 1 where it is `repeatable`."""
    means: PackedFloats
    """Mean of each prompt (m,) less the mean of all values."""
    variance: float
    """T, the variance of the values."""
    squares: float
    """Σ of squares within prompts."""
    strays: int = 0
    """Values whose prompt is not known, which count as independent draws."""
    stray_squares: float = 0.0
    """Σ of squares of these about the mean of all."""
    residuals: PackedFloats = field(default_factory=lambda: np.zeros(0))
    """Values less the mean of their prompt by index, of the first indices; NaN for unknown ones."""

    def __eq__(self, other: object) -> bool:
        return codec.encode(self) == codec.encode(other) if isinstance(other, PromptedMean) else NotImplemented

    @property
    def prompted(self) -> int:
        """k, the number of values of known prompts."""
        return int(self.counts.sum())

    @property
    def samples(self) -> int:
        """n."""
        return self.prompted + self.strays

    @property
    def clusters(self) -> int:
        """m, and one for each value whose prompt is not known."""
        return len(self.prompts) + self.strays

    @property
    def is_complete(self) -> bool:
        """True if it is the score on the list, exactly."""
        return self.kind == "repeatable" and len(self.prompts) == self.length and not self.strays

    @property
    def within(self) -> float:
        """W, the variance within prompts."""
        if self.kind == "repeatable":
            return 0.0
        return within_variance(self.squares, self.prompted, len(self.prompts), self.variance)

    @property
    def parts(self) -> ListParts:
        """The variance of the mean."""
        n = self.samples
        if self.kind == "sample":
            deviations = np.append(self.counts * self.means, math.sqrt(self.stray_squares)) / n
            return ListParts(_finite(clustered_variance(deviations, self.clusters)), 0.0)
        few = 1.0 + FEW / n
        by_values = few * self.within / n
        whole = list_variance(self.variance, self.within, n, self.uneven(self))
        return ListParts(by_values, whole - by_values)

    @property
    def by_prompt(self) -> tuple[Floats, Floats]:
        """Counts and means of all prompts (length,), 0 where there is none."""
        counts, means = np.zeros((2, self.length))
        counts[self.prompts], means[self.prompts] = self.counts, self.means
        return counts, means

    def uneven(self, other: PromptedMean) -> float:
        """Unevenness of the prompts of both means, over n n′: U/n with itself (`clusters.unevenness`)."""
        strays = self.strays if other is self else 0
        largest = math.sqrt(float(self.samples) * other.samples)
        both = unevenness(self.by_prompt[0], other.by_prompt[0], self.length) + strays
        return min(both / (self.samples * other.samples), 1.0 / largest)

    def is_sound(self) -> bool:
        """True if every number may be stored; a residual may be NaN."""
        numbers = np.concatenate([self.means, [self.variance, self.squares, self.stray_squares]])
        return bool(np.isfinite(numbers).all()) and not bool(np.isinf(self.residuals).any())


class Differing(NamedTuple):
    """The difference of two means of the same prompts."""

    parts: ListParts
    """Its variance."""
    lasting: float
    """The part of it that more samples of the same prompts do not take away; 0 on a list."""
    clusters: int
    """The prompts that either has."""


def differing(first: PromptedMean, other: PromptedMean) -> Differing:
    """The difference of two means of the same prompts (rules/differences.md)."""
    (counts, means), (others, other_means) = first.by_prompt, other.by_prompt
    clusters = int(((counts > 0) | (others > 0)).sum()) + first.strays + other.strays
    n, m = float(first.samples), float(other.samples)
    both = np.minimum(counts, others)
    shared = float(both.sum())
    within = first.within / n + other.within / m
    covariance = _within_covariance(first, other)
    within -= 2.0 * covariance * shared / (n * m)
    if first.kind == "sample":
        strays = [math.sqrt(first.stray_squares) / n, math.sqrt(other.stray_squares) / m]
        deviations = np.append(counts * means / n - others * other_means / m, strays)
        variance = _finite(clustered_variance(deviations, clusters))
        return Differing(ListParts(variance, 0.0), float(lasting_variance(deviations, max(within, 0.0))), clusters)
    if shared < 2:
        apart = zip(first.parts, other.parts, strict=True)
        return Differing(ListParts(*(a + b for a, b in apart)), 0.0, clusters)
    # T and W of the differences of values at common indices.
    spreads = np.array([_spread_within(first), _spread_within(other)])
    freedom = shared - float((both > 0).sum())
    apart = means - other_means
    squares = max(float(spreads.sum()) - 2.0 * covariance, 0.0) * freedom
    total = (squares + float((both * np.square(apart - (both @ apart) / shared)).sum())) / (shared - 1.0)
    noise = 0.0
    if first.kind == "list":
        noise = within_variance(squares, int(shared), int((both > 0).sum()), total)
    few = 1.0 + FEW / min(n, m)
    by_values = _combined(noise, first.within, other.within, (1.0 / n, 1.0 / m, shared / (n * m)))
    uneven = first.uneven(first), other.uneven(other), first.uneven(other)
    between = total - noise, first.variance - first.within, other.variance - other.within
    by_prompts = _combined(*between, uneven)
    return Differing(ListParts(few * by_values, few * by_prompts), 0.0, clusters)


def _combined(of_difference: float, own: float, other: float, weights: tuple[float, float, float]) -> float:
    """The variance of a difference of two sums of a common law, with their squared weights and their product.

    Where the weights are the same only the variance of differences counts; what one has alone counts by its own.
    """
    first, second, both = weights
    alone = own * (first - both) + other * (second - both)
    return max(of_difference * both + alone, of_difference * min(first, second, max(both, 0.0)), 0.0)


def _spread_within(mean: PromptedMean) -> float:
    freedom = mean.prompted - len(mean.prompts)
    return mean.squares / freedom if freedom > 0 else 0.0


def _within_covariance(first: PromptedMean, other: PromptedMean) -> float:
    """The covariance of the two within prompts, by the first indices; 0 without common indices."""
    size = min(len(first.residuals), len(other.residuals))
    products = first.residuals[:size] * other.residuals[:size]
    is_shared = ~np.isnan(products)
    # Means of prompts absorb a part of the squares.
    own, its = (1.0 - len(mean.prompts) / mean.prompted for mean in (first, other))
    left = math.sqrt(max(own * its, 0.0))
    if not is_shared.any() or not left > 0.0:
        return 0.0
    return float(products[is_shared].sum()) / (float(is_shared.sum()) * left)


def _finite(variance: NDArray[Any]) -> float:
    value = float(variance)
    return value if math.isfinite(value) else math.inf
