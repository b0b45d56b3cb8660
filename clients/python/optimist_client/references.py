"""The forms in which a reference can be given: real features, their moments, or a file of either."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from optimist_client import tensors
from optimist_client.errors import FixError
from optimist_client.files import SUFFIXES, Arrays, moments_among, read_arrays
from optimist_client.validation import is_tuple

SOME = 256
"""Real rows by which differences of generators know how much they depend on the choice of the reference."""


def some_places(count: int) -> NDArray[np.int64]:
    """A random choice of at most `SOME` of `count` rows, the same wherever it is made."""
    return np.random.default_rng(0).permutation(count)[:SOME]


def some_of(rows: NDArray[np.floating]) -> NDArray[np.float32]:
    """The rows (k, d) that are kept of all the rows (m, d) of a reference."""
    return rows[some_places(len(rows))].astype(np.float32)


class Moments(NamedTuple):
    """The mean (d,) and covariance (d, d) of real data, float64, and what is known of its rows."""

    mean: NDArray[np.float64]
    covariance: NDArray[np.float64]
    samples: int | None = None
    """Number of rows that they come from."""
    some_rows: NDArray[np.float32] | None = None
    """Some of these (k ≤ 256, d), as `some_of` chooses them."""

    @property
    def arrays(self) -> Arrays:
        """The arrays by name, as they are sent and stored; `samples` is (1,)."""
        samples = None if self.samples is None else np.array([self.samples], dtype=np.float64)
        fields = {"mean": self.mean, "covariance": self.covariance, "samples": samples, "some_rows": self.some_rows}
        return {name: array for name, array in fields.items() if array is not None}

    def with_samples(self, samples: int | None) -> Moments:
        """The moments with this number of rows, if one is given. Raises FixError where another one is known."""
        if samples is None:
            return self
        if self.samples is not None:
            check_samples(self.samples, samples)
        return self._replace(samples=_count(samples))


def moments_from(arrays: Mapping[str, ArrayLike]) -> Moments | None:
    """The moments in arrays of the names of `files.moments_among`; None if there are others, or no moments.

    Raises FixError where `samples` is no number of rows, or `some_rows` are not that many of its rows.
    """
    names = moments_among(arrays)
    if not names or set(names) != set(arrays):
        return None
    mean, covariance = (_float64(name, arrays[name]) for name in names[:2])
    samples = _count(arrays["samples"]) if "samples" in arrays else None
    if "some_rows" not in arrays:
        return Moments(mean, covariance, samples)
    rows = tensors.as_array("some_rows", arrays["some_rows"]).astype(np.float32)
    if samples is None:
        raise FixError("some_rows: expected the number of all rows with them, as samples")
    if rows.ndim != 2 or not 2 <= len(rows) <= min(SOME, samples) or rows.shape[1:] != mean.shape:
        max_rows = min(SOME, samples)
        raise FixError(
            f"some_rows: expected shape (k, d) with k from 2 to {max_rows} and the mean's d, got {rows.shape}"
        )
    return Moments(mean, covariance, samples, rows)


class SentReference(NamedTuple):
    """Real data as it is sent, with its digest (`tensors.digest`): `features` to be kept, or `Moments.arrays`."""

    arrays: Arrays
    digest: str


def as_sent(reference: Any, keep_rows: bool, samples: int | None = None) -> SentReference:
    """The sent form of a reference: its features where rows are kept, else its moments with some of its rows.

    samples: how many rows moments come from. Raises FixError.
    """
    if keep_rows:
        rows = rows_of(reference)
        check_samples(len(rows), samples)
        arrays = {"features": rows}
    else:
        arrays = moments_of(reference).with_samples(samples).arrays
    return SentReference(arrays, tensors.digest(arrays))


def names_file(reference: object) -> bool:
    """True if `reference` is the path of a file rather than the name of an uploaded reference."""
    return isinstance(reference, Path) or (isinstance(reference, str) and reference.endswith(SUFFIXES))


def moments_of(reference: Any) -> Moments:
    """The moments given by features (n, d), by (mean, covariance) or (mean, covariance, samples), or by a file.

    Arrays may be torch tensors on any device. A file holds `mu` and `sigma`, as pytorch-fid writes them, or `mean` and
    `covariance`, each perhaps with `samples`; or one array of features. The covariance of features is the unbiased one.
    Raises FixError for anything else.
    """
    if names_file(reference):
        given = given_in(Path(reference))
        try:
            return given if isinstance(given, Moments) else moments_of(given)
        except FixError as error:
            raise FixError(f"{reference}: {error}") from None
    if is_tuple(reference):
        return moments_of_tuple(reference)
    rows = _float64("features", reference)
    if rows.ndim != 2 or len(rows) < 2:
        raise FixError(f"features: expected shape (n, d) with n at least 2, got {rows.shape}")
    return Moments(rows.mean(axis=0), np.atleast_2d(np.cov(rows, rowvar=False)), len(rows), some_of(rows))


def moments_of_tuple(reference: tuple[Any, ...]) -> Moments:
    """The moments given as a `Moments`, or in part. Raises FixError for another tuple."""
    if not 2 <= len(reference) <= len(Moments._fields):
        expected = "expected (mean, covariance) or (mean, covariance, samples)"
        raise FixError(f"reference: {expected}, got a tuple of {len(reference)}")
    given = zip(Moments._fields, reference, strict=False)
    moments = moments_from({name: each for name, each in given if each is not None})
    if moments is None:
        raise FixError("reference: expected both mean and covariance, got None")
    return moments


def rows_of(reference: Any) -> NDArray[np.floating]:
    """The features (n, d) given by an array, or by a file of one: float16 and float32 are kept, others become float64.

    Raises FixError for anything else, such as moments.
    """
    if isinstance(reference, tuple):
        raise FixError("features: expected real features (n, d), got moments: these have no rows to keep")
    if names_file(reference):
        given = given_in(Path(reference))
        if isinstance(given, Moments):
            raise FixError(f"{reference}: expected one array of features, found mean and covariance")
        reference = given
    rows = tensors.as_floats("features", reference)
    if rows.ndim != 2 or len(rows) < 2:
        raise FixError(f"features: expected shape (n, d) with n at least 2, got {rows.shape}")
    return rows


def given_in(file: Path) -> Moments | NDArray[Any]:
    """The contents of a file of real data: moments, in arrays as of `moments_from`, or one array of features.

    Raises FixError for a file that cannot be read, or has other arrays.
    """
    arrays = read_arrays(file)
    try:
        moments = moments_from(arrays)
    except ValueError as error:
        raise FixError(f"{file}: {error}") from None
    if moments is not None:
        return moments
    if len(arrays) != 1:
        expected = "one array of features, or mean and covariance, or mu and sigma"
        raise FixError(f"{file}: expected {expected}; found {', '.join(arrays)}")
    (rows,) = arrays.values()
    return rows


def check_samples(rows: int, samples: int | None) -> None:
    """Raise FixError if the number of rows is given and is not the one that is known."""
    if samples not in (None, rows):
        raise FixError(f"samples: the real data has {rows} rows, not {samples}")


def _count(samples: Any) -> int:
    """A number of rows. Raises FixError unless it is a whole number from 2 to 2⁵³."""
    numbers = tensors.as_array("samples", samples)
    if numbers.size != 1:
        raise FixError(f"samples: expected a number of rows, got an array of shape {numbers.shape}")
    if not 2 <= (number := float(numbers.reshape(()))) <= 2**53 or number % 1:
        raise FixError(f"samples: expected a whole number of rows, at least 2, got {number:g}")
    return int(number)


def _float64(name: str, values: ArrayLike) -> NDArray[np.float64]:
    return tensors.as_array(name, values).astype(np.float64, order="C")
