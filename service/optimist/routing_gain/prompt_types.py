"""Types of prompt, which generator wins each, and by how much."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.cluster.vq import kmeans2
from scipy.spatial.distance import cdist

from optimist.numerics.routing.features import ContextMap, Floats, median_distance
from optimist.routing_gain.gain import RouteGain
from optimist.routing_gain.outcomes import Mean, Outcomes, Some
from optimist.routing_gain.scored_prompts import ScoredPrompts

NARROW = 0.5
"""The bandwidth of the kernel that tells types apart, as a part of the median distance: at the whole of it, all prompts
are nearly alike."""
EXAMPLES = 3
WIDEST = 256
"""Random features of that kernel."""
JUDGED = 500
"""Prompts by which the number of types is chosen."""
DISTINCT = 0.9
"""Part of the largest silhouette at which more types are preferred."""


@dataclass(frozen=True)
class TypeScore:
    """One generator on the prompts of a type."""

    score: float | None
    """Mean score; None where no score is known."""
    error: float | None
    """None where the score is that of one sample, or only predicted."""
    samples: int
    """Scores of it on these prompts."""


@dataclass(frozen=True)
class PromptType:
    """A cluster of prompts."""

    share: float
    """Part of all prompts."""
    examples: tuple[int, ...]
    """The places of the prompts nearest to its centre, that of the nearest first."""
    scores: dict[str, TypeScore]
    winner: str | None
    """The generator of the highest mean score, less the price of its cost; None if no score is known."""
    lead: float | None
    """By how much it is better than the second best one, at least 0; None if that is not known. The winner was chosen
    by the same scores, so that a lead of less than its error may be none."""
    lead_error: float | None
    gain: float | None
    """Mean gain of routing over the best single generator, on these prompts; None if it is not known."""
    gain_error: float | None
    shares: dict[str, float]
    """Part of these prompts that a router gives to each generator."""

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        scores = {name: vars(score) for name, score in self.scores.items()}
        return {**vars(self), "scores": scores, "examples": list(self.examples)}


def types_of(
    known: ScoredPrompts,
    found: RouteGain,
    *,
    count: int = 6,
    examples: int = EXAMPLES,
    bandwidth: float | None = None,
    seed: int = 0,
) -> list[PromptType]:
    """Up to `count` types, the most frequent first.

    bandwidth: a usual distance of contexts; by default their median distance.
    """
    sigma = NARROW * (median_distance(known.contexts) if bandwidth is None else bandwidth)
    cluster, near = _clusters(known.contexts, sigma, min(count, len(known.contexts)), seed)
    charged = np.zeros(len(known.names)) if known.costs is None else found.price * known.costs
    kinds = [_type(known, found, charged, near, cluster == one, examples) for one in range(count)]
    return sorted((kind for kind in kinds if kind is not None), key=lambda kind: -kind.share)


def _clusters(contexts: Floats, sigma: float, most: int, seed: int) -> tuple[NDArray[np.int64], Floats]:
    """The cluster of each context (m, d), and its squared distance from the centre of it.

    Contexts are clustered by k-means in the span of the k largest modes of their Gaussian kernel (equations.md §3c),
    where each has length 1: spectral clustering (Ng, Jordan and Weiss 2001). The modes alone would not do, as the
    largest one is often what all prompts have in common. k is the largest up to `most` at which clusters are nearly as
    distinct as they can be, by their silhouette (Rousseeuw 1987).
    """
    phi = ContextMap.drawn(contexts.shape[1], WIDEST, sigma, seed)(contexts)
    _, vectors = np.linalg.eigh(phi.T @ phi)
    modes = phi @ vectors[:, ::-1][:, :most]
    some = np.random.default_rng(seed).permutation(len(contexts))[:JUDGED]
    apart = np.asarray(cdist(contexts[some], contexts[some]), dtype=np.float64)
    tried: list[tuple[float, NDArray[np.int64], Floats]] = []
    for count in range(min(2, most), most + 1):
        inside = modes[:, :count] / np.maximum(np.linalg.norm(modes[:, :count], axis=1, keepdims=True), 1e-300)
        centres, cluster = kmeans2(inside, count, minit="++", rng=np.random.default_rng(seed), missing="warn")
        near = np.square(np.asarray(inside - centres[cluster], dtype=np.float64)).sum(1)
        tried.append((_silhouette(apart, cluster[some]), cluster.astype(np.int64), near))
    best = max(distinct for distinct, _, _ in tried)
    least = best - (1.0 - DISTINCT) * abs(best)  # below the best one, which may be negative
    _, cluster, near = next(each for each in reversed(tried) if each[0] >= least)
    return cluster, near


def _silhouette(apart: Floats, cluster: NDArray[np.int64]) -> float:
    """The mean over rows of (b − a)/max(a, b): a, the mean distance to the others of its cluster; b, to the nearest
    other cluster. apart: distances (n, n). 0 for a row that is alone, and with one cluster."""
    members = cluster == np.unique(cluster)[:, None]
    counts = members.sum(1)
    if len(counts) < 2:
        return 0.0
    sums = members @ apart
    own = members.argmax(0)
    rows = np.arange(len(cluster))
    inner = sums[own, rows] / np.maximum(counts[own] - 1, 1)
    outer = sums / counts[:, None]
    outer[own, rows] = np.inf
    nearest = outer.min(0)
    found = (nearest - inner) / np.maximum(np.maximum(nearest, inner), 1e-300)
    return float(np.where(counts[own] > 1, found, 0.0).mean())


def _type(
    known: ScoredPrompts, found: RouteGain, charged: Floats, near: Floats, inside: Some, examples: int
) -> PromptType | None:
    places = np.flatnonzero(inside)
    if not len(places):
        return None
    order = places[np.argsort(near[places], kind="stable")]
    count = len(known.names)
    means = [found.outcomes.score(_always(place, inside), inside) for place in range(count)]
    samples = np.bincount(known.generator[inside[known.prompt]], minlength=count)
    winner, lead = _winner(found.outcomes, means, charged, inside)
    gain = found.outcomes.difference(found.routed, _always(found.single, inside), inside)
    shares = np.bincount(found.routed[inside], minlength=count) / len(places)
    return PromptType(
        share=len(places) / len(inside),
        examples=tuple(int(place) for place in order[:examples]),
        scores={
            name: TypeScore(mean and mean.value, mean and mean.error, int(each))
            for name, mean, each in zip(known.names, means, samples, strict=True)
        },
        winner=None if winner is None else known.names[winner],
        lead=lead and lead.value,
        lead_error=lead and lead.error,
        gain=gain and gain.value,
        gain_error=gain and gain.error,
        shares=dict(zip(known.names, shares.tolist(), strict=True)),
    )


def _winner(
    outcomes: Outcomes, means: Sequence[Mean | None], charged: Floats, inside: Some
) -> tuple[int | None, Mean | None]:
    """The best generator on the prompts inside, and its lead over the second best one."""
    worth = {place: mean.value - charged[place] for place, mean in enumerate(means) if mean is not None}
    ranked = sorted(worth, key=lambda place: -worth[place])
    if len(ranked) < 2:
        return (ranked[0] if ranked else None), None
    first, second = ranked[:2]
    lead = outcomes.difference(_always(first, inside), _always(second, inside), inside)
    # Both are compared more exactly than each is known, which may tell them to be the other way round.
    if lead is not None and lead.value < 0.0:
        return second, Mean(-lead.value, lead.error)
    return first, lead


def _always(place: int, like: Some) -> NDArray[np.int64]:
    return np.full(len(like), place, dtype=np.int64)


def as_rows(kinds: Sequence[PromptType], texts: Sequence[str] | None) -> list[tuple[str, ...]]:
    """The types as rows of a table: share, examples, winner, its lead, the gain, and each generator's score."""
    rows: list[tuple[str, ...]] = []
    for kind in kinds:
        shown = [texts[place] if texts is not None else f"prompt {place}" for place in kind.examples]
        scores = [_number(score.score, score.error, 3) for score in kind.scores.values()]
        lead, gain = _number(kind.lead, kind.lead_error, 2), _number(kind.gain, kind.gain_error, 2)
        examples = "; ".join(_brief(text) for text in shown)
        rows.append((f"{kind.share:.0%}", examples, kind.winner or "–", lead, gain, *scores))
    return rows


def _number(value: float | None, error: float | None, digits: int) -> str:
    if value is None:
        return "–"
    return f"{value:.{digits}g}" if error is None else f"{value:.{digits}g} ± {error:.1g}"


def _brief(text: str, length: int = 40) -> str:
    line = " ".join(text.split())
    return line if len(line) <= length else f"{line[: length - 1]}…"
