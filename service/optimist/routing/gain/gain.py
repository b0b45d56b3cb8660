"""The gain of routing prompts over the best single generator, and the types of prompt that each generator wins."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from statistics import NormalDist
from typing import Literal

import numpy as np

from optimist.arrays import Bools, Floats, Ints
from optimist.references.distances import median_distance
from optimist.routing.answers.features import ContextMap, ContextSettings
from optimist.routing.answers.policy import Frontier
from optimist.routing.answers.ridge import Regressions, Sums
from optimist.routing.gain.outcomes import Outcomes, PromptMean, ScoredPrompts
from optimist_client.errors import FixError
from optimist_client.goals import check_pace

FOLDS = 5
"""Parts of the prompts: what is said of one is learned from the others."""

GainBasis = Literal["scores", "doubly robust", "model"]
"""Where a gain comes from: scores of both generators on the same prompts; predictions, corrected by those scores of a
log that were drawn by known probabilities; predictions alone."""


@dataclass(frozen=True, eq=False)
class RouteGain:
    """The gain of a router over the best single generator, on prompts that it has not seen."""

    price: float
    """The price of a unit of cost."""
    gain: float
    """Mean score, less the price of its cost, of the routed prompts minus the mean score of `best`."""
    error: float | None
    """Standard error; None with the basis "model"."""
    lower: float | None
    """Lower end of an interval of 1 − δ of the gain over the generator that is truly the best single one,
    whichever that is; None where the error of the gain over any generator is not known."""
    upper: float | None
    """Upper end; None where no error is known."""
    basis: GainBasis
    value: float
    """Mean score of the routed prompts."""
    single_value: float
    """Mean score of the best single generator."""
    best: str
    """The single generator of the largest expected score over all prompts, less the price of its cost."""
    shares: dict[str, float]
    """Part of the prompts that each generator would get."""
    cost: float | None
    """Mean cost of a routed prompt."""
    single_cost: float | None
    routed: Ints
    """Index of the generator that each prompt would be given to (m,), by what was learned from other prompts."""
    single: int
    """Index of `best`."""
    predicted: Floats
    """Expected scores (m, G) by what was learned from other prompts."""
    outcomes: Outcomes
    prompts: int


def route_gain(
    prompts: ScoredPrompts,
    *,
    price: float = 0.0,
    ceiling: float | None = None,
    at_least: float | None = None,
    contexts: ContextSettings | None = None,
    features: int = 256,
    seed: int = 0,
    delta: float = 0.05,
) -> RouteGain:
    """The gain of routing by regressions on the context, by cross-fitting over `FOLDS` parts of the prompts.

    Each prompt is routed by what was learned from the other parts. Where every generator has a score on a prompt, its
    gain is their difference. Where one was drawn, `Outcomes` says how far the predictions are off.

    delta: the interval of the gain holds with the confidence 1 − δ.
    ceiling, at_least: instead of a price, what prompts may cost on average, or the part of the best single generator's
    mean that is to be kept at the least cost: the price follows from them.
    contexts: how these become columns; by default with `features` random features, and bandwidth and components of at
    most 1000 of these contexts. Raises FixError for fewer prompts than `FOLDS`.
    """
    if len(prompts.contexts) < FOLDS:
        raise FixError(f"expected at least {FOLDS} prompts, got {len(prompts.contexts)}")
    check_pace("greedy", ceiling, at_least, price)
    costs = None if ceiling is None and at_least is None else prompts.costs_of_budget(ceiling, at_least)
    if contexts is None:
        some = np.sort(np.random.default_rng(seed).permutation(len(prompts.contexts))[:1000])
        contexts = ContextSettings(prompts.contexts.shape[1], features).fitted([prompts.contexts[some]])
    made = contexts.made()
    columns = made(prompts.contexts)
    predicted = _cross_fitted(prompts, columns, made.linear, _parts(prompts, seed))
    if costs is not None:
        price = _price(costs, predicted, price, ceiling, at_least)
    charged = np.zeros(len(prompts.names)) if prompts.costs is None else price * prompts.costs
    worth = predicted - charged
    single, routed = int(worth.mean(0).argmax()), worth.argmax(1)
    outcomes = Outcomes(prompts, predicted, charged)
    everywhere = np.ones(len(columns), dtype=np.bool_)
    alone = [np.full(len(columns), index) for index in range(len(prompts.names))]
    over = [outcomes.difference(routed, each, everywhere) for each in alone]
    by_model = float(worth.max(1).mean() - worth[:, single].mean())
    gained = over[single] or PromptMean(by_model, None)
    # In a table with too few scores of both, the difference of those few says less than the predictions.
    gain = by_model if gained.error is None else gained.value
    scored = outcomes.score(alone[single], everywhere)
    single_value = float(predicted[:, single].mean()) if scored is None else scored.value
    counts = np.bincount(routed, minlength=len(prompts.names)) / len(columns)
    lower, upper = _over_the_best(over, delta)
    return RouteGain(
        price=price,
        gain=gain,
        error=gained.error,
        lower=None if gained.error is None else lower,
        upper=None if gained.error is None else upper,
        basis="model" if gained.error is None else "doubly robust" if prompts.is_logged else "scores",
        value=single_value + gain + float(charged[routed].mean() - charged[single]),
        single_value=single_value,
        best=prompts.names[single],
        shares=dict(zip(prompts.names, counts.tolist(), strict=True)),
        cost=None if prompts.costs is None else float(prompts.costs[routed].mean()),
        single_cost=None if prompts.costs is None else float(prompts.costs[single]),
        routed=routed,
        single=single,
        predicted=predicted,
        outcomes=outcomes,
        prompts=len(columns),
    )


def _price(costs: Floats, predicted: Floats, price: float, ceiling: float | None, at_least: float | None) -> float:
    """The price at which prompts keep the budget if they go by the predictions (m, G) and costs (G,)."""
    frontier = Frontier.from_values(predicted, predicted, np.broadcast_to(costs, predicted.shape))
    min_score = (at_least or 0.0) * frontier.single
    wanted = frontier.price_of_score(min_score) if ceiling is None else frontier.price_of_cost(ceiling)
    # At the price itself the last prompt that is to be moved is worth as much with either generator.
    return max(price, (1.0 + 1e-9) * wanted)


def _over_the_best(over: Sequence[PromptMean | None], delta: float) -> tuple[float | None, float | None]:
    """Ends of an interval of 1 − δ of the gain over the truly best one of single generators, from the gain over each.

    The gain over the best one is the smallest of all. The smallest lower end is above it only if the best one's
    is, whose chance is δ/2. The smallest upper end is below it only if any upper end is below its gain: they share δ/2.
    """
    gains = [(mean.value, mean.error) for mean in over if mean is not None and mean.error is not None]
    each, of_all = (NormalDist().inv_cdf(1.0 - delta / 2.0 / count) for count in (1, len(over)))
    lower = min(value - each * error for value, error in gains) if len(gains) == len(over) else None
    return lower, min((value + of_all * error for value, error in gains), default=None)


def _parts(prompts: ScoredPrompts, seed: int) -> Ints:
    """The part of each prompt (m,). Each generator's prompts are dealt out evenly: a rare one is in several parts."""
    count = len(prompts.contexts)
    had = np.zeros(count, dtype=np.int64)
    had[prompts.prompt[::-1]] = prompts.generator[::-1]
    order = np.lexsort((np.random.default_rng(seed).permutation(count), had))
    parts = np.zeros(count, dtype=np.int64)
    parts[order] = np.arange(count) % FOLDS
    return parts


def _cross_fitted(prompts: ScoredPrompts, columns: Floats, linear: int, part: Ints) -> Floats:
    """The expected scores on each prompt (m, G), learned from the other parts."""
    moments = [_moments(prompts, columns, part == fold) for fold in range(FOLDS)]
    whole = [reduce(add, of_one) for of_one in zip(*moments, strict=True)]
    predicted = np.zeros((len(columns), len(prompts.names)))
    for fold in range(FOLDS):
        inside, learned = part == fold, [a - b for a, b in zip(whole, moments[fold], strict=True)]
        if any(each.samples == 0 for each in learned):
            raise FixError(f"a generator has all of its scores on one of {FOLDS} parts of the prompts: it needs more")
        regressions = Regressions.from_moments(learned, linear)
        predicted[inside] = columns[inside] @ regressions.weights.T + regressions.offsets
    return predicted


def _moments(prompts: ScoredPrompts, columns: Floats, inside: Bools) -> list[Sums]:
    """The moments of each generator over the prompts that are inside."""
    moments: list[Sums] = []
    for index in range(len(prompts.names)):
        rows = (prompts.generator == index) & inside[prompts.prompt]
        moments.append(Sums.from_rows(columns[prompts.prompt[rows]], prompts.scores[rows]))
    return moments


@dataclass(frozen=True)
class TypeScore:
    """One generator on the prompts of a type."""

    score: float | None
    """Mean score; None where no score is known."""
    error: float | None
    """None where the score is of one sample, or only predicted."""
    samples: int
    """Scores of it on these prompts."""


@dataclass(frozen=True)
class PromptType:
    """A cluster of prompts."""

    share: float
    """Part of all prompts."""
    examples: tuple[int, ...]
    """The indices of the prompts nearest to its centre, the nearest first."""
    scores: dict[str, TypeScore]
    winner: str | None
    """The generator of the highest mean score, less the price of its cost; None if no score is known."""
    lead: float | None
    """The lead of the winner over the second best one, at least 0; None if that is not known. The winner was
    chosen by the same scores, so that a lead of less than its error may be none."""
    lead_error: float | None
    gain: float | None
    """Mean gain of routing over the best single generator, on these prompts; None if it is not known."""
    gain_error: float | None
    shares: dict[str, float]
    """Part of these prompts that a router gives to each generator."""


def types_of(
    prompts: ScoredPrompts,
    overall: RouteGain,
    *,
    count: int = 6,
    examples: int = 3,
    bandwidth: float | None = None,
    seed: int = 0,
) -> list[PromptType]:
    """Up to `count` types, the most frequent first.

    bandwidth: a usual distance of contexts; by default their median distance.
    """
    # At the whole median distance all prompts are nearly alike.
    sigma = 0.5 * (median_distance(prompts.contexts) if bandwidth is None else bandwidth)
    different = len(np.unique(prompts.contexts, axis=0))  # more clusters than these would be empty
    cluster, near = _clusters(prompts.contexts, sigma, min(count, different), seed)
    charged = np.zeros(len(prompts.names)) if prompts.costs is None else overall.price * prompts.costs
    kinds = [_type(prompts, overall, charged, near, cluster == number, examples) for number in range(count)]
    return sorted((kind for kind in kinds if kind is not None), key=lambda kind: -kind.share)


def _clusters(contexts: Floats, sigma: float, max_count: int, seed: int) -> tuple[Ints, Floats]:
    """The cluster of each context (m, d), and its squared distance from the centre of it.

    Contexts are clustered by k-means in the span of the k largest modes of their Gaussian kernel (equations.md §3c),
    where each has length 1: spectral clustering (Ng, Jordan and Weiss 2001). The modes alone would not do, as the
    largest one is often what all prompts have in common. k is the largest up to `max_count` at which clusters are
    nearly as distinct as they can be, by their silhouette (Rousseeuw 1987).
    """
    # Only tables need it, and importing it is a tenth of what a scorer does before it is ready.
    from scipy.cluster.vq import kmeans2
    from scipy.spatial.distance import cdist

    phi = ContextMap.drawn(contexts.shape[1], 256, sigma, seed)(contexts)
    _, vectors = np.linalg.eigh(phi.T @ phi)
    modes = phi @ vectors[:, ::-1][:, :max_count]
    some = np.random.default_rng(seed).permutation(len(contexts))[:500]  # by which the number of types is chosen
    apart = np.asarray(cdist(contexts[some], contexts[some]), dtype=np.float64)
    tried: list[tuple[float, Ints, Floats]] = []
    for count in range(min(2, max_count), max_count + 1):
        inside = modes[:, :count] / np.maximum(np.linalg.norm(modes[:, :count], axis=1, keepdims=True), 1e-300)
        centres, cluster = kmeans2(inside, count, minit="++", rng=np.random.default_rng(seed), missing="warn")
        near = np.square(np.asarray(inside - centres[cluster], dtype=np.float64)).sum(1)
        tried.append((_silhouette(apart, cluster[some]), cluster.astype(np.int64), near))
    best = max(distinct for distinct, _, _ in tried)
    # More types are preferred from a tenth below the largest silhouette on, which may be negative.
    enough = best - 0.1 * abs(best)
    _, cluster, near = next(each for each in reversed(tried) if each[0] >= enough)
    return cluster, near


def _silhouette(apart: Floats, cluster: Ints) -> float:
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
    silhouettes = (nearest - inner) / np.maximum(np.maximum(nearest, inner), 1e-300)
    return float(np.where(counts[own] > 1, silhouettes, 0.0).mean())


def _type(
    prompts: ScoredPrompts, overall: RouteGain, charged: Floats, near: Floats, inside: Bools, examples: int
) -> PromptType | None:
    indices = np.flatnonzero(inside)
    if not len(indices):
        return None
    order = indices[np.argsort(near[indices], kind="stable")]
    count = len(prompts.names)
    means = [overall.outcomes.score(_always(index, inside), inside) for index in range(count)]
    samples = np.bincount(prompts.generator[inside[prompts.prompt]], minlength=count)
    winner, lead = _winner(overall.outcomes, means, charged, inside)
    gain = overall.outcomes.difference(overall.routed, _always(overall.single, inside), inside)
    shares = np.bincount(overall.routed[inside], minlength=count) / len(indices)
    return PromptType(
        share=len(indices) / len(inside),
        examples=tuple(int(index) for index in order[:examples]),
        scores={
            name: TypeScore(mean and mean.value, mean and mean.error, int(each))
            for name, mean, each in zip(prompts.names, means, samples, strict=True)
        },
        winner=None if winner is None else prompts.names[winner],
        lead=lead and lead.value,
        lead_error=lead and lead.error,
        gain=gain and gain.value,
        gain_error=gain and gain.error,
        shares=dict(zip(prompts.names, shares.tolist(), strict=True)),
    )


def _winner(
    outcomes: Outcomes, means: Sequence[PromptMean | None], charged: Floats, inside: Bools
) -> tuple[int | None, PromptMean | None]:
    """The best generator on the prompts inside, and its lead over the second best one."""
    worth = {index: mean.value - charged[index] for index, mean in enumerate(means) if mean is not None}
    ranked = sorted(worth, key=lambda index: -worth[index])
    if len(ranked) < 2:
        return (ranked[0] if ranked else None), None
    first, second = ranked[:2]
    lead = outcomes.difference(_always(first, inside), _always(second, inside), inside)
    # Both are compared more exactly than each is known, which may tell them to be the other way round.
    if lead is not None and lead.value < 0.0:
        return second, PromptMean(-lead.value, lead.error)
    return first, lead


def _always(index: int, like: Bools) -> Ints:
    return np.full(len(like), index, dtype=np.int64)


HALF = NormalDist().inv_cdf(0.975)
"""Standard errors that half of an interval of 95 % has."""


def as_rows(
    kinds: Sequence[PromptType], texts: Sequence[str] | None, names: Sequence[str]
) -> tuple[list[list[str]], list[list[str]]]:
    """Rows, with headings, of two tables of types: share, winner, its lead, the gain; and each generator's score.

    After ± stands half of an interval of 95 %.
    """
    said = [["prompts such as", "share", "winner", "its lead", "gain of routing"]]
    scored = [["prompts such as", *names]]
    for kind in kinds:
        shown = [_format_excerpt(f"prompt {index}" if texts is None else texts[index]) for index in kind.examples]
        lead, gain = _number(kind.lead, kind.lead_error, 2), _number(kind.gain, kind.gain_error, 2)
        said.append(["; ".join(shown), f"{kind.share:.0%}", kind.winner or "–", lead, gain])
        scored.append([shown[0], *(_number(score.score, score.error, 3) for score in kind.scores.values())])
    return said, scored


def _number(value: float | None, error: float | None, digits: int) -> str:
    """A value and half of its interval with the decimals of the latter's first digit; `digits` of one without."""
    if value is None:
        return "–"
    half = float(f"{HALF * (error or 0.0):.1g}")
    if not half:
        return f"{value:.{digits}g}" if error is None else f"{value:.{digits}g} ± 0"
    decimals = max(0, -math.floor(math.log10(half)))
    return f"{value:z.{decimals}f} ± {half:.{decimals}f}"


def _format_excerpt(text: str, length: int = 40) -> str:
    line = " ".join(text.split())
    return line if len(line) <= length else f"{line[: length - 1]}…"
