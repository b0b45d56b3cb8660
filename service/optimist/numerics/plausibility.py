"""Checks whether the size of a batch's numbers is plausible. Free of torch: the API and `Evaluation` share it.

The *scale* of features is the root mean square of their entries. It is known for a reference, and for a generator with
`USUAL_ROWS` rows or more. The *usual size* is the lower median of the known scales above 0, so that of two generators
that differ the larger one is suspicious. Rows far above the usual size lead to a warning, absurd ones to a refusal.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from optimist.numerics.batches import BatchError
from optimist_client.config import MAX_MAGNITUDE
from optimist_client.metrics import Metric

USUAL_ROWS = 20
"""Number of rows from which on a generator's scale counts as known; also in store/lua/checking.lua."""
WARNED = 1000.0
"""Multiple of the usual size above which an entry leads to a warning; also in store/lua/checking.lua."""
_BLOCK = 2**16
"""Entries that are read at a time."""


class Magnitude(NamedTuple):
    """The size of one tensor of a batch."""

    name: str
    largest: float
    """Largest absolute value."""
    row: int
    """The row of this value."""
    mean_square: float
    """Mean of the squares of all entries."""


def magnitudes(arrays: Mapping[str, NDArray[Any]], names: Iterable[str]) -> list[Magnitude]:
    """The sizes of those tensors (n, d) of a checked batch."""
    return [_magnitude(name, arrays[name]) for name in names]


def sized(metrics: Iterable[Metric]) -> list[str]:
    """The arrays of a batch whose sizes are checked, in the order of the metrics: all but probabilities."""
    known = list(metrics)
    probabilities = {metric.array_names[own] for metric in known for own in metric.simplex}
    names = dict.fromkeys(name for metric in known for name in metric.array_names.values())
    return [name for name in names if name not in probabilities]


def _magnitude(name: str, rows: NDArray[np.floating]) -> Magnitude:
    step = max(1, _BLOCK // max(1, rows.shape[1]))
    largest, row, squares = -1.0, 0, 0.0
    for start in range(0, len(rows), step):
        part = rows[start : start + step].astype(np.float64).reshape(-1)
        squares += float(np.einsum("i,i", part, part))  # unlike BLAS it starts no threads
        place = int(np.abs(part, out=part).argmax())
        if part[place] > largest:
            largest, row = float(part[place]), start + place // rows.shape[1]
    return Magnitude(name, largest, row, squares / rows.size)


def reference_scale(mean: NDArray[np.floating], covariance: NDArray[np.floating]) -> float:
    """The root mean square of the entries of real features with these moments (d,) and (d, d)."""
    return float(np.sqrt(np.mean(np.square(mean) + np.diagonal(covariance).clip(min=0.0))))


def usual_scale(scales: Iterable[float]) -> float | None:
    """The lower median of the scales above 0, None where there is none."""
    known = sorted(scale for scale in scales if scale > 0)
    return known[(len(known) - 1) // 2] if known else None


class Plausibility:
    """The usual sizes of the generators of one evaluation in memory, as the service keeps them in its store.

    references: scale of the real features of those arrays that have a reference. limit: times the usual size above
    which a batch is refused.
    """

    def __init__(self, references: Mapping[str, float] | None = None, limit: float = MAX_MAGNITUDE) -> None:
        if not limit > 1:
            raise ValueError(f"max_magnitude must be greater than 1, not {limit}")
        self._references = dict(references or {})
        self._limit = limit
        self._rows: dict[str, int] = {}
        self._squares: dict[str, dict[str, float]] = {}

    def check(self, found: Sequence[Magnitude]) -> list[str]:
        """Warnings about large values of a batch. Raises `BatchError` if they are absurd."""
        odd = []
        for one in found:
            usual = usual_scale(self._scales(one.name))
            if usual is None:
                continue
            if one.largest > self._limit * usual:
                raise BatchError(
                    f"{one.name}: row {one.row} holds a value of size {one.largest:.3g}, {one.largest / usual:.3g} "
                    f"times the usual size {usual:.3g}; expected at most {self._limit:g} times. Where such values are "
                    "right, set max_magnitude higher"
                )
            if one.largest > WARNED * usual:
                odd.append(f"{one.name}: {one.largest:.3g} in row {one.row}, usual size {usual:.3g}")
        return odd

    def add(self, generator: str, found: Sequence[Magnitude], rows: int) -> None:
        """Count an accepted batch without warnings."""
        total = self._rows[generator] = self._rows.get(generator, 0) + rows
        squares = self._squares.setdefault(generator, {})
        for one in found:
            before = squares.get(one.name, 0.0)
            squares[one.name] = before + (one.mean_square - before) * rows / total

    def state(self) -> dict[str, Any]:
        """What has been counted, as values for JSON."""
        return {"rows": dict(self._rows), "squares": {name: dict(one) for name, one in self._squares.items()}}

    def restore(self, known: Mapping[str, Any]) -> None:
        """The inverse of `state`."""
        self._rows, self._squares = dict(known["rows"]), {name: dict(one) for name, one in known["squares"].items()}

    def _scales(self, name: str) -> list[float]:
        known = [
            math.sqrt(squares.get(name, 0.0))
            for generator, squares in self._squares.items()
            if self._rows[generator] >= USUAL_ROWS
        ]
        return known if name not in self._references else [*known, self._references[name]]
