"""Sources with given samples in arrays."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optimist.estimation.question import Question
from optimist.simulation.sources.base import Draw, Rows


@dataclass(frozen=True, eq=False)
class ArraySource:
    """A generator's samples, drawn without replacement: `rows` (n, …) of each tensor, with equal n.

    `ends` are the numbers of rows of aligned sources that have fewer. A paired draw shuffles only between them, so that
    it gives each source that has a row the same one.
    """

    rows: Rows
    origin: str = "an array"
    ends: tuple[int, ...] = ()

    @property
    def samples(self) -> int:
        """The number of samples."""
        return len(next(iter(self.rows.values())))

    @property
    def widths(self) -> dict[str, int]:
        """The number of columns of each tensor, by name."""
        return {name: rows.shape[1] for name, rows in self.rows.items()}

    def stream(self, draw: Draw) -> ArrayStream:
        """The samples in the order of `draw`, from the start."""
        order = np.arange(self.samples)
        if draw.shuffle:
            rng, ends = draw.rng(), self.ends if draw.paired else ()
            order = np.concatenate([rng.permutation(part) for part in np.split(order, ends)])
        return ArrayStream(self.rows, order)

    def exact(self, question: Question) -> None:
        """None: the true score of given samples has no closed form."""


class ArrayStream:
    """Rows in a given order."""

    def __init__(self, rows: Rows, order: NDArray[np.int64]) -> None:
        self._rows = rows
        self._order = order
        self._taken = 0

    def take(self, count: int) -> Rows | None:
        """The next `count` rows of each tensor; None if fewer are left."""
        chosen = self._order[self._taken : self._taken + count]
        if len(chosen) < count:
            return None
        self._taken += count
        return {name: rows[chosen] for name, rows in self._rows.items()}
