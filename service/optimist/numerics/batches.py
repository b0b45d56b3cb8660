"""The checks of a batch before it is accepted. Free of torch: the API and `Evaluation` share them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optimist_client.tensors import IDS, LONGEST_ID, unpack_ids

LARGEST = 1e30
"""Largest accepted absolute value of a feature: its fourth power, summed over any dimension, fits a float64."""
SIMPLEX_TOLERANCE = 1e-3
"""Accepted error of a row's sum of probabilities, which float16 causes; the statistic renormalises the row."""
_ROWS = 4096
"""Number of ids that are checked at a time."""


class BatchError(ValueError):
    """The batch is not what the experiment expects; the message says what was expected and what was found."""


def check_batch(arrays: Mapping[str, NDArray[Any]], widths: Mapping[str, int]) -> None:
    """Raise `BatchError` unless `arrays` are those of `widths`, optionally with ids, of equal length, and valid.

    `widths` are the columns of each expected tensor by name; ids are as `pack_ids` makes them.
    """
    check_shapes({name: array.shape for name, array in arrays.items()}, widths)
    for name, width in widths.items():
        check_rows(name, arrays[name], width)
    if "probabilities" in arrays:
        check_probabilities(arrays["probabilities"])
    if IDS in arrays:
        _check_ids(arrays[IDS])


def check_shapes(shapes: Mapping[str, tuple[int, ...]], widths: Mapping[str, int]) -> None:
    """Raise `BatchError` unless tensors of these shapes, by name, are those of `widths`, optionally with ids.

    `check_batch` includes this check; use it alone for a body whose shapes are known before it is unpacked.
    """
    if set(shapes) - {IDS} != set(widths):
        found = ", ".join(sorted(shapes)) or "none"
        raise BatchError(f"expected the tensor{'s' * (len(widths) > 1)} {', '.join(widths)}; found {found}")
    for name, width in widths.items():
        _check_shape(name, shapes[name], width)
    counts = {name: shape[0] if shape else 0 for name, shape in shapes.items()}
    if len(set(counts.values())) > 1:
        found = ", ".join(f"{count} of {name}" for name, count in counts.items())
        raise BatchError(f"expected as many rows of each tensor, got {found}")


def _check_shape(name: str, shape: tuple[int, ...], dimension: int) -> None:
    if len(shape) != 2 or shape[1] != dimension:
        raise BatchError(f"{name}: expected shape (n, {dimension}), got {shape}")
    if shape[0] == 0:
        raise BatchError(f"{name}: expected at least one row, got an empty batch")


def _check_ids(ids: NDArray[Any]) -> None:
    if ids.ndim != 2 or ids.shape[1] > LONGEST_ID:
        raise BatchError(f"ids: expected one of at most {LONGEST_ID} bytes a row, got shape {ids.shape}")
    # Some rows at a time, because as Python strings they may take four times the memory.
    for start in range(0, len(ids), _ROWS):
        some = ids[start : start + _ROWS]
        try:
            unpack_ids(some)
        except ValueError as error:
            raise BatchError(str(error)) from None
        inside = ((some[:, :-1] == 0) & (some[:, 1:] != 0)).any(axis=1)
        if inside.any():
            row = start + int(np.argmax(inside))
            raise BatchError(f"ids: expected text without zero bytes, got one in row {row}")


def check_rows(name: str, rows: NDArray[np.floating], dimension: int) -> None:
    """Raise `BatchError` unless `rows` is (n ≥ 1, `dimension`), finite and of sane size."""
    _check_shape(name, rows.shape, dimension)
    # Without an array of absolute values, which would double the memory. As Python floats, because float16 would turn
    # 1e30 into infinity. With a NaN, min and max are NaN, and the comparison is False.
    if not -LARGEST <= float(rows.min()) <= float(rows.max()) <= LARGEST:
        row = next(row for row, numbers in enumerate(rows) if not np.abs(numbers, dtype=np.float64).max() <= LARGEST)
        column = int(np.argmin(np.abs(rows[row], dtype=np.float64) <= LARGEST))
        raise BatchError(
            f"{name}: expected finite numbers of at most {LARGEST:g} in size, "
            f"got {rows[row, column]} in row {row}, column {column}"
        )


def check_directions(name: str, rows: NDArray[np.floating]) -> None:
    """Raise `BatchError` for a row of zeros, which has no direction and cannot be scaled to norm 1."""
    zero = ~rows.any(axis=1)
    if zero.any():
        raise BatchError(f"{name}: the metric needs rows that are not all zero; row {int(np.argmax(zero))} is")


def check_probabilities(rows: NDArray[np.floating]) -> None:
    """Raise `BatchError` unless every row is on the simplex to `SIMPLEX_TOLERANCE`."""
    sums = rows.sum(axis=1, dtype=np.float64)
    wrong = (rows.min(axis=1) < 0) | (np.abs(sums - 1.0) > SIMPLEX_TOLERANCE)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise BatchError(
            f"probabilities: expected rows of numbers ≥ 0 that sum to 1 within {SIMPLEX_TOLERANCE:g}; row {row} has "
            f"least {rows[row].min():g} and sum {sums[row]:g}. Logits must go through a softmax first"
        )
