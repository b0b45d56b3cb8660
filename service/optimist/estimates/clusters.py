"""Variances of means, and of their differences, where samples come in clusters (rules/calibration.md). No torch.

A cluster is a recurring prompt, or a batch whose samples are alike. On prompts *like these* clusters are drawn at
random. On a *list* there are no others: errors come only from uneven counts and from chance within clusters.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from optimist.arrays import Floats

Counts = NDArray[np.integer[Any]]

FEW = 5.0
"""A variance from m clusters, or samples, counts 1 + 5/m times, like a mean's: it is estimated, too."""
SHOWN = 1.5
"""The design effect above which it is reported, and which a warning needs where errors do not count batches."""
FEWEST_BATCHES = 20
"""Batches from which on samples of a batch can be found to be alike."""
FEWEST_WITHIN = 10
"""Degrees of freedom below which nothing is known of the variance within clusters."""


def deviations(values: Floats, clusters: Counts) -> Floats:
    """Σ (x − x̄)/n by cluster (m,), of values (n,) whose clusters (n,) are numbered from 0."""
    return np.bincount(clusters, values - values.mean()) / len(values)


def clustered_variance(parts: Floats, clusters: NDArray[Any] | float) -> Floats:
    """The variance (…) of means by independent clusters: Σ s² · m/(m − 1) · (1 + 5/m). NaN for fewer than 2 clusters.

    parts: s (…, P), `deviations` of each cluster, or their difference of two means. clusters: m (…), the number seen.
    """
    m = np.asarray(clusters, dtype=np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        variance = np.square(parts).sum(axis=-1) * (m / (m - 1.0)) * (1.0 + FEW / m)
    return np.where(m >= 2, variance, np.nan)


def design_effect(parts: Floats, clusters: float, samples: int, variance: float) -> float:
    """The variance of a mean by clusters over that by as many independent samples; 1 where there is no variance.

    parts, clusters: as of `clustered_variance`. variance: of the values, with 1/(n − 1). n over it is how many
    independent samples they count as.
    """
    if clusters < 2 or not variance > 0.0:
        return 1.0
    return float(np.square(parts).sum()) * clusters / (clusters - 1.0) * samples / variance


def lasting_variance(parts: Floats, within: Floats | float) -> Floats:
    """The part (…) of a mean's variance that more samples of the same clusters do not remove: [Σ s² − W/n]₊.

    within: W/n (…), the variance of the mean, or of the difference, by chance within clusters.
    """
    return np.maximum(np.square(parts).sum(axis=-1) - within, 0.0)


def clusters_to_decide(difference: float, variance: float, clusters: int, errors: float) -> int | None:
    """Number of further clusters that bring a difference to so many errors, if it stays; None if no number does.

    variance: of the difference, from the clusters so far; it falls as 1/m.
    """
    if difference == 0.0:
        return None
    return max(int(np.ceil(clusters * (errors * errors * variance / difference**2 - 1.0))), 1)


def unevenness(counts: Floats, others: Floats, length: int) -> float:
    """Σ (c − k/M)(c′ − k′/M) over the M = `length` prompts of a list, c (M,) the counts of one mean, k their sum.

    Of a mean with itself, over n², it is U/n: 1/n − 1/M in the first pass, 0 after whole passes, and about 1/n for
    independent draws.
    """
    return float(counts @ others) - float(counts.sum()) * float(others.sum()) / length


def within_variance(squares: float, samples: int, clusters: int, total: float) -> float:
    """W, the variance within clusters, at most the `total` one; this itself with too few degrees of freedom.

    squares: Σ (x − x̄_p)² about the means of clusters.
    """
    freedom = samples - clusters
    return min(total, max(squares, 0.0) / freedom) if freedom >= FEWEST_WITHIN else total


def list_variance(total: float, within: float, samples: int, uneven: float) -> float:
    """The variance of a mean on a list, κ [W/n + (T − W) U/n] with κ = 1 + 5/n.

    total, within: T and W, of values, or of differences where both means have the same counts; W is 0 where a prompt's
    score is always the same. uneven: U/n, of `unevenness`.
    """
    return (1.0 + FEW / samples) * (within / samples + (total - within) * uneven)


class Alike(NamedTuple):
    """Similarity of the samples of clusters, measured on some samples."""

    effect: float
    """Var_B/Var_iid of the mean of all samples: the design effect."""
    error: float
    """Standard deviation of `effect` where samples are independent."""


def alike(values: Floats, clusters: Counts, uneven: float) -> Alike | None:
    """Similarity of samples of clusters, from b samples with these values and clusters (b,); None if no two of these,
    or all, are of one cluster.

    uneven: Σ c²/n of all n samples. 1 + (B − 1)(Σ c²/n − 1)/(Σ b²/b − 1), B the effect on the mean of these values.
    """
    labels = np.unique(clusters, return_inverse=True)[1]
    counts = np.bincount(labels)
    among = float(np.square(counts).sum()) / len(values) - 1.0
    if len(counts) < 2 or among <= 0.0:
        return None
    here = design_effect(deviations(values, labels), len(counts), len(values), float(values.var(ddof=1)))
    scale = (uneven - 1.0) / among
    return Alike(1.0 + (here - 1.0) * scale, scale * float(np.sqrt(2.0 * among / len(values))))


def alike_warning(similarity: Alike, samples: int, batches: int) -> tuple[str, ...]:
    """The warning that samples of a batch are alike, if they are."""
    # Three of its errors, as it is looked at again and again: chance alone passes 1.5 in 8 % of generators.
    if batches < FEWEST_BATCHES or similarity.effect <= max(SHOWN, 1.0 + 3.0 * similarity.error):
        return ()
    alike = f"samples of a batch are alike: they count as {samples / similarity.effect:,.0f} independent ones"
    return (f"{alike} (clusters='batch' counts them so)",)
