"""What routing prompts among generators would gain over the best single one, from scores that are there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from statistics import NormalDist
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from optimist.numerics.routing.features import ContextSettings, Floats
from optimist.numerics.routing.ridge import Moments, Regressions
from optimist.policies.routing import Frontier
from optimist.routing_gain.outcomes import Mean, Outcomes
from optimist.routing_gain.scored_prompts import ScoredPrompts
from optimist_client.errors import FixError
from optimist_client.goals import check_pace

FOLDS = 5
"""Parts of the prompts: what is said of one is learned from the others."""
MOST_FITTED = 1000
"""Contexts of a file that bandwidth and components are taken from."""

Basis = Literal["scores", "doubly robust", "model"]
"""Where a gain comes from: scores of both generators on the same prompts; predictions, corrected by those scores of a
log that were drawn by known probabilities; predictions alone."""


@dataclass(frozen=True, eq=False)
class RouteGain:
    """What a router gains over the best single generator, on prompts that it has not seen."""

    price: float
    """Of a unit of cost."""
    gain: float
    """Mean score, less the price of its cost, of the routed prompts minus that of `best`."""
    error: float | None
    """Standard error; None with the basis "model"."""
    lower: float | None
    """Lower end of a 95 % interval of the gain over the generator that is truly the best single one, whichever that is;
    None where the error of the gain over any generator is not known."""
    upper: float | None
    """Upper end; None where no error is known."""
    basis: Basis
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
    routed: NDArray[np.int64]
    """Place of the generator that each prompt would be given to (m,), by what was learned from other prompts."""
    single: int
    """Place of `best`."""
    predicted: Floats
    """Expected scores (m, G) by what was learned from other prompts."""
    outcomes: Outcomes
    prompts: int


def route_gain(
    known: ScoredPrompts,
    *,
    price: float = 0.0,
    ceiling: float | None = None,
    at_least: float | None = None,
    contexts: ContextSettings | None = None,
    features: int = 256,
    seed: int = 0,
    folds: int = FOLDS,
) -> RouteGain:
    """What routing by regressions on the context gains, by cross-fitting over `folds` parts of the prompts.

    Each prompt is routed by what was learned from the other parts. Where every generator has a score on a prompt, its
    gain is their difference. Where one was drawn, `Outcomes` says how far the predictions are off.

    ceiling, at_least: instead of a price, what prompts may cost on average, or the part of the best single generator's
    mean that is to be kept at the least cost: the price follows from them.
    contexts: how these become columns; by default with `features` random features, and bandwidth and components of at
    most `MOST_FITTED` of these contexts. Raises FixError for fewer folds than 2, or more than prompts.
    """
    if not 2 <= folds <= len(known.contexts):
        raise FixError(f"folds: expected a number from 2 to {len(known.contexts)}, the prompts; got {folds}")
    if contexts is None:
        some = np.sort(np.random.default_rng(seed).permutation(len(known.contexts))[:MOST_FITTED])
        contexts = ContextSettings(known.contexts.shape[1], features).fitted([known.contexts[some]])
    made = contexts.made()
    columns = made(known.contexts)
    predicted = _cross_fitted(known, columns, made.linear, _parts(known, folds, seed))
    price = _price(known, predicted, price, ceiling, at_least)
    charged = np.zeros(len(known.names)) if known.costs is None else price * known.costs
    worth = predicted - charged
    single, routed = int(worth.mean(0).argmax()), worth.argmax(1)
    outcomes = Outcomes(known, predicted, charged)
    everywhere = np.ones(len(columns), dtype=np.bool_)
    alone = [np.full(len(columns), place) for place in range(len(known.names))]
    over = [outcomes.difference(routed, each, everywhere) for each in alone]
    by_model = float(worth.max(1).mean() - worth[:, single].mean())
    found = over[single] or Mean(by_model, None)
    # In a table with too few scores of both, the difference of those few says less than the predictions.
    gain = by_model if found.error is None else found.value
    scored = outcomes.score(alone[single], everywhere)
    single_value = float(predicted[:, single].mean()) if scored is None else scored.value
    counts = np.bincount(routed, minlength=len(known.names)) / len(columns)
    lower, upper = _over_the_best(over)
    return RouteGain(
        price=price,
        gain=gain,
        error=found.error,
        lower=None if found.error is None else lower,
        upper=None if found.error is None else upper,
        basis="model" if found.error is None else "doubly robust" if known.is_logged else "scores",
        value=single_value + gain + float(charged[routed].mean() - charged[single]),
        single_value=single_value,
        best=known.names[single],
        shares=dict(zip(known.names, counts.tolist(), strict=True)),
        cost=None if known.costs is None else float(known.costs[routed].mean()),
        single_cost=None if known.costs is None else float(known.costs[single]),
        routed=routed,
        single=single,
        predicted=predicted,
        outcomes=outcomes,
        prompts=len(columns),
    )


def _price(
    known: ScoredPrompts, predicted: Floats, price: float, ceiling: float | None, at_least: float | None
) -> float:
    """The price by which the prompts, given to generators as is predicted (m, G), keep the budget."""
    check_pace("greedy", ceiling, at_least, price)
    if ceiling is None and at_least is None:
        return price
    costs = known.costs_of_budget(ceiling, at_least)
    frontier = Frontier.from_values(predicted, predicted, np.broadcast_to(costs, predicted.shape))
    if ceiling is None:
        return frontier.price_of_score((at_least or 0.0) * frontier.single)
    # At the price itself the last prompt that is to be moved is worth as much with either generator.
    return max(price, (1.0 + 1e-9) * frontier.price_of_cost(ceiling))


def _over_the_best(over: Sequence[Mean | None]) -> tuple[float | None, float | None]:
    """Ends of a 95 % interval of the gain over the truly best one of single generators, from the gain over each.

    The gain over the best one is the smallest of all. The smallest lower end is above it only if that of the best one
    is, whose chance is 2.5 %. The smallest upper end is below it only if any upper end is below its gain: they share
    2.5 %.
    """
    known = [(one.value, one.error) for one in over if one is not None and one.error is not None]
    each, of_all = (NormalDist().inv_cdf(1.0 - 0.025 / count) for count in (1, len(over)))
    lower = min(value - each * error for value, error in known) if len(known) == len(over) else None
    return lower, min((value + of_all * error for value, error in known), default=None)


def _parts(known: ScoredPrompts, folds: int, seed: int) -> NDArray[np.int64]:
    """The part of each prompt (m,). Each generator's prompts are dealt out evenly: a rare one is in several parts."""
    count = len(known.contexts)
    had = np.zeros(count, dtype=np.int64)
    had[known.prompt[::-1]] = known.generator[::-1]
    order = np.lexsort((np.random.default_rng(seed).permutation(count), had))
    found = np.zeros(count, dtype=np.int64)
    found[order] = np.arange(count) % folds
    return found


def _cross_fitted(known: ScoredPrompts, columns: Floats, linear: int, part: NDArray[np.int64]) -> Floats:
    """What is expected on each prompt (m, G) by what other parts say."""
    folds = int(part.max()) + 1
    moments = [_moments(known, columns, part == one) for one in range(folds)]
    whole = [reduce(add, of_one) for of_one in zip(*moments, strict=True)]
    predicted = np.zeros((len(columns), len(known.names)))
    for one in range(folds):
        inside, learned = part == one, [a - b for a, b in zip(whole, moments[one], strict=True)]
        if any(each.samples == 0 for each in learned):
            raise FixError(f"a generator has all of its scores on one of {folds} parts of the prompts: it needs more")
        found = Regressions.from_moments(learned, linear)
        predicted[inside] = columns[inside] @ found.weights.T + found.offsets
    return predicted


def _moments(known: ScoredPrompts, columns: Floats, inside: NDArray[np.bool_]) -> list[Moments]:
    """The moments of each generator over the prompts that are inside."""
    found: list[Moments] = []
    for place in range(len(known.names)):
        rows = (known.generator == place) & inside[known.prompt]
        found.append(Moments.from_rows(columns[known.prompt[rows]], known.scores[rows]))
    return found
