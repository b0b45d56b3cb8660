"""The rows that statistics keep."""

from __future__ import annotations

from torch import Tensor


class Rows:
    """Rows in log order in a buffer that doubles, so that appending costs O(1) copies a row."""

    def __init__(self, rows: Tensor) -> None:
        self._data = rows
        self._count = len(rows)

    def __len__(self) -> int:
        return self._count

    def view(self) -> Tensor:
        """All rows, not copied."""
        return self._data[: self._count]

    def tail(self, count: int) -> Tensor:
        """A copy of the last `count` rows, or of all where there are fewer."""
        return self._data[max(self._count - count, 0) : self._count].clone()

    def append(self, rows: Tensor) -> None:
        """Add rows at the end."""
        needed = self._count + len(rows)
        if needed > len(self._data):
            grown = self._data.new_empty(max(needed, 2 * len(self._data)), self._data.shape[1])
            grown[: self._count] = self.view()
            self._data = grown
        self._data[self._count : needed] = rows
        self._count = needed
