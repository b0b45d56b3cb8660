"""Typical distances of rows, which give kernels their bandwidths. Free of torch."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from optimist.arrays import Floats
from optimist_client.errors import FixError


def median_distance(rows: NDArray[Any]) -> float:
    """The median distance of different rows (n, d), n ≥ 2, by at most 1000 of them.

    Raises FixError if at least half of all pairs are equal: then there is no scale.
    """
    apart = _distances(rows)
    median = float(np.median(apart)) if len(apart) else 0.0
    if median <= 0.0:
        raise FixError("contexts: at least half of all pairs are equal, so that no bandwidth can be taken from them")
    return median


def usual_distance(rows: NDArray[Any]) -> float:
    """A distance of rows (n, d) that is always there: the median, else the mean of those above 0, else 1.

    The second serves where at least half of all pairs are equal, the third where all are: an experiment must not wait
    for contexts that differ. It is a distance that float32 can divide by.
    """
    apart = _distances(rows)
    above = apart[apart > 0.0]
    if not len(above):
        return 1.0
    middle = float(np.median(apart))
    # float32 holds the frequencies of other bandwidths badly, or not at all.
    return float(np.clip(middle if middle > 0.0 else above.mean(), 1e-30, 1e30))


def _distances(samples: NDArray[Any]) -> Floats:
    """The distances of all pairs of at most 1000 rows; 0 where one is but rounding of the two."""
    chosen = np.random.default_rng(0).permutation(len(samples))[:1000]
    rows = np.asarray(samples, dtype=np.float64)[np.sort(chosen)]
    squares = np.square(rows).sum(1)
    first, second = np.triu_indices(len(rows), 1)
    apart = squares[:, None] + squares[None, :] - 2.0 * (rows @ rows.T)
    pairs = np.sqrt(np.maximum(apart[first, second], 0.0))
    # By the pair: one context of a wrong size must not make all others equal.
    return np.where(pairs > 1e-6 * np.sqrt(np.maximum(squares[first], squares[second])), pairs, 0.0)
