"""Checks of the size of a batch's numbers. Free of torch: the API and `Evaluation` share it.

The *scale* of features is the root mean square of their entries. It is known for a reference, and for a generator with
`USUAL_ROWS` rows or more. The *usual size* is the lower median of the known scales above 0: of two generators
that differ the larger is anomalous. Rows of absurd size are refused. Less absurd sizes, such as pixels from 0 to 255
among pixels from 0 to 1, are found by the levels of batches (`anomalies`).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from statistics import median
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from optimist_client.config import MAX_MAGNITUDE
from optimist_client.errors import FixError
from optimist_client.metrics import Metric

USUAL_ROWS = 20
"""Number of rows from which on a generator's scale counts as known; also in store/lua/checking.lua."""
LARGE = 1000.0
"""Batches with entries above this multiple of the usual size do not change it, as otherwise sizes could grow from batch
to batch; also in store/lua/checking.lua."""


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
    """Sizes of the tensors (n, d) of these names in a checked batch, with levels for `levelled` ones."""
    return [_magnitude(name, arrays[name], has_level=name in levelled) for name in names]


def sized(metrics: Iterable[Metric]) -> list[str]:
    """The arrays of a batch whose sizes are checked, in the order of the metrics: all but probabilities."""
    all_metrics = list(metrics)
    probabilities = {metric.array_names[own] for metric in all_metrics for own in metric.simplex}
    names = dict.fromkeys(name for metric in all_metrics for name in metric.array_names.values())
    return [name for name in names if name not in probabilities]


def levelled(metrics: Iterable[Metric], widths: Mapping[str, int]) -> list[str]:
    """The arrays among the `sized` ones that have levels, in their order; `widths` are their columns.

    Arrays of fewer than 8 columns have none, as costs or rewards may jump, nor have arrays of which only directions
    count.
    """
    all_metrics = list(metrics)
    lengths_count = {name for m in all_metrics for own, name in m.array_names.items() if own not in m.directed}
    return [name for name in sized(all_metrics) if name in lengths_count and widths[name] >= 8]


def _magnitude(name: str, rows: NDArray[np.floating], *, has_level: bool) -> Magnitude:
    # Some entries at a time, which limits the memory.
    step = max(1, 65536 // max(1, rows.shape[1]))
    largest, row, squares = -1.0, 0, 0.0
    norms: list[float] = []
    for start in range(0, len(rows), step):
        block = rows[start : start + step].astype(np.float64)
        part = block.reshape(-1)
        squares += float(np.einsum("i,i", part, part))  # unlike BLAS it starts no threads
        if has_level:
            norms += np.sqrt(np.einsum("ij,ij->i", block, block)).tolist()
        index = int(np.abs(part, out=part).argmax())
        if part[index] > largest:
            largest, row = float(part[index]), start + index // rows.shape[1]
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
    positive = sorted(scale for scale in scales if scale > 0)
    return positive[(len(positive) - 1) // 2] if positive else None


class Plausibility:
    """Usual sizes of the generators of one evaluation in memory, as the service keeps them in its store.

    references: scale of the real features of arrays with a reference. limit: times the usual size above which a batch
    is refused.
    """

    def __init__(self, references: Mapping[str, float] | None = None, limit: float = MAX_MAGNITUDE) -> None:
        if not limit > 1:
            raise FixError(f"max_magnitude must be greater than 1, not {limit}")
        self._references = dict(references or {})
        self._limit = limit
        self._rows: dict[str, int] = {}
        self._squares: dict[str, dict[str, float]] = {}

    def check(self, magnitudes: Sequence[Magnitude]) -> bool:
        """True unless a batch has too large values to show the usual size. Raises `FixError` for absurd values."""
        is_usual = True
        for size in magnitudes:
            usual = usual_scale(self._scales(size.name))
            if usual is None:
                continue
            if size.largest > self._limit * usual:
                raise FixError(
                    f"{size.name}: row {size.row} holds a value of size {size.largest:.3g}, {size.largest / usual:.3g} "
                    f"times the usual size {usual:.3g}; expected at most {self._limit:g} times. Where such values are "
                    "right, set max_magnitude higher"
                )
            is_usual = is_usual and size.largest <= LARGE * usual
        return is_usual

    def add(self, generator: str, magnitudes: Sequence[Magnitude], rows: int) -> None:
        """Count an accepted batch that shows the usual size."""
        total = self._rows[generator] = self._rows.get(generator, 0) + rows
        squares = self._squares.setdefault(generator, {})
        for tensor in magnitudes:
            before = squares.get(tensor.name, 0.0)
            squares[tensor.name] = before + (tensor.mean_square - before) * rows / total

    def state(self) -> dict[str, Any]:
        """The counts so far, as values for JSON."""
        return {"rows": dict(self._rows), "squares": {name: dict(squares) for name, squares in self._squares.items()}}

    def restore(self, state: Mapping[str, Any]) -> None:
        """The inverse of `state`."""
        self._rows, self._squares = dict(state["rows"]), {name: dict(own) for name, own in state["squares"].items()}

    def _scales(self, name: str) -> list[float]:
        scales = [
            math.sqrt(squares.get(name, 0.0))
            for generator, squares in self._squares.items()
            if self._rows[generator] >= USUAL_ROWS
        ]
        return scales if name not in self._references else [*scales, self._references[name]]
