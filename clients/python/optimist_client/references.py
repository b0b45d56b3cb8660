"""The forms in which a reference can be given: real features, their moments, or a file of either."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from optimist_client import tensors
from optimist_client.files import MOMENTS, SUFFIXES, Arrays, FileError, read_arrays

SOME = 256
"""Real rows by which differences of generators know how much they depend on the choice of the reference."""


def some_places(count: int) -> NDArray[np.int64]:
    """A random choice of at most `SOME` of `count` rows, the same wherever it is made."""
    return np.random.default_rng(0).permutation(count)[:SOME]


def some_of(rows: NDArray[np.floating]) -> NDArray[np.float32]:
    """The rows (k, d) that are kept of all the rows (m, d) of a reference."""
    return rows[some_places(len(rows))].astype(np.float32)


class Moments(NamedTuple):
    """The mean (d,) and covariance (d, d) of real data, float64, and how many samples they come from, if known."""

    mean: NDArray[np.float64]
    covariance: NDArray[np.float64]
    samples: int | None = None


class Sent(NamedTuple):
    """Real data as it is sent, with its digest (`tensors.digest`): `features` to be kept, or `mean` and `covariance`.

    `samples`: how many samples moments come from, if known.
    """

    arrays: Arrays
    samples: int | None
    digest: str


def as_sent(reference: Any, keep_rows: bool) -> Sent:
    """What is sent of a reference: its features where rows are kept, else its moments. Raises ValueError."""
    if keep_rows:
        rows = rows_of(reference)
        arrays, samples = {"features": rows}, len(rows)
    else:
        mean, covariance, samples = moments_of(reference)
        arrays = {"mean": mean, "covariance": covariance}
    return Sent(arrays, samples, tensors.digest(arrays))


def names_file(reference: object) -> bool:
    """Whether `reference` is the path of a file rather than the name of an uploaded reference."""
    return isinstance(reference, Path) or (isinstance(reference, str) and reference.endswith(SUFFIXES))


def moments_of(reference: Any) -> Moments:
    """The moments given by features (n, d), by a pair (mean, covariance), or by a file.

    Arrays may be torch tensors on any device. A file holds `mu` and `sigma`, as pytorch-fid writes them, or `mean` and
    `covariance`, or one array of features. The covariance of features is the unbiased one. Raises ValueError for
    anything else.
    """
    if names_file(reference):
        arrays = tuple(moments_in(Path(reference)).values())
        try:
            return moments_of(arrays if len(arrays) == 2 else arrays[0])
        except ValueError as error:
            raise FileError(f"{reference}: {error}") from None
    if isinstance(reference, tuple):
        if len(reference) != 2:
            raise ValueError(f"reference: expected a pair (mean, covariance), got {len(reference)} arrays")
        return Moments(_float64("mean", reference[0]), _float64("covariance", reference[1]))
    rows = _float64("features", reference)
    if rows.ndim != 2 or len(rows) < 2:
        raise ValueError(f"features: expected shape (n, d) with n at least 2, got {rows.shape}")
    return Moments(rows.mean(axis=0), np.atleast_2d(np.cov(rows, rowvar=False)), len(rows))


def rows_of(reference: Any) -> NDArray[np.floating]:
    """The features (n, d) given by an array, or by a file of one: float16 and float32 are kept, others become float64.

    Raises ValueError for anything else, such as moments.
    """
    if isinstance(reference, tuple):
        raise ValueError("features: expected real features (n, d), got a pair: moments have no rows to keep")
    if names_file(reference):
        arrays = moments_in(Path(reference))
        if len(arrays) > 1:
            raise FileError(f"{reference}: expected one array of features, found the moments {', '.join(arrays)}")
        (reference,) = arrays.values()
    rows = tensors.as_floats("features", reference)
    if rows.ndim != 2 or len(rows) < 2:
        raise ValueError(f"features: expected shape (n, d) with n at least 2, got {rows.shape}")
    return rows


def moments_in(file: Path) -> Arrays:
    """The arrays in a file of real data: `mean` (or `mu`), then `covariance` (or `sigma`); or one array of features.

    Raises FileError for a file that cannot be read, or has arrays with other names.
    """
    arrays = read_arrays(file)
    for names in MOMENTS:
        if set(arrays) == set(names):
            return {name: arrays[name] for name in names}
    if len(arrays) != 1:
        expected = "one array of features, or mean and covariance, or mu and sigma"
        raise FileError(f"{file}: expected {expected}; found {', '.join(arrays)}")
    return arrays


def _float64(name: str, values: ArrayLike) -> NDArray[np.float64]:
    return tensors.as_array(name, values).astype(np.float64)
