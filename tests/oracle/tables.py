"""The tables of one experiment in memory, and what is derived of them. Only `put` changes them."""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any

from tests.oracle.rows import (
    GENERATORS,
    PICKS,
    ROOT,
    SCALES,
    TABLES,
    TOLD,
    USUAL,
    USUAL_ROWS,
    GeneratorRow,
    K,
    PickRow,
    Place,
    R,
    RootRow,
    ScaleRow,
    Table,
)

Rows = Mapping[Table[Any, Any], Mapping[Any, Any]]


class Tables:
    """The rows, by table and key."""

    def __init__(self, rows: Rows | None = None) -> None:
        self._rows: dict[Table[Any, Any], dict[Any, Any]] = {table: {} for table in TABLES}
        self.of_request: defaultdict[str, list[int]] = defaultdict(list)
        """The numbers of open picks by the request that opened them, ascending."""
        self.of_worker: defaultdict[str, list[int]] = defaultdict(list)
        """The same by the worker that asked."""
        self.of_key: Counter[str] = Counter()
        """How many open picks were asked for with each access key."""
        self.starts: defaultdict[int, list[int]] = defaultdict(list)
        """The starts of told intervals by generator, ascending."""
        self.scales = 0
        """How many generators have enough rows for the size of their values to be known."""
        self.sizes: defaultdict[int, list[float]] = defaultdict(list)
        """The known sizes above 0, by array, ascending."""
        self.samples = 0
        """Samples told in all, those retracted since included."""
        for table, of_table in (rows or {}).items():
            for key, row in of_table.items():
                self.put(table, key, row)

    def __getitem__(self, table: Table[K, R]) -> Mapping[K, R]:
        return self._rows[table]

    def copied(self) -> Rows:
        """All rows, of which tables can be made again."""
        return {table: dict(rows) for table, rows in self._rows.items()}

    @property
    def root(self) -> RootRow | None:
        """What the experiment has once; None where there is none."""
        return self._rows[ROOT].get("")

    @property
    def generators(self) -> Mapping[int, GeneratorRow]:
        """By ordinal."""
        return self._rows[GENERATORS]

    @property
    def picks(self) -> Mapping[int, PickRow]:
        """The picks under lease, by number."""
        return self._rows[PICKS]

    def put(self, table: Table[K, R], key: K, row: R | None) -> None:
        """Store a row; None removes it."""
        rows = self._rows[table]
        old = rows.get(key)
        if row is not None:
            rows[key] = row
        elif old is not None:
            del rows[key]
        if (derive := _DERIVED.get(table)) is not None:
            if old is not None:
                derive(self, key, old, -1)
            if row is not None:
                derive(self, key, row, 1)


def _derive_pick(tables: Tables, number: int, pick: PickRow, sign: int) -> None:
    for index, name in ((tables.of_request, pick.request), (tables.of_worker, pick.worker)):
        if sign > 0:
            insort(index[name], number)
        else:
            index[name].remove(number)
            if not index[name]:
                del index[name]
    tables.of_key[pick.key] += sign


def _derive_told(tables: Tables, key: Place, _: int, sign: int) -> None:
    starts = tables.starts[key[0]]
    if sign > 0:
        insort(starts, key[1])
    else:
        del starts[bisect_left(starts, key[1])]


def _derive_scale(tables: Tables, g: int, scale: ScaleRow, sign: int) -> None:
    if g == USUAL or scale.rows < USUAL_ROWS:
        return
    tables.scales += sign
    for array, square in enumerate(scale.sizes):
        if square:
            sizes, size = tables.sizes[array], math.sqrt(square)
            if sign > 0:
                insort(sizes, size)
            else:
                del sizes[bisect_left(sizes, size)]


def _derive_generator(tables: Tables, _: int, generator: GeneratorRow, sign: int) -> None:
    tables.samples += sign * generator.told


_DERIVED: Mapping[Table[Any, Any], Any] = {
    PICKS: _derive_pick,
    TOLD: _derive_told,
    GENERATORS: _derive_generator,
    SCALES: _derive_scale,
}
"""What keeps the derived indices, by table: it is given a key, its row, and 1 where the row comes, -1 where it goes."""
