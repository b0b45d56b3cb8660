"""The resident tables of one experiment in memory, and what is derived of them. Only `put` changes them."""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from optimist.records.tables import (
    GENERATORS,
    PICKS,
    RESIDENT,
    ROOT,
    SCALES,
    TOLD,
    USUAL,
    USUAL_ROWS,
    Change,
    GeneratorRow,
    K,
    PickRow,
    Place,
    R,
    RootRow,
    ScaleRow,
    Table,
)


class Tables:
    """The rows, by table and key."""

    def __init__(self, changes: Iterable[Change] = ()) -> None:
        self._rows: dict[Table[Any, Any], dict[Any, Any]] = {table: {} for table in RESIDENT}
        self.undo: list[tuple[Table[Any, Any], Any, Any]] = []
        """What `put` replaced since the last `apply`, in order."""
        self.of_request: defaultdict[str, list[int]] = defaultdict(list)
        """The numbers of open picks by the request that opened them, ascending."""
        self.of_worker: defaultdict[str, list[int]] = defaultdict(list)
        """The same by the worker that asked."""
        self.of_key: Counter[str] = Counter()
        """How many open picks were asked for with each access key."""
        self.open_samples: Counter[int] = Counter()
        """Samples of open picks, by ordinal of the generator."""
        self.open_batches: Counter[int] = Counter()
        """Number of open picks, by ordinal of the generator."""
        self.starts: defaultdict[int, list[int]] = defaultdict(list)
        """The starts of told intervals by generator, ascending."""
        self.scales = 0
        """How many generators have enough rows for the size of their values to be known."""
        self.sizes: defaultdict[int, list[float]] = defaultdict(list)
        """The known sizes above 0, by array, ascending."""
        self.samples = 0
        """Samples told in all, those retracted since included."""
        self.earliest, self.latest = math.inf, -math.inf
        """No lease runs out before the first time, or after the second one."""
        self.apply(changes)

    def __getitem__(self, table: Table[K, R]) -> Mapping[K, R]:
        return self._rows[table]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tables) and self._rows == other._rows

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
        self.undo.append((table, key, old))
        if (derive := _DERIVED.get(table)) is not None:
            if old is not None:
                derive(self, key, old, -1)
            if row is not None:
                derive(self, key, row, 1)

    def apply(self, changes: Iterable[Change]) -> None:
        """Take over changes that are in the store."""
        for change in changes:
            self.put(*change)
        self.undo.clear()

    def roll_back(self, to: int = 0) -> None:
        """Undo the newest puts until only so many are left since the last `apply`."""
        while len(self.undo) > to:
            self.put(*self.undo.pop())
            self.undo.pop()

    def changed(self) -> list[Change]:
        """The changes since the last `apply`, each key once."""
        first: dict[tuple[Table[Any, Any], Any], Any] = {}
        for table, key, old in self.undo:
            first.setdefault((table, key), old)
        changes: list[Change] = []
        for (table, key), old in first.items():
            if (row := self._rows[table].get(key)) != old:
                changes.append(Change(table, key, row))
        return changes

    def all(self) -> list[Change]:
        """Every row, in order of its key, as changes of an empty experiment."""
        return [Change(table, key, row) for table, rows in self._rows.items() for key, row in sorted(rows.items())]

    def bound_leases(self) -> None:
        """Compute `earliest` and `latest` anew: ends of leases leave them as they are."""
        deadlines = [pick.deadline for pick in self.picks.values()]
        self.earliest, self.latest = min(deadlines, default=math.inf), max(deadlines, default=-math.inf)


def _derive_pick(tables: Tables, number: int, pick: PickRow, sign: int) -> None:
    for index, name in ((tables.of_request, pick.request), (tables.of_worker, pick.worker)):
        if sign > 0:
            insort(index[name], number)
        else:
            index[name].remove(number)
            if not index[name]:
                del index[name]
    tables.of_key[pick.key] += sign
    tables.open_samples[pick.generator] += sign * pick.size
    tables.open_batches[pick.generator] += sign
    if sign > 0:
        tables.earliest, tables.latest = min(tables.earliest, pick.deadline), max(tables.latest, pick.deadline)


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
