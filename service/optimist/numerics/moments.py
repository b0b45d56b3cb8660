"""Checks of the mean and covariance of real data, shared by API and evaluation. Free of torch.

Large matrices are checked in blocks and in place, without a second matrix.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optimist.numerics.batches import LARGEST, check_rows
from optimist_client.errors import FixError

BLOCK = 256
"""Rows of a matrix that are processed at a time."""
ASYMMETRY = 1e-6
"""Accepted asymmetry of a covariance relative to its largest entry: the rounding of float32."""
NEGATIVE = 1e-5
"""Accepted negative size of an eigenvalue of a covariance relative to its largest entry, for the same reason."""

Matrix = NDArray[np.float64]


def moments_of_features(name: str, features: NDArray[np.floating]) -> tuple[Matrix, Matrix]:
    """Mean (d,) and 1/(n − 1) covariance (d, d), float64, of real `features` (n ≥ 2, d ≥ 1).

    Raises `FixError`, beginning with `name`, for features of another shape, or that `check_rows` refuses.
    """
    if features.ndim != 2 or len(features) < 2 or features.shape[1] < 1:
        raise FixError(f"{name}: expected shape (n, d) with n at least 2, got {features.shape}")
    check_rows(name, features, features.shape[1])
    rows = features.astype(np.float64)
    return rows.mean(axis=0), np.atleast_2d(np.cov(rows, rowvar=False))


class RunningMoments:
    """Mean and covariance of rows that come in parts, each merged with those before it (Chan, Golub, LeVeque 1983)."""

    def __init__(self, dimension: int) -> None:
        self.count = 0
        self.mean: Matrix = np.zeros(dimension)
        """(d,)"""
        self._scatter: Matrix = np.zeros((dimension, dimension))

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
    def covariance(self) -> Matrix:
        """The 1/(n − 1) covariance (d, d) of n ≥ 2 rows."""
        return self._scatter / (self.count - 1)


def check_shapes(mean: NDArray[Any], covariance: NDArray[Any]) -> None:
    """Raise FixError unless these have the shapes (d,) and (d, d), d ≥ 1."""
    if mean.ndim != 1 or len(mean) < 1:
        raise FixError(f"mean: expected shape (d,) with d at least 1, got {mean.shape}")
    square = (len(mean), len(mean))
    if covariance.shape != square:
        raise FixError(f"covariance: expected shape {square} to go with the mean, got {covariance.shape}")


def check_moments(mean: Matrix, covariance: Matrix) -> float:
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


def check_definite(covariance: Matrix, largest: float) -> None:
    """Raise FixError if a symmetric matrix with entries up to `largest` has an eigenvalue below −NEGATIVE·largest."""
    if largest > 0.0 and not _is_definite(covariance / largest, NEGATIVE):
        raise _not_definite(largest)


def check_lowest(eigenvalue: float, largest: float) -> None:
    """The same as `check_definite`, for a matrix whose lowest eigenvalue is known."""
    if eigenvalue < -NEGATIVE * largest:
        raise _not_definite(largest)


def _not_definite(largest: float) -> FixError:
    expected = "a positive semi-definite matrix with no negative eigenvalue"
    return FixError(f"covariance: expected {expected}, found one below {-NEGATIVE * largest:g}")


def _tiles(matrix: Matrix) -> Iterator[tuple[Matrix, Matrix]]:
    """Blocks on and above the diagonal, and each one's transpose across it."""
    for start in range(0, len(matrix), BLOCK):
        for other in range(start, len(matrix), BLOCK):
            rows, columns = slice(start, start + BLOCK), slice(other, other + BLOCK)
            yield matrix[rows, columns], matrix[columns, rows].T


def _is_definite(matrix: Matrix, shift: float) -> bool:
    """Whether every eigenvalue is above -shift: whether matrix + shift·I has a Cholesky factor. Overwrites `matrix`.

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
