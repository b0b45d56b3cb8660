"""Groups of samples with similar features: the modes of the samples on display. Free of torch."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from optimist.arrays import Floats, Ints
from optimist.references.distances import usual_distance

MAX_MODES = 8
"""The most modes."""


def modes_and_copies(features: NDArray[np.float32], sources: Ints) -> tuple[Ints, Ints]:
    """The mode of each sample (n), and its group of nearly identical samples of its source in its mode (n).

    features: (n, d). sources: each sample's origin (n). Both are counted from 0, the largest group first. Modes are
    sought among samples without near copies of the same source, so that many copies hide no other modes.
    """
    rows = np.asarray(features, dtype=np.float64)
    rows = rows / usual_distance(rows)
    shown = np.arange(len(rows))  # the sample that represents each sample
    for source in np.unique(sources):
        members = np.flatnonzero(sources == source)
        # Up to this part of the usual distance two samples are nearly identical. Of rows of length 1 that are usually
        # at right angles it is a cosine of 0.98.
        shown[members] = members[representatives(rows[members], 0.15)]
    kept, of = np.unique(shown, return_inverse=True)
    modes = _by_size(modes_of(rows[kept])[of])
    copies = np.zeros(len(rows), dtype=np.int64)
    for source, mode in {*zip(sources.tolist(), modes.tolist(), strict=True)}:
        members = np.flatnonzero((sources == source) & (modes == mode))
        copies[members] = _by_size(shown[members])
    return modes, copies


def modes_of(rows: Floats) -> Ints:
    """The cluster of each row (n, d), by k-means.

    A further cluster begins at the row that lowers the sum of squared distances the most (Likas, Vlassis and Verbeek
    2003), so nothing is random. The number of clusters, up to `MAX_MODES`, has the best silhouette from centres
    (Hruschka, Campello and de Castro 2004). Equal rows give one cluster.
    """
    # A new mode may begin at one of 512 samples.
    candidates = rows[:: max(1, -(-len(rows) // 512))]
    apart = _squares(candidates, rows)
    centres = rows.mean(0, keepdims=True)
    tried: list[tuple[float, Ints]] = []
    for _ in range(1, min(MAX_MODES, len(rows))):
        nearest = _squares(rows, centres).min(1)
        gained = np.maximum(nearest - apart, 0.0).sum(1)
        if gained.max() <= 0.0:
            break
        centres = _settled(rows, np.vstack([centres, candidates[gained.argmax()]]))
        squares = _squares(rows, centres)
        tried.append((_silhouette(squares), squares.argmin(1)))
    if not tried:
        return np.zeros(len(rows), dtype=np.int64)
    _, groups = max(tried, key=lambda attempt: attempt[0])
    return groups


def are_central(features: NDArray[np.float32], modes: Ints) -> NDArray[np.bool_]:
    """True for the row (n, d) of each mode that is nearest to the mean of the mode."""
    rows = np.asarray(features, dtype=np.float64)
    central = np.zeros(len(rows), dtype=bool)
    for mode in np.unique(modes):
        members = np.flatnonzero(modes == mode)
        central[members[_squares(rows[members], rows[members].mean(0, keepdims=True)).argmin()]] = True
    return central


def representatives(rows: Floats, radius: float) -> Ints:
    """The row that represents each row (n, d), at most `radius` from it.

    The row with the most neighbours represents them, then the next among the remaining rows (Butina 1999).
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
    # Usually it settles in a few rounds.
    for _ in range(30):
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
    squares = np.square(rows).sum(1)[:, None] + np.square(others).sum(1) - 2.0 * (rows @ others.T)
    return np.maximum(squares, 0.0)


def _by_size(groups: Ints) -> Ints:
    """The groups numbered from 0, largest first; equal ones by their earliest row."""
    _, firsts, labels, counts = np.unique(groups, return_index=True, return_inverse=True, return_counts=True)
    order = np.lexsort((firsts, -counts))
    numbers = np.empty(len(order), dtype=np.int64)
    numbers[order] = np.arange(len(order))
    return numbers[labels]
