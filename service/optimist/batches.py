"""What a batch must be before it is let in. Free of torch: the API and `Evaluation` refuse the same things."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

LARGEST = 1e30
"""Largest absolute feature value taken: its fourth power, summed over any dimension, still fits a float64."""
TENSORS = {"fid": ("features",), "is": ("probabilities",), "rke": ("features",), "vendi": ("features",)}
"""The tensors that a batch of each metric holds, in the order that its statistic takes them."""
SIMPLEX_TOLERANCE = 1e-3
"""How far a row of probabilities may be from summing to 1, as float16 ones are; the statistic renormalises it."""


class BatchError(ValueError):
    """The batch is not what the experiment expects; the message says what was expected and what was found."""


def check_batch(arrays: Mapping[str, NDArray[np.floating]], expected: Sequence[str], dimension: int) -> None:
    """Raise `BatchError` unless `arrays` are just those `expected` by name, as many rows each, and sound.

    `dimension` is the width of the first of them.
    """
    if set(arrays) != set(expected):
        found = ", ".join(sorted(arrays)) or "none"
        raise BatchError(f"expected the tensor{'s' * (len(expected) > 1)} {', '.join(expected)}; found {found}")
    main = expected[0]
    check_rows(main, arrays[main], dimension)
    if main == "probabilities":
        check_probabilities(arrays[main])


def check_rows(name: str, rows: NDArray[np.floating], dimension: int) -> None:
    """Raise `BatchError` unless `rows` is (n ≥ 1, `dimension`), finite and of sane size."""
    if rows.ndim != 2 or rows.shape[1] != dimension:
        raise BatchError(f"{name}: expected shape (n, {dimension}), got {rows.shape}")
    if len(rows) == 0:
        raise BatchError(f"{name}: expected at least one row, got an empty batch")
    with np.errstate(invalid="ignore"):
        sound = np.abs(rows) <= LARGEST  # false for NaN, too
    if not sound.all():
        row, column = np.argwhere(~sound)[0]
        raise BatchError(
            f"{name}: expected finite numbers of at most {LARGEST:g} in size, "
            f"got {rows[row, column]} in row {row}, column {column}"
        )


def moments(name: str, features: NDArray[np.floating]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean (d,) and 1/(n − 1) covariance (d, d), float64, of real `features` (n ≥ 2, d ≥ 1).

    Raises `BatchError`, beginning with `name`, for features of another shape, or that `check_rows` refuses.
    """
    if features.ndim != 2 or len(features) < 2 or features.shape[1] < 1:
        raise BatchError(f"{name}: expected shape (n, d) with n at least 2, got {features.shape}")
    check_rows(name, features, features.shape[1])
    rows = features.astype(np.float64)
    return rows.mean(axis=0), np.atleast_2d(np.cov(rows, rowvar=False))


def check_directions(rows: NDArray[np.floating]) -> None:
    """Raise `BatchError` for a row of zeros, which the cosine kernel cannot take."""
    zero = ~rows.any(axis=1)
    if zero.any():
        raise BatchError(f"features: the cosine kernel needs rows that are not all zero; row {int(np.argmax(zero))} is")


def check_probabilities(rows: NDArray[np.floating]) -> None:
    """Raise `BatchError` unless every row is on the simplex to `SIMPLEX_TOLERANCE`."""
    sums = rows.sum(axis=1, dtype=np.float64)
    wrong = (rows < 0).any(axis=1) | (np.abs(sums - 1.0) > SIMPLEX_TOLERANCE)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise BatchError(
            f"probabilities: expected rows of numbers ≥ 0 that sum to 1 within {SIMPLEX_TOLERANCE:g}; row {row} has "
            f"least {rows[row].min():g} and sum {sums[row]:g}. Logits must go through a softmax first"
        )
