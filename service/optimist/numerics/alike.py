"""Groups of samples whose features are alike: the modes of what people look at. Free of torch."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from optimist.numerics.distances import usual_distance

Floats = NDArray[np.float64]
Groups = NDArray[np.int64]
MOST = 8
"""The most modes."""
CANDIDATES = 512
"""Samples that a new mode may begin at."""
ROUNDS = 30
"""Rounds of k-means, which usually settles in a few."""
NEAR = 0.15
"""Part of the usual distance up to which two samples are nearly identical. Of rows of length 1 that are usually at
right angles it is a cosine of 0.98."""


def modes_and_copies(features: NDArray[np.float32], sources: NDArray[np.int64]) -> tuple[Groups, Groups]:
    """The mode of each sample (n), and its group of nearly identical samples of its source in its mode (n).

    features: (n, d). sources: what made each sample (n). Both are counted from 0, the largest group first. Modes are
    found among samples of which no two of a source are nearly identical, so that many copies hide no other modes.
    """
    rows = np.asarray(features, dtype=np.float64)
    rows = rows / usual_distance(rows)
    shown = np.arange(len(rows))  # by which sample each one is represented
    for source in np.unique(sources):
        places = np.flatnonzero(sources == source)
        shown[places] = places[near_ones(rows[places], NEAR)]
    kept, of = np.unique(shown, return_inverse=True)
    modes = _by_size(modes_of(rows[kept])[of])
    copies = np.zeros(len(rows), dtype=np.int64)
    for source, mode in {*zip(sources.tolist(), modes.tolist(), strict=True)}:
        places = np.flatnonzero((sources == source) & (modes == mode))
        copies[places] = _by_size(shown[places])
    return modes, copies


def modes_of(rows: Floats) -> Groups:
    """The cluster of each row (n, d), by k-means.

    Each cluster more begins at the row that lowers the sum of squared distances the most (Likas, Vlassis and Verbeek
    2003), so nothing is random. There are as many, up to `MOST`, as are most distinct by their silhouette from centres
    (Hruschka, Campello and de Castro 2004). With equal rows there is one.
    """
    candidates = rows[:: max(1, -(-len(rows) // CANDIDATES))]
    apart = _squares(candidates, rows)
    centres = rows.mean(0, keepdims=True)
    tried: list[tuple[float, Groups]] = []
    for _ in range(1, min(MOST, len(rows))):
        nearest = _squares(rows, centres).min(1)
        gained = np.maximum(nearest - apart, 0.0).sum(1)
        if gained.max() <= 0.0:
            break
        centres = _settled(rows, np.vstack([centres, candidates[gained.argmax()]]))
        squares = _squares(rows, centres)
        tried.append((_silhouette(squares), squares.argmin(1)))
    if not tried:
        return np.zeros(len(rows), dtype=np.int64)
    _, groups = max(tried, key=lambda each: each[0])
    return groups


def central_ones(features: NDArray[np.float32], modes: Groups) -> NDArray[np.bool_]:
    """True for the row (n, d) of each mode that is nearest to the mean of the mode."""
    rows = np.asarray(features, dtype=np.float64)
    found = np.zeros(len(rows), dtype=bool)
    for mode in np.unique(modes):
        places = np.flatnonzero(modes == mode)
        found[places[_squares(rows[places], rows[places].mean(0, keepdims=True)).argmin()]] = True
    return found


def near_ones(rows: Floats, radius: float) -> Groups:
    """The row that stands for each row (n, d), at most `radius` from it.

    The row with the most others around it stands for them, of those that are left the next one (Butina 1999).
    """
    near = _squares(rows, rows) <= radius**2
    groups = np.full(len(rows), -1, dtype=np.int64)
    for row in np.argsort(-near.sum(1), kind="stable"):
        if groups[row] < 0:
            groups[near[row] & (groups < 0)] = row
            groups[row] = row  # which rounding may keep from itself
    return groups


def _settled(rows: Floats, centres: Floats) -> Floats:
    """The centres (k, d) where k-means comes to rest; one without rows stays where it is."""
    groups = None
    for _ in range(ROUNDS):
        before, groups = groups, _squares(rows, centres).argmin(1)
        if before is not None and (groups == before).all():
            break
        members = groups == np.arange(len(centres))[:, None]
        counts = members.sum(1)[:, None]
        centres = np.where(counts > 0, members @ rows / np.maximum(counts, 1), centres)
    return centres


def _silhouette(squares: Floats) -> float:
    """The mean of (b − a)/b, a and b the distances of a row from the nearest and the next centre; 0 for one that is
    alone. squares: (n, k) of rows and centres, squared."""
    first, second = np.sqrt(np.partition(squares, 1, axis=1)[:, :2]).T
    groups = squares.argmin(1)
    alone = np.bincount(groups, minlength=squares.shape[1])[groups] == 1
    return float(np.where(alone, 0.0, (second - first) / np.maximum(second, 1e-300)).mean())


def _squares(rows: Floats, others: Floats) -> Floats:
    """Squared distances (n, m) of rows (n, d) and others (m, d)."""
    found = np.square(rows).sum(1)[:, None] + np.square(others).sum(1) - 2.0 * (rows @ others.T)
    return np.maximum(found, 0.0)


def _by_size(groups: Groups) -> Groups:
    """The groups numbered from 0, the largest first; of equal ones first that of the earliest row."""
    _, firsts, places, counts = np.unique(groups, return_index=True, return_inverse=True, return_counts=True)
    order = np.lexsort((firsts, -counts))
    numbers = np.empty(len(order), dtype=np.int64)
    numbers[order] = np.arange(len(order))
    return numbers[places]
