"""The levels of a generator's batches: which are kept, and whether one may be anomalous (anomalies/levels.py)."""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from typing import NamedTuple

from optimist.records import Origin
from tests.oracle.oracle import Oracle
from tests.oracle.rows import LEVELS, LevelRow

KEPT = 256
"""Levels that are kept of each array of a generator, as in anomalies.py."""
EXTREMES = 64
"""The lowest, and the highest, levels that always stay, as in anomalies.py."""
NOTABLE = math.log(3)
"""The least difference between levels that can be anomalous, as in anomalies.py."""


class Ranked(NamedTuple):
    """The levels of one array, ascending, and the positions of their batches. Equal levels are in the order of the
    texts of their positions."""

    values: array[float]
    positions: array[int]

    def add(self, value: float, position: int) -> None:
        """Add a level."""
        low, high = bisect_left(self.values, value), bisect_right(self.values, value)
        place = bisect_left(self.positions, str(position), low, high, key=str)
        self.values.insert(place, value)
        self.positions.insert(place, position)

    def pop(self, place: int) -> int:
        """Remove a level by its place, and return its position."""
        self.values.pop(place)
        return self.positions.pop(place)


class Levels(dict[int, Ranked]):
    """The levels of one generator, by array."""

    @classmethod
    def from_rows(cls, rows: Mapping[tuple[int, int, int], LevelRow]) -> Levels:
        """Of the rows of `LEVELS`."""
        levels = cls()
        for (_, place, position), row in rows.items():
            levels.of(place).add(row.value, position)
        return levels

    def of(self, place: int) -> Ranked:
        """Those of an array."""
        return self.setdefault(place, Ranked(array("d"), array("q")))


def keep_level(oracle: Oracle, g: int, seq: int, place: int, level: float, origin: Origin) -> bool:
    """Keep the level of a batch in one array. Returns whether it might be anomalous: the caller then finds out."""
    ranked, value = _of(oracle, g).of(place), round(level, 4)
    ranked.add(value, seq)
    oracle.put(LEVELS, (g, place, seq), LevelRow(value, *origin))
    if (count := len(ranked.values)) > KEPT:
        rank = EXTREMES + seq % 65536 * 40503 % 65536 % (count - 2 * EXTREMES)
        oracle.put(LEVELS, (g, place, ranked.pop(rank)), None)
    return len(ranked.values) <= 2 or abs(level - ranked.values[len(ranked.values) // 2]) > NOTABLE


def forget_levels(oracle: Oracle, g: int, position: int) -> None:
    """Forget the levels of a batch, or with position 0 all of a generator."""
    for place, ranked in _of(oracle, g).items():
        for gone in [one for one in ranked.positions if position in (0, one)]:
            ranked.pop(ranked.positions.index(gone))
            oracle.put(LEVELS, (g, place, gone), None)


def _of(oracle: Oracle, g: int) -> Levels:
    """The levels of a generator."""
    return Levels.from_rows({key: row for key, row in oracle.tables[LEVELS].items() if key[0] == g})
