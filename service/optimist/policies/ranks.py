"""Ranks of generators: intervals that hold for all of them together, at every look (rules/limits.md). No torch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from optimist.arrays import Bools, Floats
from optimist.policies.arms import Arm
from optimist.policies.contrasts import contrasts_of
from optimist.policies.limits import Margins, margins_of, threshold
from optimist_client.limits import Limit
from optimist_client.models import Rank, Ranking

NO_WORSE = Limit("best", 0.0)
"""The limit whose margins are the differences of all pairs."""


def ranking_of(arms: Sequence[Arm], delta: float, told: int = 1, span: tuple[float, float] | None = None) -> Ranking:
    """The ranks of these arms after `told` batches, at each of which somebody may have looked; 1: at the end alone.

    Pairs are ordered by Holm's method, the surest first, until one is not sure. An arm without an estimate may have
    every rank. span: as of `margins_of`.
    """
    estimates = [arm.estimate for arm in arms]
    scored = [index for index, estimate in enumerate(estimates) if estimate is not None]
    contrasts = contrasts_of([estimate for estimate in estimates if estimate is not None])
    keys = {index: (at != contrasts.best, contrasts.losses[at]) for at, index in enumerate(scored)}
    order = [*sorted(scored, key=keys.__getitem__), *(index for index in range(len(arms)) if index not in keys)]
    names = [arms[index].name for index in order]
    sureness = _sureness(margins_of(NO_WORSE, names, [estimates[index] for index in order], span))
    is_better = _ordered(sureness, delta, told)
    better, worse = is_better.sum(axis=0).tolist(), is_better.sum(axis=1).tolist()
    size = len(names)
    return Ranking(
        delta=delta,
        ranks=[
            Rank(generator=name, first=1 + better[index], last=size - worse[index]) for index, name in enumerate(names)
        ],
        decided=[k for k in range(1, size) if sureness[:k, k:].min() > threshold(delta, k * (size - k), told)],
    )


def _sureness(margins: Margins) -> Floats:
    """The sureness that each generator is better than each other one (G, G), as a quantile of the normal law: 0 or
    less where it may be worse, or nothing is known."""
    errors = np.where(margins.own | np.isnan(margins.met.errors), 0.0, -margins.met.errors)
    return np.where(errors > 3.0, _normal(errors, margins.rows), errors)


@np.errstate(invalid="ignore", over="ignore")
def _normal(errors: Floats, rows: Floats) -> Floats:
    """The normal quantiles z that `Margins.reach` has at these numbers of errors, above 3: the root of
    z (1 + (z² − 9)/(4n)) = errors, by Cardano's formula, for n = `rows`."""
    linear, root = 4.0 * rows - 9.0, 4.0 * rows * errors
    scale = np.sqrt(linear / 3.0)
    quantiles = 2.0 * scale * np.sinh(np.arcsinh(0.5 * root / scale**3) / 3.0)
    return np.where(np.isfinite(rows) & np.isfinite(errors), quantiles, errors)


def _ordered(sureness: Floats, delta: float, told: int) -> Bools:
    """A mask (G, G) of the pairs of which the first is surely better than the second."""
    is_better = np.zeros(sureness.shape, bool)
    pairs = sorted(np.argwhere(sureness > 0.0).tolist(), key=lambda pair: -sureness[tuple(pair)])
    size = len(sureness)
    for ordered, (first, second) in enumerate(pairs):
        if not sureness[first, second] > threshold(delta, size * (size - 1) // 2 - ordered, told):
            break
        is_better[first, second] = True
    return is_better
