"""What is kept of a generator's samples by their index: the first rows, and which indices were told at all."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from optimist.metrics.vendi.listed import UNKNOWN
from optimist.numerics.pairing import LARGEST_INDEX, most_common
from optimist_client.errors import FixError

Indices = tuple[int, ...]
"""The indices of a batch's rows: the first and the length of each run of them, one after the other, ascending. The rows
behind them have none."""
Indexed = tuple[Tensor, dict[str, Tensor]]
"""Indices (m,), ascending, and rows (m, …) of these by array."""


class CommonRows:
    """The rows of the indices 0 … `most` − 1 as they were told, and the indices told as intervals.

    The state depends on the rows that have an index, in their order, and not on how they were split into batches. The
    first telling of an index wins. Intervals are merged, so that picks in order make one.
    """

    def __init__(self, widths: Mapping[str, int], is_listed: bool = False, most: int | None = None) -> None:
        """widths: the columns of each array by name. is_listed: whether the prompts of the rows are a fixed list.

        most: None: as many as the service keeps.
        """
        self.most = most_common(sum(widths.values())) if most is None else most
        self._rows = {name: torch.zeros(0, width, dtype=torch.float64) for name, width in widths.items()}
        self._listed = torch.zeros(0, dtype=torch.int64) if is_listed else None
        self._starts: list[int] = []
        self._stops: list[int] = []

    @property
    def told(self) -> tuple[int, ...]:
        """The start and the end of each interval of indices told, ascending."""
        return tuple(end for interval in zip(self._starts, self._stops, strict=True) for end in interval)

    @staticmethod
    def check(indices: Indices | None, rows: int) -> None:
        """Raise FixError unless these can be the indices of a batch of `rows` rows."""
        if indices is None:
            return
        end, is_right = 0, sum(indices[1::2]) <= rows
        for first, count in runs_of(indices):
            is_right = is_right and first >= end and count >= 0
            end = first + count
        if not (is_right and end <= LARGEST_INDEX):
            raise FixError(
                f"expected ascending indices of at most {rows} rows from 0 to {LARGEST_INDEX - 1}, got {indices}"
            )

    def add(self, batch: Mapping[str, Tensor], indices: Indices | None, listed: Tensor | None = None) -> None:
        """Add a batch, tensors (n, …) by name, whose indices have passed `check`.

        listed: the index (n,) of each row's prompt in the list; None where they are not known.
        """
        row = 0
        for first, count in runs_of(indices or ()):
            self._add(batch, first, count, row, listed)
            row += count

    def _add(self, batch: Mapping[str, Tensor], first: int, count: int, row: int, listed: Tensor | None) -> None:
        """Add `count` rows of a batch, from `row` on, which have the indices from `first` on."""
        if count == 0:
            return
        end = first + count
        held = self._held() if first < self.most else []
        added = sorted(set(range(first, min(end, self.most))).difference(held))
        if added:
            place = torch.tensor(added) - first + row
            # Picks in order add at the end: most batches need no sorting, which takes most of the time.
            is_sorted = not held or held[-1] < added[0]
            order = slice(None) if is_sorted else torch.tensor([*held, *added]).argsort()
            for name, rows in self._rows.items():
                self._rows[name] = torch.cat([rows, batch[name][place].to("cpu", torch.float64)])[order]
            if self._listed is not None:
                prompts = torch.full_like(place, UNKNOWN) if listed is None else listed[place].to(torch.int64)
                self._listed = torch.cat([self._listed, prompts])[order]
        self._merge(first, end)

    def rows(self) -> Indexed:
        """The indices told (m,) below `most`, ascending, and copies of their rows (m, …) by array, float64, on the CPU.

        With a fixed list, the rows of unknown prompts are left out, and "listed" holds the index of each one's prompt.
        """
        indices = torch.tensor(self._held(), dtype=torch.int64)
        if self._listed is None:
            return indices, {name: rows.clone() for name, rows in self._rows.items()}
        known = self._listed != UNKNOWN
        return indices[known], {
            **{name: rows[known] for name, rows in self._rows.items()},
            "listed": self._listed[known],
        }

    def state(self) -> dict[str, Tensor]:
        """The whole state by name: `told` (k, 2), int64, start and end of each interval; `rows_<array>`; `listed`."""
        found = {"told": torch.tensor([self._starts, self._stops], dtype=torch.int64).T.contiguous()}
        found |= {f"rows_{name}": rows for name, rows in self._rows.items()}
        return found if self._listed is None else {**found, "listed": self._listed}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Take over the `state` of rows of the same widths, bit for bit. Raises KeyError on missing tensors."""
        starts, stops = tensors["told"].T.tolist()
        rows = {name: tensors[f"rows_{name}"].clone() for name in self._rows}
        listed = None if self._listed is None else tensors["listed"].clone()
        self._starts, self._stops, self._rows, self._listed = starts, stops, rows, listed

    def _held(self) -> list[int]:
        """The indices of the rows held, ascending."""
        intervals = zip(self._starts, self._stops, strict=True)
        return [index for start, stop in intervals if start < self.most for index in range(start, min(stop, self.most))]

    def _merge(self, start: int, stop: int) -> None:
        """Mark the indices from `start` to below `stop` as told."""
        low, high = bisect_left(self._stops, start), bisect_right(self._starts, stop)
        if low < high:
            start, stop = min(start, self._starts[low]), max(stop, self._stops[high - 1])
        self._starts[low:high], self._stops[low:high] = [start], [stop]


def runs_of(runs: Sequence[int]) -> list[tuple[int, int]]:
    """The first and the length of each run. Raises FixError where one of them has no length."""
    return list(zip(runs[::2], runs[1::2], strict=True))


def shared_rows(tracks: Sequence[Indexed | None]) -> list[dict[str, Tensor]]:
    """The rows of the indices that all generators have in common, by array; none where one keeps no rows by index."""
    indexed = [track for track in tracks if track is not None]
    if not indexed or len(indexed) < len(tracks):
        return []
    shared = indexed[0][0]
    for indices, _ in indexed[1:]:
        shared = shared[torch.isin(shared, indices)]
    if not len(shared):
        return []
    places = [torch.isin(indices, shared) for indices, _ in indexed]
    return [
        {name: part[place] for name, part in rows.items()} for place, (_, rows) in zip(places, indexed, strict=True)
    ]
