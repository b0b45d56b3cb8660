"""What routing prompts among generators would gain over the best single one, from scores that are there."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from optimist.evaluation.route_outcomes import Mean, Outcomes
from optimist.evaluation.scored_prompts import ScoredPrompts
from optimist.numerics.routing.contexts import ContextSettings
from optimist.numerics.routing.features import Floats
from optimist.numerics.routing.moments import Moments
from optimist.numerics.routing.ridge import Regressions

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

    gain: float
    """Mean score, less the price of its cost, of the routed prompts minus that of the best single generator."""
    error: float | None
    """None with the basis "model"."""
    basis: Basis
    value: float
    """Mean score of the routed prompts."""
    single_value: float
    """Mean score of the best single generator."""
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
    predicted: Floats
    """Expected scores (m, G) by what was learned from other prompts."""
    outcomes: Outcomes
    prompts: int

    def interval(self, z: float = 1.959963984540054) -> tuple[float, float]:
        """The gain with z standard errors. Raises ValueError where no error is known."""
        if self.error is None:
            raise ValueError("a gain that is only predicted has no interval")
        return self.gain - z * self.error, self.gain + z * self.error


def route_gain(
    known: ScoredPrompts,
    *,
    price: float = 0.0,
    contexts: ContextSettings | None = None,
    features: int = 256,
    seed: int = 0,
    folds: int = FOLDS,
) -> RouteGain:
    """What routing by regressions on the context gains, by cross-fitting over `folds` parts of the prompts.

    Each prompt is routed by what was learned from the other parts, and so is the best single generator chosen. Where
    every generator has a score on a prompt, its gain is their difference. Where one was drawn, `Outcomes` says how far
    the predictions are off. contexts: how these become columns; by default with so many random features, and bandwidth
    and components of at most `MOST_FITTED` of these contexts. Raises ValueError for fewer folds than 2,
    or more than prompts.
    """
    if not 2 <= folds <= len(known.contexts):
        raise ValueError(f"folds: expected a number from 2 to {len(known.contexts)}, the prompts; got {folds}")
    if contexts is None:
        some = np.sort(np.random.default_rng(seed).permutation(len(known.contexts))[:MOST_FITTED])
        contexts = ContextSettings(known.contexts.shape[1], features).fitted([known.contexts[some]])
    columns = contexts.made()(known.contexts)
    charged = np.zeros(len(known.names)) if known.costs is None else price * known.costs
    predicted, singles = _cross_fitted(known, columns, contexts.linear, _parts(known, folds, seed), charged)
    routed = (predicted - charged).argmax(1)
    outcomes = Outcomes(known, predicted, charged)
    everywhere = np.ones(len(columns), dtype=np.bool_)
    rows = np.arange(len(columns))
    by_model = float((predicted - charged)[rows, routed].mean() - (predicted - charged)[rows, singles].mean())
    found = outcomes.difference(routed, singles, everywhere) or Mean(by_model, None)
    # In a table with too few scores of both, the difference of those few says less than the predictions.
    gain = by_model if found.error is None else found.value
    alone = outcomes.score(singles, everywhere)
    single_value = float(predicted[rows, singles].mean()) if alone is None else alone.value
    counts = np.bincount(routed, minlength=len(known.names)) / len(columns)
    best = int(np.bincount(singles, minlength=len(known.names)).argmax())
    return RouteGain(
        gain=gain,
        error=found.error,
        basis="model" if found.error is None else "doubly robust" if known.is_logged else "scores",
        value=single_value + gain + float(charged[routed].mean() - charged[singles].mean()),
        single_value=single_value,
        best=known.names[best],
        shares=dict(zip(known.names, counts.tolist(), strict=True)),
        cost=None if known.costs is None else float(known.costs[routed].mean()),
        single_cost=None if known.costs is None else float(known.costs[singles].mean()),
        routed=routed,
        singles=singles,
        predicted=predicted,
        outcomes=outcomes,
        prompts=len(columns),
    )


def _parts(known: ScoredPrompts, folds: int, seed: int) -> NDArray[np.int64]:
    """The part of each prompt (m,). Each generator's prompts are dealt out evenly: a rare one is in several parts."""
    count = len(known.contexts)
    had = np.zeros(count, dtype=np.int64)
    had[known.prompt[::-1]] = known.generator[::-1]
    order = np.lexsort((np.random.default_rng(seed).permutation(count), had))
    found = np.zeros(count, dtype=np.int64)
    found[order] = np.arange(count) % folds
    return found


def _cross_fitted(
    known: ScoredPrompts, columns: Floats, linear: int, part: NDArray[np.int64], charged: Floats
) -> tuple[Floats, NDArray[np.int64]]:
    """What is expected on each prompt (m, G), and the best single generator (m,), by what other parts say."""
    folds = int(part.max()) + 1
    moments = [_moments(known, columns, part == one) for one in range(folds)]
    whole = [reduce(add, of_one) for of_one in zip(*moments, strict=True)]
    predicted, singles = np.zeros((len(columns), len(known.names))), np.zeros(len(columns), dtype=np.int64)
    for one in range(folds):
        inside, learned = part == one, [a - b for a, b in zip(whole, moments[one], strict=True)]
        if any(each.samples == 0 for each in learned):
            raise ValueError(f"a generator has all of its scores on one of {folds} parts of the prompts: it needs more")
        found = Regressions.of(learned, linear)
        predicted[inside] = columns[inside] @ found.weights.T + found.offsets
        # By the predictions for all prompts, which allow for prompts of different difficulty, and are linear.
        overall = columns[~inside].mean(0) @ found.weights.T + found.offsets
        singles[inside] = int(np.argmax(overall - charged))
    return predicted, singles


def _moments(known: ScoredPrompts, columns: Floats, inside: NDArray[np.bool_]) -> list[Moments]:
    """The moments of each generator over the prompts that are inside."""
    found: list[Moments] = []
    for place in range(len(known.names)):
        rows = (known.generator == place) & inside[known.prompt]
        found.append(Moments.of(columns[known.prompt[rows]], known.scores[rows]))
    return found
