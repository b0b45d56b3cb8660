"""The levels of a generator's batches: which are kept, and whether one may be anomalous (numerics/anomalies.py)."""

from __future__ import annotations

import math
from bisect import insort
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from optimist.experiments.drafts import Draft
from optimist.records import Origin
from optimist.records.tables import LEVELS, WHOLE, LevelRow

KEPT = 256
"""Levels that are kept of each array of a generator, as in anomalies.py."""
EXTREMES = 64
"""The lowest, and the highest, levels that always stay, as in anomalies.py."""
NOTABLE = math.log(3)
"""The least difference between levels that can be anomalous, as in anomalies.py."""


@dataclass
class Levels:
    """The levels of one generator: of each array level and position, in order. Equal levels are in the order of the
    texts of their positions."""

    ranked: defaultdict[int, list[tuple[float, str]]] = field(default_factory=lambda: defaultdict(list))

    @classmethod
    def from_rows(cls, rows: Mapping[tuple[int, int, int], LevelRow]) -> Levels:
        """Of the rows of `LEVELS`."""
        levels = cls()
        for (_, array, position), row in rows.items():
            insort(levels.ranked[array], (row.value, str(position)))
        return levels

    def copy(self) -> Levels:
        """One that may be changed alone."""
        return Levels(defaultdict(list, {array: list(ranked) for array, ranked in self.ranked.items()}))


def keep_level(draft: Draft, g: int, seq: int, array: int, level: float, origin: Origin) -> bool:
    """Keep the level of a batch in one array. Returns whether it might be anomalous: the caller then finds out."""
    ranked, value = _of(draft, g).ranked[array], round(level, 4)
    insort(ranked, (value, str(seq)))
    draft.put(LEVELS, (g, array, seq), LevelRow(value, *origin))
    if len(ranked) > KEPT:
        rank = EXTREMES + seq % 65536 * 40503 % 65536 % (len(ranked) - 2 * EXTREMES)
        draft.put(LEVELS, (g, array, int(ranked.pop(rank)[1])), None)
    return len(ranked) <= 2 or abs(level - ranked[len(ranked) // 2][0]) > NOTABLE


def forget_levels(draft: Draft, g: int, position: int) -> None:
    """Forget the levels of a batch, or with position 0 all of a generator."""
    for array, ranked in _of(draft, g).ranked.items():
        gone = [one for one in ranked if position in (0, int(one[1]))]
        for one in gone:
            ranked.remove(one)
            draft.put(LEVELS, (g, array, int(one[1])), None)


def _of(draft: Draft, g: int) -> Levels:
    """The levels of a generator, with those of this step."""
    address = LEVELS, (g, WHOLE)
    if address not in draft.derived:
        known = draft.known(address)
        draft.derived[address] = known.copy() if isinstance(known, Levels) else Levels.from_rows(known or {})
    return draft.derived[address]
