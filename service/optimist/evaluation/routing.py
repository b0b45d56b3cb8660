"""What routing prompts among generators would gain over the best single one, from scores that are there."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add

import numpy as np
from numpy.typing import NDArray

from optimist.numerics.routing.features import ContextMap, Floats, median_distance
from optimist.numerics.routing.moments import Moments
from optimist.numerics.routing.ridge import Regressions

FOLDS = 5
"""Parts of the prompts: what is said of one is learned from the others."""
FEWEST = 10
"""Prompts below which nothing is said."""


@dataclass(frozen=True, eq=False)
class ScoredPrompts:
    """Prompts, and what generators scored on them: one sample in each row.

    Where every prompt was given to every generator, there is a row for each of both, with the probability 1.
    """

    names: tuple[str, ...]
    contexts: Floats
    """Embeddings of the prompts (m, d)."""
    prompt: NDArray[np.int64]
    """Place of each sample's prompt in `contexts` (n,)."""
    generator: NDArray[np.int64]
    """Place of its generator in `names` (n,)."""
    scores: Floats
    """(n,)."""
    probability: Floats
    """With which the prompt was given to this generator (n,), above 0."""
    costs: Floats | None = None
    """Cost of a sample of each generator (G,)."""

    def __post_init__(self) -> None:
        count = len(self.names)
        if count < 2:
            raise ValueError(f"routing needs at least 2 generators, got {count}")
        if self.contexts.ndim != 2 or not np.isfinite(self.contexts).all():
            raise ValueError(f"contexts: expected finite numbers (prompts, d), got shape {self.contexts.shape}")
        if not np.isfinite(self.scores).all():
            raise ValueError("scores: expected finite numbers")
        if not ((self.probability > 0.0) & (self.probability <= 1.0)).all():
            raise ValueError("probability: expected numbers above 0, up to 1")
        if missing := [name for place, name in enumerate(self.names) if not (self.generator == place).any()]:
            raise ValueError(f"no scores of {', '.join(missing)}")
        if len(set(self.names)) < count:
            raise ValueError("names: expected different ones")
        if self.costs is not None and (self.costs.shape != (count,) or not np.isfinite(self.costs).all()):
            raise ValueError(f"costs: expected one for each of the {count} generators, all finite")
        if len(self.contexts) < FEWEST:
            raise ValueError(f"contexts: expected at least {FEWEST} prompts, got {len(self.contexts)}")

    @classmethod
    def of_table(
        cls, contexts: Floats, scores: Floats, names: Sequence[str] = (), costs: Floats | None = None
    ) -> ScoredPrompts:
        """Scores (m, G) of every generator on every prompt with embedding (m, d); NaN where there is none."""
        contexts, scores = np.asarray(contexts, dtype=np.float64), np.asarray(scores, dtype=np.float64)
        if scores.ndim != 2 or len(scores) != len(contexts):
            raise ValueError(f"scores: expected (prompts, generators) of {len(contexts)} prompts, got {scores.shape}")
        prompt, generator = np.nonzero(~np.isnan(scores))
        named = tuple(names) or tuple(f"generator-{place}" for place in range(scores.shape[1]))
        if len(named) != scores.shape[1]:
            raise ValueError(
                f"names: expected one for each of the {scores.shape[1]} columns of scores, got {len(named)}"
            )
        found = scores[prompt, generator]
        return cls(named, contexts, prompt, generator, found, np.ones(len(found)), costs)

    def table(self) -> Floats:
        """The scores (m, G). Raises ValueError unless every generator has one score on every prompt."""
        found = np.full((len(self.contexts), len(self.names)), np.nan)
        found[self.prompt, self.generator] = self.scores
        if np.isnan(found).any():
            raise ValueError("scores: expected one of every generator on every prompt; some are missing")
        return found

    @property
    def is_logged(self) -> bool:
        """Whether prompts were given to generators by chance, with known probabilities."""
        return bool((self.probability < 1.0).any())


@dataclass(frozen=True, eq=False)
class RouteGain:
    """What a router gains over the best single generator, on prompts that it has not seen."""

    gain: float
    """Mean score, less the price of its cost, of the routed prompts minus that of the best single generator."""
    error: float
    value: float
    """Mean score of the routed prompts, less the price of its cost."""
    single_value: float
    best: str
    """The best single generator."""
    shares: dict[str, float]
    """Part of the prompts that each generator would get."""
    cost: float | None
    """Mean cost of a routed prompt."""
    single_cost: float | None
    routed: NDArray[np.int64]
    """Place of the generator that each prompt would be given to (m,), by what was learned from other prompts."""
    singles: NDArray[np.int64]
    """Place of the best single generator by what was learned from other prompts (m,)."""
    gains: Floats
    """Gain on each prompt (m,), 0 where both generators are the same; NaN where it is not known."""
    prompts: int

    def interval(self, z: float = 1.959963984540054) -> tuple[float, float]:
        """The gain with z standard errors."""
        return self.gain - z * self.error, self.gain + z * self.error


def route_gain(
    known: ScoredPrompts,
    *,
    price: float = 0.0,
    features: int = 256,
    bandwidth: float | None = None,
    seed: int = 0,
    folds: int = FOLDS,
) -> RouteGain:
    """What routing by regressions on the context gains, by cross-fitting over `folds` parts of the prompts.

    Each prompt is routed by what was learned from the other parts, and so is the best single generator chosen. Where
    every generator has a score on a prompt, its gain is their difference. Where one was drawn, the gain is doubly
    robust: the difference of the predictions, plus what the drawn one scored beyond its prediction over its
    probability, so that it is right if either the predictions or the probabilities are. bandwidth: by default the
    median distance of the contexts. Raises ValueError for fewer folds than 2, or more than prompts, and where the gain
    is known on fewer than 2 of the prompts that a router would give to another generator than the best single one.
    """
    if not 2 <= folds <= len(known.contexts):
        raise ValueError(f"folds: expected a number from 2 to {len(known.contexts)}, the prompts; got {folds}")
    sigma = median_distance(known.contexts) if bandwidth is None else bandwidth
    phi = ContextMap.drawn(known.contexts.shape[1], features, sigma, seed)(known.contexts)
    fold = np.random.default_rng(seed).permutation(len(phi)) % folds
    parts = [_moments(known, phi, fold == one) for one in range(folds)]
    whole = [reduce(add, of_one) for of_one in zip(*parts, strict=True)]
    charged = np.zeros(len(known.names)) if known.costs is None else price * known.costs
    routed, single = np.zeros(len(phi), dtype=np.int64), np.zeros(len(phi), dtype=np.int64)
    predicted = np.zeros((len(phi), len(known.names)))
    for one in range(folds):
        inside, learned = fold == one, [a - b for a, b in zip(whole, parts[one], strict=True)]
        if any(each.samples == 0 for each in learned):
            raise ValueError(f"a generator has all of its scores on one of {folds} parts of the prompts: it needs more")
        regressions = Regressions.of(learned)
        predicted[inside] = regressions.predict(phi[inside])[0] - charged
        routed[inside] = predicted[inside].argmax(1)
        # By the predictions for all prompts, which allow for prompts of different difficulty.
        single[inside] = int(np.argmax(regressions.predict(phi[~inside])[0].mean(0) - charged))
    values = [_values(known, predicted, charged, chosen) for chosen in (routed, single)]
    gains = np.where(routed == single, 0.0, values[0] - values[1])
    gain, error = mean_gain(gains, routed != single)
    if gain is None or error is None:
        raise ValueError(
            "what routing gains is not known: too few prompts have scores of both generators, that of the route and "
            "the best single one; a log needs probabilities below 1"
        )
    counts = np.bincount(routed, minlength=len(known.names)) / len(phi)
    best = int(np.bincount(single, minlength=len(known.names)).argmax())
    return RouteGain(
        gain=gain,
        error=error,
        value=float(np.nanmean(values[0])),
        single_value=float(np.nanmean(values[1])),
        best=known.names[best],
        shares=dict(zip(known.names, counts.tolist(), strict=True)),
        cost=None if known.costs is None else float(known.costs[routed].mean()),
        single_cost=None if known.costs is None else float(known.costs[single].mean()),
        routed=routed,
        singles=single,
        gains=gains,
        prompts=len(phi),
    )


def mean_gain(gains: Floats, is_routed: NDArray[np.bool_]) -> tuple[float | None, float | None]:
    """The mean gain (m,) over prompts and its standard error; None where it is not known.

    is_routed: whether each prompt would get another generator than the best single one; elsewhere the gain is 0. Gains
    that are not known count as those that are: were they left out, prompts without a gain would count too much.
    """
    count, share = len(gains), float(is_routed.mean())
    known = gains[is_routed & ~np.isnan(gains)]
    if share == 0.0:
        return 0.0, 0.0
    if not len(known):
        return None, None
    mean = float(known.mean())
    if len(known) < 2:
        return share * mean, None
    spread = float(known.var(ddof=1)) / len(known)
    return share * mean, math.sqrt(share**2 * spread + mean**2 * share * (1.0 - share) / count)


def _moments(known: ScoredPrompts, phi: Floats, inside: NDArray[np.bool_]) -> list[Moments]:
    """The moments of each generator over the prompts that are inside."""
    found: list[Moments] = []
    for place in range(len(known.names)):
        rows = (known.generator == place) & inside[known.prompt]
        found.append(Moments.of(phi[known.prompt[rows]], known.scores[rows]))
    return found


def _values(known: ScoredPrompts, predicted: Floats, charged: Floats, chosen: NDArray[np.int64]) -> Floats:
    """The value (m,) of giving each prompt to the chosen generator; NaN where it has no score and none was drawn."""
    count = len(chosen)
    is_hit = known.generator == chosen[known.prompt]
    rows, prompts = is_hit.nonzero()[0], known.prompt[is_hit]
    worth = known.scores[rows] - charged[known.generator[rows]]
    if not known.is_logged:
        hits = np.bincount(prompts, minlength=count)
        sums = np.bincount(prompts, weights=worth, minlength=count)
        return np.where(hits > 0, sums / np.maximum(hits, 1), np.nan)
    expected = predicted[np.arange(count), chosen]
    beyond = (worth - expected[prompts]) / known.probability[rows]
    draws = np.maximum(np.bincount(known.prompt, minlength=count), 1)
    return expected + np.bincount(prompts, weights=beyond, minlength=count) / draws
