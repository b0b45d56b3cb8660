"""The choice of a bandwidth by the papers' rule, from a feature file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from optimist.local.offline import check_matrix
from optimist.local.single import score
from optimist.numerics.batches import check_rows
from optimist_client.errors import FixError
from optimist_client.files import read_arrays

STEADY = 0.01
"""The variance below which the papers regard a score as stable (equations.md §4, last paragraph)."""
LARGEST_SUBSET = 1000
"""Default limit of the rows of a subset: at r = 1000 more rows cost seconds per score and hardly change σ."""


@dataclass(frozen=True, slots=True)
class Spread:
    """Mean and variance, over the subsets, of the score with one σ, on the natural scale."""

    sigma: float
    mean: float
    variance: float


@dataclass(frozen=True, slots=True)
class Bandwidths:
    """The scores' spread for each σ, ascending, and the σ that the papers' rule chooses; None if none is stable."""

    median_distance: float
    subsets: int
    size: int
    spreads: tuple[Spread, ...]
    chosen: float | None

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)


def choose_bandwidth(
    file: Path,
    metric: str = "vendi",
    *,
    sigmas: Sequence[float] | None = None,
    subsets: int = 10,
    size: int | None = None,
    features: int = 1000,
    seed: int = 0,
) -> Bandwidths:
    """The papers' variance rule on the one array (n, d) of a file (equations.md §4, last paragraph).

    For each σ, `subsets` disjoint random subsets of `size` rows (None: as many as there are, at most 1000) are scored
    with the same `features` random frequencies; the score is the de-biased one, on the natural scale. Chosen is the
    smallest σ from which on every one of the grid varies by less than 0.01. The papers do not say "from which on", but
    a σ so small that no two rows are similar is steady, too, at the largest score there is (real digits: variance 0 at
    1/8 of the median distance, 234 at 0.35, 0.003 at 1.4 times it). `sigmas` None is 13 of them, from 1/8 to 8 times
    the median distance of up to 1000 rows. Raises FixError for a file that is not as expected, and for options that
    make no sense.
    """
    arrays = dict(_rows_of(file))
    if len(arrays) > 1:
        raise FixError(f"{file}: expected one array, found {', '.join(arrays)}")
    rows = next(iter(arrays.values()))
    try:
        check_rows("features", rows, rows.shape[1])
    except FixError as error:
        raise FixError(f"{file}: {error}") from None
    if subsets < 2 or (size is not None and size < 2):
        raise FixError(f"expected at least 2 subsets of at least 2 rows, got {subsets} subsets of {size or 'all'}")
    size = size or min(max(len(rows) // subsets, 2), LARGEST_SUBSET)
    if subsets * size > len(rows):
        raise FixError(f"{file}: expected rows for {subsets} disjoint subsets of {size}, found {len(rows)} rows")
    shuffled = rows[np.random.default_rng(seed).permutation(len(rows))].astype(np.float64)
    median = float(np.median(torch.pdist(torch.from_numpy(shuffled[:1000])).numpy()))
    if sigmas is None:
        if median == 0.0:
            raise FixError(f"{file}: expected rows that differ, to make a grid of σ from their median distance")
        sigmas = [median * 2.0**power for power in np.arange(-3.0, 3.5, 0.5)]
    parts = np.split(shuffled[: subsets * size], subsets)
    spreads = tuple(_spread(parts, metric, sigma, features, seed) for sigma in sorted(sigmas))
    steady: float | None = None
    for spread in reversed(spreads):
        if not spread.variance < STEADY:
            break
        steady = spread.sigma
    return Bandwidths(median, subsets, size, spreads, steady)


def _spread(parts: Sequence[NDArray[np.float64]], metric: str, sigma: float, features: int, seed: int) -> Spread:
    kernel = {"name": "gaussian", "sigma": sigma, "features": features, "seed": seed}
    scores = [score(part, metric, kernel=kernel).score for part in parts]
    return Spread(sigma, float(np.mean(scores)), float(np.var(scores, ddof=1)))


def _rows_of(file: Path) -> Iterator[tuple[str, NDArray[Any]]]:
    """The matrices of a file, by displayed name."""
    arrays = read_arrays(file)
    for name, rows in arrays.items():
        shown = name if len(arrays) > 1 else file.stem
        check_matrix(file, name, rows)
        yield shown, rows
