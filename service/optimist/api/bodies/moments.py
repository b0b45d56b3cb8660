"""Moments of real data, checked, in a thread of their own: those of one tenant keep nobody else waiting.

Large matrices are gone through in blocks, in place: what an upload takes is its arrays and two matrices of float64.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optimist.api.bodies.arrays import Arrays
from optimist.api.problems import invalid
from optimist.numerics.batches import LARGEST, BatchError, moments
from optimist.numerics.plausibility import reference_scale
from optimist_client import tensors

BLOCK = 256
"""Rows of a matrix that are gone through at a time."""
TOLERANCE = 1e-5
"""How far below zero an eigenvalue may be, as a part of the covariance's largest entry, for what float32 rounded."""

Matrix = NDArray[np.float64]


class Queue:
    """One thread that does what it is given, one after the other. The process ends without waiting for it."""

    def __init__(self) -> None:
        self._work: SimpleQueue[tuple[Future[Any], Callable[..., Any], tuple[Any, ...]]] = SimpleQueue()
        threading.Thread(target=self._run, name="references", daemon=True).start()

    def submit(self, work: Callable[..., Any], *args: Any) -> Future[Any]:
        """Do this when all before it is done; a future that is cancelled before is left out."""
        future: Future[Any] = Future()
        self._work.put((future, work, args))
        return future

    def _run(self) -> None:
        while True:
            _do(*self._work.get())


def _do(future: Future[Any], work: Callable[..., Any], args: tuple[Any, ...]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        future.set_result(work(*args))
    except Exception as error:
        future.set_exception(error)


def memory_of(arrays: Arrays) -> int:
    """Bytes that `stored` takes beside the arrays, at most: features and two matrices as float64."""
    rows = arrays.get("features")
    if rows is not None:
        width = rows.shape[1] if rows.ndim == 2 else 0
        return 16 * rows.size + 18 * width**2
    return 18 * sum(array.size for array in arrays.values())


def stored(arrays: Arrays, max_dimension: int) -> tuple[int, str, float, bytes]:
    """Dimension, digest, scale and stored form of the moments in these arrays, which it empties.

    Raises `ApiError` 422.
    """
    mean, covariance = _moments(arrays, max_dimension)
    arrays.clear()
    _check(mean, covariance)
    kept: Arrays = {"mean": mean, "covariance": covariance}
    return len(mean), tensors.digest(kept), reference_scale(mean, covariance), tensors.encode(kept)


def _moments(arrays: Arrays, max_dimension: int) -> tuple[Matrix, Matrix]:
    """Mean (d,) and covariance (d, d) of these arrays, which are sound as far as shapes go."""
    names = set(arrays)
    if names == {"features"}:
        rows = arrays["features"]
        if rows.ndim == 2:
            _check_width(rows.shape[1:], max_dimension)
        try:
            return moments("features", rows)
        except BatchError as error:
            raise invalid(str(error)) from None
    if names not in ({"mean", "covariance"}, {"mu", "sigma"}):
        found = ", ".join(sorted(names)) or "nothing"
        raise invalid(f"expected mean and covariance, mu and sigma, or features; found {found}")
    mean, covariance = (arrays[name] for name in sorted(names, key=["mean", "mu", "covariance", "sigma"].index))
    _check_width(mean.shape, max_dimension)
    d = len(mean)
    if covariance.shape != (d, d):
        raise invalid(f"covariance: expected shape ({d}, {d}) to go with the mean, got {covariance.shape}")
    return mean.astype(np.float64), covariance.astype(np.float64, order="C")


def _check_width(shape: tuple[int, ...], most: int) -> None:
    if len(shape) != 1 or not 1 <= shape[0] <= most:
        raise invalid(f"mean: expected shape (d,) with d from 1 to {most}, got {shape}")


def _check(mean: Matrix, covariance: Matrix) -> None:
    """Make the covariance symmetric in place. Raises `ApiError` 422 unless it and the mean can be those of data."""
    low, high = covariance.min(), covariance.max()
    # Written so that NaN fails it too.
    if not (np.abs(mean).max() <= LARGEST and -(LARGEST**2) <= low <= high <= LARGEST**2):
        raise invalid(f"expected finite moments, the mean at most {LARGEST:g} in size; found NaN, infinity or more")
    scale = float(max(-low, high))
    for rows, columns in _tiles(covariance):
        if not np.allclose(rows, columns, rtol=0.0, atol=1e-6 * scale):
            raise invalid("covariance: expected a symmetric matrix")
        rows += columns
        rows /= 2.0
        columns[...] = rows
    if scale > 0 and not _is_definite(covariance / scale, TOLERANCE):
        raise invalid(f"covariance: expected no negative eigenvalue, found one below {-TOLERANCE * scale:g}")


def _tiles(matrix: Matrix) -> Iterator[tuple[Matrix, Matrix]]:
    """Blocks on and above the diagonal, and each one's transpose across it."""
    for start in range(0, len(matrix), BLOCK):
        for other in range(start, len(matrix), BLOCK):
            rows, columns = slice(start, start + BLOCK), slice(other, other + BLOCK)
            yield matrix[rows, columns], matrix[columns, rows].T


def _is_definite(matrix: Matrix, shift: float) -> bool:
    """Whether every eigenvalue is above -shift: whether matrix + shift·I has a Cholesky factor. Overwrites `matrix`.

    That takes a tenth of the time of eigenvalues. numpy's own takes three more matrices of this size.
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
