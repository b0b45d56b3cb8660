"""What generators would have scored on prompts that others got: means over prompts, with their errors."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optimist.numerics.routing.features import Floats
from optimist.routing_gain.scored_prompts import ScoredPrompts

Places = NDArray[np.int64]
Some = NDArray[np.bool_]
FEWEST_DRAWS = 3
"""Draws that a correction needs: it has two parameters."""
UNTRIED = 0.05
"""Part of the prompts on which a generator may be untried, so that it is a small error rather than an unknown gain."""


@dataclass(frozen=True, slots=True)
class Mean:
    """A mean over prompts."""

    value: float
    error: float | None
    """Standard error, for further prompts; None where the value is predicted only, and scores do not confirm it."""


class Outcomes:
    """What is known of every generator on every prompt: predictions from other prompts' scores, and scores.

    In a table of all generators' scores, means are those of the scores. In a log, a mean is that of the predictions,
    plus a correction: the generator's draws say how far its predictions are off. Each draw has the weight 1/p,
    truncated at √m (Ionides 2008) for m prompts, so that a single rare draw does not decide. The correction is a
    weighted regression of what was scored beyond the prediction on 1 and a covariate, at the mean of the covariate over
    all prompts: the generalised regression estimator of surveys (Särndal, Swensson and Wretman 1992, ch. 6). It is
    right on average if either the predictions or the probabilities are, but for the truncation, and needs no draw for
    most of the weight, as plain doubly robust sums do. Its error is that of the jackknife, and at least that which
    scores of the usual spread would have: few draws that agree by chance do not make it small.
    """

    def __init__(self, known: ScoredPrompts, predicted: Floats, charged: Floats) -> None:
        """predicted: expected scores (m, G) by what was learned from other prompts. charged: price of a sample (G,)."""
        self._known, self._predicted, self._charged = known, predicted - charged, charged
        count = len(known.contexts)
        self._is_draw = ~np.isnan(known.probability)
        self._table = None if known.is_logged else _table(known, charged)
        self.judged: Some = np.zeros(count, dtype=np.bool_)
        """Prompts over which means are taken (m,): all of a table; of a log those that were given by chance."""
        self.judged[known.prompt[self._is_draw]] = True
        is_predicted = not self.judged.any()
        if is_predicted:
            self.judged[:] = True
        draws = known.prompt[self._is_draw], known.generator[self._is_draw]
        self._beyond = known.scores[self._is_draw] - charged[draws[1]] - self._predicted[draws]
        self._drawn = draws
        most = math.sqrt(max(int(self.judged.sum()), 1))
        self._weights = np.minimum(1.0 / known.probability[self._is_draw], most)
        self._spread = float(np.square(self._beyond).mean()) if len(self._beyond) else 0.0

    def difference(self, first: Places, second: Places, inside: Some) -> Mean | None:
        """By how much `first` (m,) is worth more than `second` (m,) on the prompts inside (m,), 0 where they are the
        same; None where nothing is known. Worth is the score less the price of the cost."""
        inside = inside & self.judged
        rows = np.arange(len(first))
        if self._table is not None:
            gains = np.where(first == second, 0.0, self._table[rows, first] - self._table[rows, second])
            return _mean_gain(gains[inside], (first != second)[inside])
        apart = self._predicted[rows, first] - self._predicted[rows, second]
        return self._corrected(apart, ((1.0, first), (-1.0, second)), inside, inside & (first != second))

    def score(self, chosen: Places, inside: Some) -> Mean | None:
        """The mean score of giving each prompt inside (m,) to the chosen generator (m,), without prices."""
        inside = inside & self.judged
        if not inside.any():
            return None
        paid = float(self._charged[chosen[inside]].mean())
        rows = np.arange(len(chosen))
        if self._table is not None:
            values = self._table[rows, chosen][inside]
            values = values[~np.isnan(values)]
            if not len(values):
                return None
            error = math.sqrt(float(values.var(ddof=1)) / len(values)) if len(values) > 1 else None
            return Mean(float(values.mean()) + paid, error)
        found = self._corrected(self._predicted[rows, chosen], ((1.0, chosen),), inside, inside)
        return None if found is None else Mean(found.value + paid, found.error)

    def _corrected(
        self, predicted: Floats, sides: tuple[tuple[float, Places], ...], inside: Some, where: Some
    ) -> Mean | None:
        """The mean over the prompts inside of what is predicted (m,) on those of them that count, corrected."""
        count, part = int(inside.sum()), int(where.sum())
        if not count:
            return None
        if not part:
            return Mean(0.0, 0.0 if len(self._beyond) else None)
        share = part / count
        value = float(predicted[where].mean())
        covariate = predicted - value
        variance, slope = 0.0, 1.0
        is_known = True
        prompt, generator = self._drawn
        for sign, chosen in sides:
            mine = where[prompt] & (generator == chosen[prompt])
            if int(mine.sum()) < FEWEST_DRAWS:
                is_known = is_known and part <= UNTRIED * int(self.judged.sum()) and len(self._beyond) > 0
                variance += self._spread
                continue
            off, steeper, spread = _regressed(
                self._beyond[mine], self._weights[mine], covariate[prompt[mine]], floor=self._spread
            )
            slope += sign * steeper
            value += sign * off
            variance += spread
        # What is predicted differs from prompt to prompt by the slope times as much.
        variance += slope**2 * float(predicted[where].var(ddof=1)) / part if part > 1 else self._spread
        if not is_known:
            return Mean(share * float(predicted[where].mean()), None)
        return Mean(share * value, math.sqrt(share**2 * variance + value**2 * share * (1.0 - share) / count))


def _regressed(beyond: Floats, weights: Floats, covariate: Floats, *, floor: float) -> tuple[float, float, float]:
    """The weighted regression (n,) on 1 and the covariate, at the covariate 0; its slope; and the variance at 0."""
    columns = np.stack([np.ones(len(beyond)), covariate], axis=1)
    gram = (columns * weights[:, None]).T @ columns
    # Predictions are off by a factor of about 2 at most: a slope as far from 0 as 1 is one standard deviation.
    gram[1, 1] += max(float(weights.mean()) * floor, 1e-9 * gram[0, 0])
    inverse = np.linalg.inv(gram)
    fitted = inverse @ (columns.T @ (weights * beyond))
    pull = (columns @ inverse[0]) * weights
    leverage = np.einsum("nk,kl,nl->n", columns, inverse, columns) * weights
    left = (beyond - columns @ fitted) / np.maximum(1.0 - leverage, 1e-3)
    variance = max(float(np.square(pull * left).sum()), floor * float(np.square(pull).sum()))
    return float(fitted[0]), float(fitted[1]), variance


def _table(known: ScoredPrompts, charged: Floats) -> Floats:
    """Worth (m, G) of each generator on each prompt; NaN where it has no score."""
    shape = (len(known.contexts), len(known.names))
    flat = known.prompt * shape[1] + known.generator
    hits = np.bincount(flat, minlength=shape[0] * shape[1])
    sums = np.bincount(flat, weights=known.scores - charged[known.generator], minlength=len(hits))
    return np.where(hits > 0, sums / np.maximum(hits, 1), np.nan).reshape(shape)


def _mean_gain(gains: Floats, is_routed: Some) -> Mean | None:
    """The mean gain (n,) over prompts.

    is_routed: whether each prompt would get another generator; elsewhere the gain is 0. Gains that are not known count
    as those that are: were they left out, prompts without a gain would count too much.
    """
    count = len(gains)
    if not count:
        return None
    share = float(is_routed.mean())
    known = gains[is_routed & ~np.isnan(gains)]
    if share == 0.0:
        return Mean(0.0, 0.0)
    if not len(known):
        return None
    mean = float(known.mean())
    if len(known) < 2:
        return Mean(share * mean, None)
    spread = float(known.var(ddof=1)) / len(known)
    return Mean(share * mean, math.sqrt(share**2 * spread + mean**2 * share * (1.0 - share) / count))
