"""Checks of arguments and of batches before they are accepted: the API and Evaluation share them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optimist_client.errors import FixError
from optimist_client.metrics import Metric
from optimist_client.tensors import BESIDE, unpack_ids


def check_number(name: str, value: Any) -> float:
    """The value as a float, NaN and ±inf included. Raises FixError, beginning with `name`, for anything else.

    The caller checks the range.
    """
    try:
        if not isinstance(value, bool) and isinstance(value, Real):
            return float(value)
    except OverflowError:
        pass  # an int too large for a float
    raise FixError(f"{name}: expected a number, got {value!r}")


def check_whole(name: str, value: Any, minimum: int) -> int:
    """The value as an int. Raises FixError, beginning with `name`, unless it is a whole number ≥ `minimum`."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < minimum:
        raise FixError(f"{name}: expected a whole number, at least {minimum}, got {value!r}")
    return int(value)


def check_text(name: str, value: Any) -> str:
    """The value. Raises FixError, beginning with `name`, unless it is a string."""
    if not isinstance(value, str):
        raise FixError(f"{name}: expected a string, got {value!r}")
    return value


LARGEST = 1e30
"""Largest accepted absolute value of a feature: its fourth power, summed over any dimension, fits a float64."""
SIMPLEX_TOLERANCE = 1e-3
"""Accepted error of a row's sum of probabilities, which float16 causes; the statistic renormalises the row."""


def as_matrices(arrays: Mapping[str, NDArray[Any]], widths: Mapping[str, int]) -> dict[str, NDArray[Any]]:
    """The arrays; single columns by `widths` may be given as (n,) and become (n, 1)."""
    return {
        name: array.reshape(-1, 1) if array.ndim == 1 and widths.get(name) == 1 else array
        for name, array in arrays.items()
    }


def readers_of(metrics: Iterable[Metric]) -> dict[str, list[str]]:
    """The labels of the metrics that read each array of a batch, by its name; {} for a single metric."""
    listed = list(metrics)
    readers: dict[str, list[str]] = {}
    for metric in listed if len(listed) > 1 else ():
        for array in metric.array_names.values():
            readers.setdefault(array, []).append(metric.shown_label)
    return readers


def check_batch(
    arrays: Mapping[str, NDArray[Any]], widths: Mapping[str, int], readers: Mapping[str, Sequence[str]] | None = None
) -> None:
    """Raise `FixError` unless `arrays` are as in `widths`, optionally with ids and records, of equal length, and valid.

    `widths` are the columns of each expected tensor by name; ids and records are as `pack_ids` makes them. `readers`
    as for `check_shapes`. `ExpectedValues` checks the numbers against the metrics.
    """
    check_shapes({name: array.shape for name, array in arrays.items()}, widths, readers)
    for name, width in widths.items():
        check_rows(name, arrays[name], width)
    for name in BESIDE.keys() & arrays.keys():
        _check_texts(name, arrays[name])


@dataclass(frozen=True, slots=True)
class ExpectedValues:
    """Expectations of metrics about the numbers in the arrays of a batch, by array name."""

    probabilities: list[str]
    directions: list[str]
    ranges: list[tuple[str, float, float]]

    @classmethod
    def from_metrics(cls, metrics: Iterable[Metric]) -> ExpectedValues:
        """The joint expectations of these metrics."""
        expected = cls([], [], [])
        for metric in metrics:
            names = metric.array_names
            expected.probabilities.extend(names[own] for own in metric.simplex)
            expected.directions.extend(names[own] for own in metric.directed)
            expected.ranges.extend((names[own], low, high) for own, (low, high) in metric.limits.items())
        return expected

    def check(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Raise `FixError` for numbers in the arrays, which `check_batch` accepts, that one of the metrics refuses."""
        for name in self.probabilities:
            check_probabilities(name, arrays[name])
        for name in self.directions:
            check_directions(name, arrays[name])
        for name, low, high in self.ranges:
            check_range(name, arrays[name], low, high)


def check_shapes(
    shapes: Mapping[str, tuple[int, ...]],
    widths: Mapping[str, int],
    readers: Mapping[str, Sequence[str]] | None = None,
) -> None:
    """Raise `FixError` unless tensors of these shapes, by name, are as in `widths`, optionally with ids and records.

    `readers` are the metrics that read each tensor, for the message about a missing one. `check_batch` includes this
    check, which alone serves a body whose shapes are known before it is unpacked.
    """
    if shapes.keys() - BESIDE.keys() != set(widths):
        listed = ", ".join(sorted(shapes)) or "none"
        missing = [f"{name} is read by {', '.join(readers[name])}" for name in widths if readers and name not in shapes]
        raise FixError(
            f"expected the tensor{'s' * (len(widths) > 1)} {', '.join(widths)}; found {listed}"
            + "".join(f"; {text}" for text in missing)
        )
    for name, width in widths.items():
        _check_shape(name, shapes[name], width)
    rows = next(iter(shapes.values()), ())[:1]
    for shape in shapes.values():
        if shape[:1] != rows:
            counts = {name: shapes[name][0] if shapes[name] else 0 for name in (*widths, *BESIDE) if name in shapes}
            listed = ", ".join(f"{count} of {name}" for name, count in counts.items())
            raise FixError(f"expected as many rows of each tensor, got {listed}")


def _check_shape(name: str, shape: tuple[int, ...], dimension: int) -> None:
    if len(shape) != 2 or shape[1] != dimension:
        raise FixError(f"{name}: expected shape (n, {dimension}), got {shape}")
    if shape[0] == 0:
        raise FixError(f"{name}: expected at least one row, got an empty batch")


def _check_texts(name: str, texts: NDArray[Any]) -> None:
    if texts.ndim != 2 or texts.shape[1] > BESIDE[name]:
        raise FixError(f"{name}: expected one of at most {BESIDE[name]} bytes a row, got shape {texts.shape}")
    at_once = 4096  # as Python strings they may take four times the memory
    for start in range(0, len(texts), at_once):
        some = texts[start : start + at_once]
        unpack_ids(some, name)
        inside = ((some[:, :-1] == 0) & (some[:, 1:] != 0)).any(axis=1)
        if inside.any():
            row = start + int(np.argmax(inside))
            raise FixError(f"{name}: expected text without zero bytes, got one in row {row}")


def check_rows(name: str, rows: NDArray[np.floating], dimension: int) -> None:
    """Raise `FixError` unless `rows` is (n ≥ 1, `dimension`), finite and of sane size."""
    _check_shape(name, rows.shape, dimension)
    # Without an array of absolute values, which would double the memory. As Python floats, because float16 would turn
    # 1e30 into infinity. With a NaN, min and max are NaN, and the comparison is False.
    if not -LARGEST <= float(rows.min()) <= float(rows.max()) <= LARGEST:
        row = next(row for row, numbers in enumerate(rows) if not np.abs(numbers, dtype=np.float64).max() <= LARGEST)
        column = int(np.argmin(np.abs(rows[row], dtype=np.float64) <= LARGEST))
        raise FixError(
            f"{name}: expected finite numbers of at most {LARGEST:g} in size, "
            f"got {rows[row, column]} in row {row}, column {column}"
        )


def check_directions(name: str, rows: NDArray[np.floating]) -> None:
    """Raise `FixError` for a row of zeros, which has no direction and cannot be scaled to norm 1."""
    zero = ~rows.any(axis=1)
    if zero.any():
        raise FixError(f"{name}: the metric needs rows that are not all zero; row {int(np.argmax(zero))} is")


def check_range(name: str, rows: NDArray[np.floating], low: float, high: float) -> None:
    """Raise `FixError` for a number outside of the range."""
    outside = ~((rows >= low) & (rows <= high))
    if outside.any():
        row, column = np.unravel_index(int(np.argmax(outside)), rows.shape)
        raise FixError(f"{name}: expected numbers from {low:g} to {high:g}, got {rows[row, column]:g} in row {row}")


def check_probabilities(name: str, rows: NDArray[np.floating]) -> None:
    """Raise `FixError` unless every row is on the simplex to `SIMPLEX_TOLERANCE`."""
    sums = rows.sum(axis=1, dtype=np.float64)
    wrong = (rows.min(axis=1) < 0) | (np.abs(sums - 1.0) > SIMPLEX_TOLERANCE)
    if wrong.any():
        row = int(np.argmax(wrong))
        is_percent = rows.min() >= 0 and np.allclose(sums, 100.0, rtol=SIMPLEX_TOLERANCE)
        todo = "These are percentages: divide them by 100" if is_percent else "Logits must go through a softmax first"
        raise FixError(
            f"{name}: expected rows of numbers ≥ 0 that sum to 1 within {SIMPLEX_TOLERANCE:g}; row {row} has "
            f"least {rows[row].min():g} and sum {sums[row]:g}. {todo}"
        )
