"""What an experiment is and does, in memory and in one language: the oracle that the store is compared with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from optimist.records import StoreError
from tests.oracle.rows import LOG, K, R, Table
from tests.oracle.tables import Rows, Tables


class Counted(NamedTuple):
    """A batch in the history of all batches."""

    generator: int
    late: bool
    has_pick: bool
    rows: int


class Moment(NamedTuple):
    """All that an oracle has at one time."""

    rows: Rows
    logged: Mapping[tuple[int, int], Mapping[str, Any]]
    history: tuple[Counted, ...]


class Oracle:
    """One experiment. The functions of `transitions` read and change it: no clock, no random number, and no I/O.

    limits: how many rows rings keep, by their names; all of them where a ring has none.
    """

    def __init__(self, limits: Mapping[str, int]) -> None:
        self.tables = Tables()
        self.now = 0.0
        """Unix seconds of Redis's clock, which its caller sets."""
        self.logged: dict[tuple[int, int], Mapping[str, Any]] = {}
        """All entries that logs ever had, those that were trimmed since included."""
        self.history: list[Counted] = []
        self._limits = limits
        self.changes = 0
        """How much was ever changed."""

    def do(self, command: Command) -> Any:
        """The reply to a command, or the error by which it is refused. Nothing has changed then."""
        before = self.changes
        try:
            return command(self)
        except StoreError as error:
            assert self.changes == before, "a command is refused before it changes anything"
            return error

    def remembered(self) -> Moment:
        """What it has now, to go back to."""
        return Moment(self.tables.copied(), dict(self.logged), tuple(self.history))

    def go_back(self, moment: Moment) -> None:
        """Be as it was then, as a Redis that has lost its last writes."""
        self.tables, self.logged, self.history = Tables(moment.rows), dict(moment.logged), list(moment.history)

    def read(self, table: Table[K, R], key: K) -> R | None:
        """A row; None where there is none."""
        return self.tables[table].get(key)

    def put(self, table: Table[K, R], key: K, row: R | None) -> None:
        """Store a row; None removes it. A new one of a ring may push the oldest one out."""
        self.changes += 1
        self.tables.put(table, key, row)
        rows = self.tables[table]
        if table.is_ring and len(rows) > self._limits.get(table.name, len(rows)):
            self.tables.put(table, next(iter(rows)), None)

    def log(self, generator: int, seq: int, fields: Mapping[str, Any]) -> None:
        """Append an entry to a generator's log."""
        self.put(LOG, (generator, seq), dict(fields))
        self.logged[generator, seq] = fields

    def trim(self, generator: int, first: int) -> None:
        """Remove the entries of a log before a position."""
        for key in [key for key in self.tables[LOG] if key[0] == generator and key[1] < first]:
            self.put(LOG, key, None)

    def log_start(self, generator: int) -> int | None:
        """The position of the first entry that a log still has; None for an empty one."""
        return min((seq for g, seq in self.tables[LOG] if g == generator), default=None)

    def clear(self) -> None:
        """Forget everything, as after a deletion."""
        self.tables, self.logged, self.history = Tables(), {}, []
        self.changes += 1


Command = Callable[[Oracle], Any]
"""A function of `transitions` with its arguments."""
