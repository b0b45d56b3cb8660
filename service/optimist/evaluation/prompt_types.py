"""Types of prompt, which generator wins each, and by how much."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.cluster.vq import kmeans2

from optimist.evaluation.route_outcomes import Mean, Outcomes, Some
from optimist.evaluation.routing import RouteGain
from optimist.evaluation.scored_prompts import ScoredPrompts
from optimist.numerics.routing.features import ContextMap, Floats, median_distance

NARROW = 0.5
"""The bandwidth of the kernel that tells types apart, as a part of the median distance: at the whole of it, all prompts
are nearly alike."""
EXAMPLES = 3
WIDEST = 256
"""Random features of that kernel."""


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
    price: float = 0.0,
    count: int = 6,
    examples: int = EXAMPLES,
    bandwidth: float | None = None,
    seed: int = 0,
) -> list[PromptType]:
    """Up to `count` types, the most frequent first.

    Prompts are clustered by k-means in the span of the `count` largest modes of their Gaussian kernel (equations.md
    §3c), where each has length 1: spectral clustering (Ng, Jordan and Weiss 2001). The modes alone would not do, as the
    largest one is often what all prompts have in common. bandwidth: a usual distance of contexts; by default their
    median distance.
    """
    count = min(count, len(known.contexts))
    sigma = NARROW * (median_distance(known.contexts) if bandwidth is None else bandwidth)
    phi = ContextMap.drawn(known.contexts.shape[1], WIDEST, sigma, seed)(known.contexts)
    _, vectors = np.linalg.eigh(phi.T @ phi)
    inside = phi @ vectors[:, ::-1][:, :count]
    inside /= np.maximum(np.linalg.norm(inside, axis=1, keepdims=True), 1e-300)
    centres, cluster = kmeans2(inside, count, minit="++", rng=np.random.default_rng(seed), missing="warn")
    near = np.square(inside - centres[cluster]).sum(1)
    charged = np.zeros(len(known.names)) if known.costs is None else price * known.costs
    kinds = [_type(known, found, charged, near, cluster == one, examples) for one in range(count)]
    return sorted((kind for kind in kinds if kind is not None), key=lambda kind: -kind.share)


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
    gain = found.outcomes.difference(found.routed, found.singles, inside)
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
