"""Real data: checks of its mean and covariance, what is known of it, and the base of what a metric makes of it.

Large matrices are checked in blocks and in place, without a second matrix.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from optimist.anomalies.batches import LARGEST, check_rows
from optimist.anomalies.copies import Hashes, hashes_of
from optimist.anomalies.plausibility import reference_scale
from optimist.arrays import Floats
from optimist_client.errors import FixError
from optimist_client.references import Moments, moments_from, some_of

BLOCK = 256
"""Rows of a matrix that are processed at a time."""
ASYMMETRY = 1e-6
"""Accepted asymmetry of a covariance relative to its largest entry: the rounding of float32."""
NEGATIVE = 1e-5
"""Accepted negative size of an eigenvalue of a covariance relative to its largest entry, for the same reason."""


def moments_of_features(name: str, features: NDArray[np.floating]) -> tuple[Floats, Floats]:
    """Mean (d,) and 1/(n − 1) covariance (d, d), float64, of real `features` (n ≥ 2, d ≥ 1).

    Raises `FixError`, beginning with `name`, for features of another shape, or that `check_rows` refuses.
    """
    if features.ndim != 2 or len(features) < 2 or features.shape[1] < 1:
        raise FixError(f"{name}: expected shape (n, d) with n at least 2, got {features.shape}")
    check_rows(name, features, features.shape[1])
    rows = features.astype(np.float64)
    return rows.mean(axis=0), np.atleast_2d(np.cov(rows, rowvar=False))


class RunningMoments:
    """Mean and covariance of rows that come in parts, each merged with the earlier parts (Chan, Golub, LeVeque
    1983)."""

    def __init__(self, dimension: int) -> None:
        self.count = 0
        self.mean: Floats = np.zeros(dimension)
        """(d,)"""
        self._scatter: Floats = np.zeros((dimension, dimension))

    def add(self, rows: NDArray[np.floating]) -> None:
        """Add the next rows (m ≥ 1, d)."""
        more, before = len(rows), self.count
        rows = rows.astype(np.float64)
        mean = rows.mean(axis=0)
        rows -= mean
        self._scatter += rows.T @ rows
        apart = mean - self.mean
        self.count += more
        self._scatter += np.outer(apart * (before * more / self.count), apart)
        self.mean = self.mean + apart * (more / self.count)

    @property
    def covariance(self) -> Floats:
        """The 1/(n − 1) covariance (d, d) of n ≥ 2 rows."""
        return self._scatter / (self.count - 1)


def check_shapes(mean: NDArray[Any], covariance: NDArray[Any]) -> None:
    """Raise FixError unless these have the shapes (d,) and (d, d), d ≥ 1."""
    if mean.ndim != 1 or len(mean) < 1:
        raise FixError(f"mean: expected shape (d,) with d at least 1, got {mean.shape}")
    square = (len(mean), len(mean))
    if covariance.shape != square:
        raise FixError(f"covariance: expected shape {square} to go with the mean, got {covariance.shape}")


def check_moments(mean: Floats, covariance: Floats) -> float:
    """The largest size of an entry of the covariance, which is made symmetric in place.

    Raises FixError unless the shapes are (d,) and (d, d), all entries finite and no larger than features of
    `batches.LARGEST` can cause, and the covariance symmetric to `ASYMMETRY`. `check_definite`, or
    `check_lowest` if the eigenvalues are known, checks that it is positive semi-definite.
    """
    check_shapes(mean, covariance)
    low, high = float(covariance.min()), float(covariance.max())
    # Written so that NaN fails it too.
    if not (np.abs(mean).max() <= LARGEST and -(LARGEST**2) <= low <= high <= LARGEST**2):
        raise FixError(
            f"expected finite moments, the mean at most {LARGEST:g} in size and the covariance at most "
            f"{LARGEST**2:g}; found NaN, infinity or more"
        )
    largest = max(-low, high)
    for rows, columns in _tiles(covariance):
        if not np.allclose(rows, columns, rtol=0.0, atol=ASYMMETRY * largest):
            raise FixError(f"covariance: expected a symmetric matrix, to {ASYMMETRY:g} of its largest entry")
        rows += columns
        rows /= 2.0
        columns[...] = rows
    return largest


def check_definite(covariance: Floats, largest: float) -> None:
    """Raise FixError if a symmetric matrix with entries up to `largest` has an eigenvalue below −NEGATIVE·largest."""
    if largest > 0.0 and not _is_definite(covariance / largest, NEGATIVE):
        raise _not_definite(largest)


def check_lowest(eigenvalue: float, largest: float) -> None:
    """Raise FixError as `check_definite` does, for a matrix whose lowest eigenvalue is known."""
    if eigenvalue < -NEGATIVE * largest:
        raise _not_definite(largest)


def _not_definite(largest: float) -> FixError:
    expected = "a positive semi-definite matrix with no negative eigenvalue"
    return FixError(f"covariance: expected {expected}, found one below {-NEGATIVE * largest:g}")


def _tiles(matrix: Floats) -> Iterator[tuple[Floats, Floats]]:
    """Blocks on and above the diagonal, and each one's transpose across it."""
    for start in range(0, len(matrix), BLOCK):
        for other in range(start, len(matrix), BLOCK):
            rows, columns = slice(start, start + BLOCK), slice(other, other + BLOCK)
            yield matrix[rows, columns], matrix[columns, rows].T


def _is_definite(matrix: Floats, shift: float) -> bool:
    """True if every eigenvalue is above −shift: if matrix + shift·I has a Cholesky factor. Overwrites `matrix`.

    This takes a tenth of the time of the eigenvalues. numpy's own function would need three more such matrices.
    """
    matrix[np.diag_indices_from(matrix)] += shift
    for start in range(0, len(matrix), BLOCK):
        end = start + BLOCK
        try:
            factor = np.linalg.cholesky(matrix[start:end, start:end])
        except np.linalg.LinAlgError:
            return False
        panel = matrix[end:, start:end]
        panel[...] = np.linalg.solve(factor, panel.T).T
        for other in range(end, len(matrix), BLOCK):
            # The lower half only; what this block contributes to the columns from `other` on.
            matrix[other:, other : other + BLOCK] -= panel[other - end :] @ panel[other - end : other - end + BLOCK].T
    return True


@dataclass(frozen=True, eq=False)
class RealData:
    """Real data as it is stored: the moments of all its features, float64, and the rows where they were kept.

    A metric that needs rows refuses data without them, see `Implementation.reference`. `samples` and `some_rows` follow
    from the rows where these are given.
    """

    mean: NDArray[Any]
    """(d,)"""
    covariance: NDArray[Any]
    """(d, d), the unbiased one where it was computed from rows."""
    rows: NDArray[Any] | None = None
    """(m, d)"""
    samples: int | None = None
    """m, the number of real samples behind the moments; None if it is not known."""
    some_rows: NDArray[Any] | None = None
    """A random choice of the rows (k ≤ 256, d), float32 (`references.some_of`); None where only moments are known."""
    hashes: Hashes | None = None
    """Hashes of the rows (m,), by which copies are found; None if unknown. Not stored."""

    def __post_init__(self) -> None:
        if self.rows is not None:
            object.__setattr__(self, "samples", len(self.rows))
            object.__setattr__(self, "some_rows", some_of(self.rows))

    @classmethod
    def of_rows(cls, name: str, rows: NDArray[np.floating]) -> Self:
        """Real features (m ≥ 2, d ≥ 1) with their moments. Raises `FixError`, beginning with `name`, for invalid
        features."""
        mean, covariance = moments_of_features(name, rows)
        kept = np.asarray(rows, dtype=np.float64)
        return cls(mean, covariance, kept, hashes=hashes_of(kept))

    @classmethod
    def of_moments(cls, moments: Moments) -> Self:
        """Moments with facts about their rows. Raises FixError for rows that no reference may have.

        The numbers of the moments are not checked.
        """
        if moments.some_rows is not None:
            check_rows("some_rows", moments.some_rows, len(moments.mean))
        mean, covariance, samples, some_rows = moments
        return cls(mean, covariance, samples=samples, some_rows=some_rows)

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """The data in `arrays`. Raises FixError for invalid arrays."""
        rest = dict(arrays)
        rows = rest.pop("features", None)
        moments = moments_from(rest)
        if moments is None:
            raise FixError(f"expected mean and covariance, found {', '.join(arrays)}")
        if rows is None:
            return cls.of_moments(moments)
        return cls(moments.mean, moments.covariance, rows.astype(np.float64))

    @property
    def arrays(self) -> dict[str, NDArray[Any]]:
        """The stored data by name: moments, and `features` where rows are held, or facts about the rows."""
        if self.rows is None:
            return self.moments.arrays
        return {"mean": self.mean, "covariance": self.covariance, "features": self.rows}

    @property
    def moments(self) -> Moments:
        """The data with some of its rows only, which take little memory."""
        return Moments(self.mean, self.covariance, self.samples, self.some_rows)

    def without_rows(self) -> Self:
        """This real data without its rows."""
        return replace(self, rows=None)

    @property
    def dimension(self) -> int:
        return len(self.mean)

    @property
    def scale(self) -> float:
        """The root mean square of the features' entries, as `plausibility.reference_scale` has it.

        Raises FixError for moments of which the shapes do not go together.
        """
        check_shapes(self.mean, self.covariance)
        return reference_scale(self.mean, self.covariance)

    def rows_for(self, metric: str) -> NDArray[Any]:
        """The rows (m ≥ 2, d). Raises FixError, naming the metric that needs them, if they were not kept."""
        if self.rows is None:
            raise FixError(
                f"reference: metric {metric!r} compares samples with the rows of real features (n, d), "
                "and only their mean and covariance are known"
            )
        if len(self.rows) < 2:
            raise FixError(f"reference: expected at least 2 rows of real features, got {len(self.rows)}")
        return self.rows


class Reference:
    """Base of real data converted for a metric: an eigenbasis of moments, a mean map, rows, radii."""

    dimension: int
    """The columns of the features that it is compared with."""
    hashes: Hashes | None = None
    """Hashes of the real rows (`RealData.hashes`)."""

    @property
    def bytes(self) -> int:
        """Bytes of its tensors, including tensors computed on demand so far."""
        # Two attributes may be one tensor.
        parts = {id(part): part for part in list(vars(self).values())}.values()
        return sum(getattr(part, "nbytes", getattr(part, "bytes", 0)) for part in parts)
