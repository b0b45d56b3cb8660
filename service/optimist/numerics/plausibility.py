"""Checks whether the size of a batch's numbers is plausible. Free of torch: the API and `Evaluation` share it.

The *scale* of features is the root mean square of their entries. It is known for a reference, and for a generator with
`USUAL_ROWS` rows or more. The *usual size* is the lower median of the known scales above 0, so that of two generators
that differ the larger one is anomalous. Rows of absurd size are refused. What is less absurd, such as pixels from 0 to
255 among those from 0 to 1, is found by the levels of batches (`anomalies`).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from statistics import median
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from optimist.numerics.anomalies import NARROW
from optimist_client.config import MAX_MAGNITUDE
from optimist_client.errors import FixError
from optimist_client.metrics import Metric

USUAL_ROWS = 20
"""Number of rows from which on a generator's scale counts as known; also in store/lua/checking.lua."""
LARGE = 1000.0
"""Batches with entries above this multiple of the usual size do not change it, as otherwise each could be larger than
the one before; also in store/lua/checking.lua."""
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
    level: float | None = None
    """The level of the batch, see `anomalies`; None for a tensor without levels, and where all rows are zeros."""
    width: int = 0
    """The number of columns."""


def magnitudes(
    arrays: Mapping[str, NDArray[Any]], names: Iterable[str], levelled: Collection[str] = ()
) -> list[Magnitude]:
    """The sizes of the tensors (n, d) of these names in a checked batch, those `levelled` with their levels."""
    return [_magnitude(name, arrays[name], has_level=name in levelled) for name in names]


def sized(metrics: Iterable[Metric]) -> list[str]:
    """The arrays of a batch whose sizes are checked, in the order of the metrics: all but probabilities."""
    known = list(metrics)
    probabilities = {metric.array_names[own] for metric in known for own in metric.simplex}
    names = dict.fromkeys(name for metric in known for name in metric.array_names.values())
    return [name for name in names if name not in probabilities]


def levelled(metrics: Iterable[Metric], widths: Mapping[str, int]) -> list[str]:
    """The arrays among the `sized` ones that have levels, in their order; `widths` are their columns.

    Narrow arrays have none, as costs or rewards may jump, nor have those of which only directions count.
    """
    known = list(metrics)
    lengths_count = {name for metric in known for own, name in metric.array_names.items() if own not in metric.directed}
    return [name for name in sized(known) if name in lengths_count and widths[name] >= NARROW]


def _magnitude(name: str, rows: NDArray[np.floating], *, has_level: bool) -> Magnitude:
    step = max(1, _BLOCK // max(1, rows.shape[1]))
    largest, row, squares = -1.0, 0, 0.0
    norms: list[float] = []
    for start in range(0, len(rows), step):
        block = rows[start : start + step].astype(np.float64)
        part = block.reshape(-1)
        squares += float(np.einsum("i,i", part, part))  # unlike BLAS it starts no threads
        if has_level:
            norms += np.sqrt(np.einsum("ij,ij->i", block, block)).tolist()
        place = int(np.abs(part, out=part).argmax())
        if part[place] > largest:
            largest, row = float(part[place]), start + place // rows.shape[1]
    return Magnitude(name, largest, row, squares / rows.size, level_of(norms), rows.shape[1])


def level_of(norms: Iterable[float]) -> float | None:
    """The level of a batch with rows of these norms, to four decimals; rows of zeros are left out. None if all are."""
    positive = [norm for norm in norms if norm > 0]
    return round(math.log(median(positive)), 4) if positive else None


def reference_scale(mean: NDArray[np.floating], covariance: NDArray[np.floating]) -> float:
    """The root mean square of the entries of real features with these moments (d,) and (d, d)."""
    return float(np.sqrt(np.mean(np.square(mean) + np.diagonal(covariance).clip(min=0.0))))


def reference_level(scale: float, width: int) -> float:
    """The level of real features of so many columns with this scale, above 0."""
    return math.log(scale) + 0.5 * math.log(width)


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
            raise FixError(f"max_magnitude must be greater than 1, not {limit}")
        self._references = dict(references or {})
        self._limit = limit
        self._rows: dict[str, int] = {}
        self._squares: dict[str, dict[str, float]] = {}

    def check(self, found: Sequence[Magnitude]) -> bool:
        """True unless a batch has values so large that it does not tell what is usual. Raises `FixError` for absurd
        ones.
        """
        is_usual = True
        for one in found:
            usual = usual_scale(self._scales(one.name))
            if usual is None:
                continue
            if one.largest > self._limit * usual:
                raise FixError(
                    f"{one.name}: row {one.row} holds a value of size {one.largest:.3g}, {one.largest / usual:.3g} "
                    f"times the usual size {usual:.3g}; expected at most {self._limit:g} times. Where such values are "
                    "right, set max_magnitude higher"
                )
            is_usual = is_usual and one.largest <= LARGE * usual
        return is_usual

    def add(self, generator: str, found: Sequence[Magnitude], rows: int) -> None:
        """Count an accepted batch that tells what is usual."""
        total = self._rows[generator] = self._rows.get(generator, 0) + rows
        squares = self._squares.setdefault(generator, {})
        for one in found:
            before = squares.get(one.name, 0.0)
            squares[one.name] = before + (one.mean_square - before) * rows / total

    def state(self) -> dict[str, Any]:
        """The counts so far, as values for JSON."""
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
