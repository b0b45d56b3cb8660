"""Types of prompt, which generator wins each, and by how much."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.cluster.vq import kmeans2

from optimist.evaluation.routing import RouteGain, ScoredPrompts, mean_gain
from optimist.numerics.routing.features import ContextMap, Floats, median_distance

NARROW = 0.5
"""The bandwidth of the kernel that tells types apart, as a part of the median distance: at the whole of it, all prompts
are nearly alike."""
EXAMPLES = 3


@dataclass(frozen=True)
class TypeScore:
    """One generator on the prompts of a type; None where fewer than 2 have a score."""

    score: float | None
    error: float | None
    samples: int


@dataclass(frozen=True)
class PromptType:
    """A cluster of prompts."""

    share: float
    """Part of all prompts."""
    examples: tuple[int, ...]
    """The places of the prompts nearest to its centre."""
    scores: dict[str, TypeScore]
    winner: str | None
    """The generator of the highest mean score, less the price of its cost; None if no score is known."""
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
    known: ScoredPrompts, found: RouteGain, *, price: float = 0.0, count: int = 6, features: int = 256, seed: int = 0
) -> list[PromptType]:
    """Up to `count` types, the most frequent first.

    Prompts are clustered by k-means in the span of the `count` largest modes of their Gaussian kernel (equations.md
    §3c), where each has length 1: spectral clustering (Ng, Jordan and Weiss 2001). The modes alone would not do, as the
    largest one is often what all prompts have in common.
    """
    count = min(count, len(known.contexts))
    sigma = NARROW * median_distance(known.contexts)
    phi = ContextMap.drawn(known.contexts.shape[1], features, sigma, seed)(known.contexts)
    _, vectors = np.linalg.eigh(phi.T @ phi)
    inside = phi @ vectors[:, ::-1][:, :count]
    inside /= np.maximum(np.linalg.norm(inside, axis=1, keepdims=True), 1e-300)
    centres, cluster = kmeans2(inside, count, minit="++", rng=np.random.default_rng(seed), missing="warn")
    near = -np.square(inside - centres[cluster]).sum(1)
    charged = np.zeros(len(known.names)) if known.costs is None else price * known.costs
    kinds = [_type(known, found, charged, near, cluster == one) for one in range(count)]
    return sorted((kind for kind in kinds if kind is not None), key=lambda kind: -kind.share)


def _type(
    known: ScoredPrompts, found: RouteGain, charged: Floats, near: Floats, inside: NDArray[np.bool_]
) -> PromptType | None:
    places = np.flatnonzero(inside)
    if not len(places):
        return None
    order = places[np.argsort(-near[places], kind="stable")]
    scores = {name: _score(known, place, inside) for place, name in enumerate(known.names)}
    worth = [
        -math.inf if score.score is None else score.score - cost
        for score, cost in zip(scores.values(), charged, strict=True)
    ]
    gain, error = mean_gain(found.gains[inside], (found.routed != found.singles)[inside])
    shares = np.bincount(found.routed[inside], minlength=len(known.names)) / len(places)
    return PromptType(
        share=len(places) / len(inside),
        examples=tuple(order[:EXAMPLES].tolist()),
        scores=scores,
        winner=known.names[int(np.argmax(worth))] if max(worth) > -math.inf else None,
        gain=gain,
        gain_error=error,
        shares=dict(zip(known.names, shares.tolist(), strict=True)),
    )


def _score(known: ScoredPrompts, place: int, inside: NDArray[np.bool_]) -> TypeScore:
    """The mean of a generator over prompts, weighted where it was drawn with different probabilities."""
    rows = (known.generator == place) & inside[known.prompt]
    scores, weights = known.scores[rows], 1.0 / known.probability[rows]
    if len(scores) < 2:
        return TypeScore(None, None, len(scores))
    mean = float(weights @ scores / weights.sum())
    error = math.sqrt(float(np.square(weights * (scores - mean)).sum())) / float(weights.sum())
    return TypeScore(mean, error * math.sqrt(len(scores) / (len(scores) - 1)), len(scores))


def as_rows(kinds: Sequence[PromptType], texts: Sequence[str] | None) -> list[tuple[str, ...]]:
    """The types as rows of a table: share, an example, the winner, each generator's score, and the gain."""
    rows: list[tuple[str, ...]] = []
    for kind in kinds:
        shown = [texts[place] if texts is not None else f"prompt {place}" for place in kind.examples]
        scores = [
            "–" if score.score is None else f"{score.score:.3g} ± {score.error:.1g}" for score in kind.scores.values()
        ]
        gain = "–" if kind.gain is None or kind.gain_error is None else f"{kind.gain:.2g} ± {kind.gain_error:.1g}"
        rows.append((f"{kind.share:.0%}", "; ".join(_brief(text) for text in shown), kind.winner or "–", *scores, gain))
    return rows


def _brief(text: str, length: int = 40) -> str:
    line = " ".join(text.split())
    return line if len(line) <= length else f"{line[: length - 1]}…"
