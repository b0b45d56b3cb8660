"""A judge on every sample and people on some: the mean by the people, and the difference of two (rules/audits.md).

The k-th of n audits was drawn with a chance of 1/(N w_k) among N samples, people gave it h_k and the judge f_k, and F
is the judge's mean of all:

    t_k = l_k F + w_k (h_k − l_k f_k)        D = mean t_k        Var D = Var(t)/n (1 + 5/n) + l̄² Var F

l_k = max(0, 1 − 4/n) Cov(h, f)/Var(f) of the audits of the other half, at even and odd places. D is unbiased whatever
the judge says. Source: Angelopoulos, Duchi and Zrnic, PPI++ (2023), with the slope by halves. No torch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from optimist.arrays import Floats
from optimist.estimates.clusters import FEW
from optimist.estimates.pairing import StoredInts
from optimist.estimates.prompted import PackedFloats
from optimist.records import codec

AUDITABLE = 2**20
"""Samples with larger indices are never audited: the judge's scores are kept by index, 8 bytes each."""
DOUBTED = 4096
"""First indices whose doubt is in estimates, 8 bytes each: audits that doubt chooses are among these."""
FEWEST = 5
"""Audits of a half from which on it has a slope."""
SHRUNK = 4.0
"""A slope counts 1 − 4/n times, since it is estimated, too."""
STRATA = 5
"""Bins of a judge's doubt, by its quantiles."""
FEWEST_IN_STRATUM = 6
"""Audits of a bin from which on its own residuals say how large they are."""
MIN_SHARE = 0.5
"""A sample is at least so much as likely to be drawn as by the mean of the bins' residuals."""
AIMED_FROM = 40
"""Number of audits from which on doubt chooses; earlier audits are drawn at random."""
CERTAIN = 3.0
"""Its errors that a judge's favour must be above what people say to be named, as it is looked at again and again."""


class Audited(NamedTuple):
    """A score by the people, or a difference of two."""

    audits: int
    value: float
    variance: float
    correlation: float
    """√ρ², ρ² the share of the variance of what people say that the judge explains, out of fold."""
    saved: float
    """Share of the labels that the judge saves: without the judge 1/(1 − this) times as many would be needed."""
    favour: float = 0.0
    """Excess of the judge, on the people's scale, over the people, in standard errors with the judge's sign; 0 for an
    understating judge, as noisy fair judges are."""


def audited(
    people: Floats, scores: Floats, weights: Floats, mean: float, variance_of_mean: float, share: float = 0.0
) -> Audited:
    """The mean by the people, of n ≥ 2 audits (n,) in the order of their numbers.

    mean: F, the judge's mean of all samples, with its variance. share: n/N.
    """
    n = len(people)
    is_odd = np.arange(n) % 2 == 1
    kept = max(0.0, 1.0 - SHRUNK / n)
    slopes = np.where(is_odd, *(kept * slope(people[half], scores[half]) for half in (~is_odd, is_odd)))
    residuals = people - slopes * scores
    terms = slopes * mean + weights * residuals
    value = float(terms.mean())
    error = float(terms.var(ddof=1)) / n * (1.0 + FEW / n)
    variance = error + float(slopes.mean()) ** 2 * variance_of_mean
    # Of all samples, of which the audits are more often such as the judge foretells badly.
    spread, unexplained, by_judge = (_weighted_variance(each, weights) for each in (people, residuals, scores))
    explained = max(1.0 - unexplained / spread, 0.0) if spread > 0.0 else 0.0
    scaled = math.sqrt(spread / by_judge) * mean if by_judge > 0.0 else 0.0
    beyond = max((scaled - value) * math.copysign(1.0, scaled), 0.0)
    favour = math.copysign(beyond, scaled) / math.sqrt(variance) if variance > 0.0 else 0.0
    return Audited(n, value, float(variance), math.sqrt(explained), explained * max(1.0 - share, 0.0), favour)


def _weighted_variance(values: Floats, weights: Floats) -> float:
    """The variance (with 1/n) of values (n,) with these weights (n,)."""
    return float(np.average(np.square(values - np.average(values, weights=weights)), weights=weights))


def slope(people: Floats, scores: Floats) -> float:
    """Cov(h, f)/Var(f); 0 of fewer than `FEWEST` audits, and where the judge gives all of them one score."""
    if len(scores) < FEWEST:
        return 0.0
    apart = scores - scores.mean()
    squares = float(apart @ apart)
    return float(apart @ (people - people.mean())) / squares if squares > 0.0 else 0.0


@codec.record
@dataclass(frozen=True, eq=False)
class AuditedMean:
    """The audits of one generator's samples, and what is needed of the judge's scores of all of them."""

    samples: int
    """N."""
    mean: float
    """F."""
    variance: float
    """Var(f), with 1/N."""
    judged: PackedFloats
    """The judge's scores of the first indices, NaN where one is not there."""
    audits: StoredInts
    """The audits' numbers (n,), ascending. The same number is the same prompt, and the same draw, of all generators."""
    people: PackedFloats
    """h (n,)."""
    scores: PackedFloats
    """f (n,)."""
    weights: PackedFloats
    """w (n,)."""
    doubts: PackedFloats = field(default_factory=lambda: np.zeros(0))
    """Doubt of the judge about the samples of the first indices, NaN where one is not there; empty if it states none.
    """

    def __eq__(self, other: object) -> bool:
        return codec.encode(self) == codec.encode(other) if isinstance(other, AuditedMean) else NotImplemented

    @cached_property
    def by_people(self) -> Audited | None:
        """The score by the people; None with fewer than 2 audits."""
        if len(self.audits) < 2:
            return None
        share = len(self.audits) / self.samples
        return audited(self.people, self.scores, self.weights, self.mean, self.variance / self.samples, share)

    def at(self, indices: NDArray[Any]) -> Self:
        """The mean with only the audits at these indices."""
        names = ("audits", "people", "scores", "weights")
        return replace(self, **{name: getattr(self, name)[indices] for name in names})

    def is_sound(self) -> bool:
        """True if every number may be stored; a judge's score of an index may be NaN."""
        rows = (self.people, self.scores, self.weights, [self.mean, self.variance])
        is_even = len({len(self.audits), len(self.people), len(self.scores), len(self.weights)}) == 1
        by_index = np.concatenate([self.judged, self.doubts])
        return is_even and bool(np.isfinite(np.concatenate(rows)).all()) and not bool(np.isinf(by_index).any())


def differing(first: AuditedMean, other: AuditedMean) -> Audited | None:
    """The difference of two generators, first less other, by common audits; None with fewer than 2 of these.

    The judge's mean difference is of all samples, also of samples that only one of the two has.
    """
    _, own, its = np.intersect1d(first.audits, other.audits, assume_unique=True, return_indices=True)
    if len(own) < 2:
        return None
    shared = ~(np.isnan(first.judged[: len(other.judged)]) | np.isnan(other.judged[: len(first.judged)]))
    covariance = _covariance(first.judged[: len(shared)][shared], other.judged[: len(shared)][shared], first, other)
    samples = min(first.samples, other.samples)
    variance = first.variance / first.samples + other.variance / other.samples
    variance -= 2.0 * covariance / max(first.samples, other.samples)
    return audited(
        first.people[own] - other.people[its],
        first.scores[own] - other.scores[its],
        first.weights[own],
        first.mean - other.mean,
        max(variance, 0.0),
        len(own) / samples,
    )


def _covariance(own: Floats, its: Floats, first: AuditedMean, other: AuditedMean) -> float:
    """The covariance of the judge's scores of common samples, from these scores; 0 with fewer than 2."""
    if len(own) < 2:
        return 0.0
    apart, others = own - own.mean(), its - its.mean()
    scale = math.sqrt(float(apart @ apart) * float(others @ others))
    return float(apart @ others) / scale * math.sqrt(first.variance * other.variance) if scale > 0.0 else 0.0


def strata(doubt: Floats) -> NDArray[np.int64]:
    """The bin (N,) of each sample by the judge's doubt, by its rank, with the mean rank of equal doubts.

    Ties leave some bins smaller than a fifth; one below a tenth joins a neighbour, as it would soon be used up.
    """
    _, inverse, counts = np.unique(doubt, return_inverse=True, return_counts=True)
    bins = ((STRATA * (counts.cumsum() - counts / 2)) // len(doubt)).astype(np.int64)[inverse]
    while True:
        _, bins, sizes = np.unique(bins, return_inverse=True, return_counts=True)
        smallest = int(sizes.argmin())
        if 2 * STRATA * sizes[smallest] >= len(doubt):
            return bins
        # The largest is never the smallest here, so that there is a neighbour.
        bins[bins == smallest] = smallest - 1 if smallest else 1


def realised(bins: NDArray[np.int64], indices: NDArray[Any]) -> Floats:
    """The weights (n,) of audits at these indices, if chosen at random within each bin: its share of all samples over
    its share of the audits. A bin without audits counts to the next one that has some, else to the last that has."""
    with_audits = np.unique(bins[indices])
    bins = np.searchsorted(with_audits, bins).clip(max=len(with_audits) - 1)
    all_, own = np.bincount(bins), np.bincount(bins[indices], minlength=int(bins.max()) + 1)
    return (all_ / len(bins))[bins[indices]] / (own / max(len(indices), 1))[bins[indices]]


def chances(bins: NDArray[np.int64], audited_bins: NDArray[np.int64], residuals: Floats) -> Floats:
    """Frequency of each bin's samples relative to uniform drawing (B,), by the root mean square of the residuals.

    residuals: of the audits so far (n,) about their mean, in these bins (n,).
    """
    overall = float(np.sqrt(np.square(residuals).mean())) if len(residuals) else 0.0
    sizes = np.bincount(bins)
    by_bin = [residuals[audited_bins == number] for number in range(len(sizes))]
    spreads = [overall if len(own) < FEWEST_IN_STRATUM else math.sqrt(float(np.square(own).mean())) for own in by_bin]
    shares = sizes / sizes.sum()
    raised = np.maximum(spreads, MIN_SHARE * float(shares @ spreads))
    total = float(shares @ raised)
    return raised / total if total > 0.0 else np.ones(len(sizes))


def unforetold(people: Floats, judge: Floats) -> Floats:
    """Residuals of n audits (n,), given the judge, of the differences between generators.

    people, judge: what they say (G, n) of the samples of G generators.
    """
    residuals = np.array([own - slope(own, its) * its for own, its in zip(people, judge, strict=True)])
    residuals -= residuals.mean(axis=1, keepdims=True)
    if len(residuals) > 1:
        residuals -= residuals.mean(axis=0)
    return np.sqrt(np.square(residuals).mean(axis=0))


def drawn(
    count: int,
    free: NDArray[np.bool_],
    generator: np.random.Generator,
    bins: NDArray[np.int64] | None = None,
    by_bin: Sequence[float] | Floats = (),
) -> tuple[NDArray[np.int64], Floats]:
    """The indices (c,) of up to `count` of the free samples (N,), none twice, and their weights (c,).

    At random; or first a bin, `by_bin` times as likely as at random, and then one of its free samples at random, until
    a bin has none.
    """
    if bins is None:
        indices = np.flatnonzero(free)
        return generator.permutation(indices)[:count], np.ones(min(count, len(indices)))
    times = np.asarray(by_bin, np.float64)
    shares = np.bincount(bins) / len(bins) * times
    total = float(shares.sum())
    left = [generator.permutation(np.flatnonzero(free & (bins == number))).tolist() for number in range(bins.max() + 1)]
    indices, weights = list[int](), list[float]()
    # An exhausted bin has no chance, so later draws would represent only the other bins.
    while len(indices) < count and all(left):
        chosen = int(generator.choice(len(left), p=shares / total))
        indices.append(left[chosen].pop())
        weights.append(total / float(times[chosen]))
    return np.array(indices, np.int64), np.array(weights)
