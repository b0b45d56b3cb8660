"""A step of one experiment before it is committed: what changes, what it assumes, and what is written beside the
tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from optimist.experiments.tables import Tables
from optimist.records.commits import Command, Guard, Rule, Write
from optimist.records.tables import LOG, WHOLE, K, R, Table

Address = tuple[Table[Any, Any], Any]
"""A table that is not resident, and a key of it."""


class LogAppend(NamedTuple):
    """An entry of a generator's log."""

    generator: int
    seq: int
    fields: Mapping[str, str | int | bytes]


class Counted(NamedTuple):
    """A batch in the history of all batches."""

    generator: int
    late: bool
    has_pick: bool
    rows: int


class Missing(Exception):
    """Values have to be read before this can be decided."""

    def __init__(self, *addresses: Address) -> None:
        super().__init__(*addresses)
        self.addresses = addresses


class Draft:
    """What follows from some commands, decided one after the other, from the tables at one moment.

    now: Unix seconds of Redis's clock. known: values outside of the resident tables as of the head that the tables
    have, None where there is none. The functions of `experiments.transitions` read and change a draft, and nothing
    else: no clock, no random number, no order of rows. They refuse before they change anything.
    """

    def __init__(self, tables: Tables, now: float, known: Mapping[Address, Any]) -> None:
        self.tables, self.now = tables, now
        self.puts: dict[Address, Any] = {}
        """New rows of tables that are not resident, None for those that are removed."""
        self.logs: list[LogAppend] = []
        self.history: list[Counted] = []
        self.due: list[tuple[int, int]] = []
        """Generators whose estimates are due, and the position."""
        self.guards: dict[Address, Guard] = {}
        self.beside: list[Write] = []
        """What is written beside tables and logs."""
        self.derived: dict[Address, Any] = {}
        """What was made of whole parts, and is kept up to date by this step, by their addresses."""
        self.previews: dict[tuple[int, int, int], bytes] = {}
        """The bytes of previews that are put, by their keys."""
        self.frees = self.grows = False
        """Whether some of the step makes room, and whether some of it takes room."""
        self.deletes = False
        """Whether the experiment is deleted."""
        self._known = known
        self._logged: dict[Address, Any] = {}

    @property
    def changes(self) -> int:
        """How much was changed so far."""
        return len(self.tables.undo) + len(self.puts) + len(self.logs) + self.deletes

    def empty(self) -> Draft:
        """An empty draft of the same moment, for what is to be found out only."""
        return Draft(self.tables, self.now, self._known)

    def need(self, *addresses: Address) -> None:
        """Raise Missing for those of these values that are not known."""
        if missing := [one for one in addresses if one not in self._known and one not in self._own(one)]:
            raise Missing(*missing)

    def read(self, table: Table[K, R], key: K) -> R | None:
        """The row of a table that only commits change. Raises Missing."""
        self.need((table, key))
        own = self._own((table, key))
        return (own if (table, key) in own else self._known)[table, key]

    def _own(self, address: Address) -> Mapping[Address, Any]:
        """What this step has put so far, of a log or of other tables."""
        return self._logged if address[0] is LOG else self.puts

    def read_or_absent(self, table: Table[K, R], key: K) -> R | None:
        """The row of a key that mostly has none: where it is not known, none is assumed."""
        address = table, key
        if address in self.puts:
            return self.puts[address]
        found = self._known.get(address)
        if address not in self._known:
            self.guards[address] = _guard(address, None)
        return found

    def known(self, address: Address) -> Any:
        """A value as it was before this step. Raises Missing."""
        self.need(address)
        return self._known[address]

    def read_all(self, table: Table[K, R], generator: int) -> dict[K, R]:
        """All rows of a generator in a table that is divided, by key. Raises Missing."""
        rows = dict(self.known((table, (generator, WHOLE))) or {})
        for (other, key), row in self.puts.items():
            if other is table and key[0] == generator:
                rows[key] = row
        return {key: row for key, row in rows.items() if row is not None}

    def read_and_hold(self, table: Table[K, R], key: K) -> R | None:
        """A row that others than commits may change, as it is also when this is committed. Raises Missing."""
        found = self.read(table, key)
        if (table, key) not in self.puts:
            self.guards[table, key] = _guard((table, key), found)
        return found

    def expects(self, table: Table[K, str], key: K, value: str | None) -> bool:
        """Assume this value, None for none. False where it is known to be another one."""
        if (table, key) in self.puts:
            return self.puts[table, key] == value
        found = self._known.get((table, key), value)
        self.guards[table, key] = _guard((table, key), found)
        return found == value

    def log(self, generator: int, seq: int, fields: Mapping[str, str | int | bytes]) -> None:
        """Append an entry to a generator's log."""
        self.logs.append(LogAppend(generator, seq, fields))
        self._logged[LOG, (generator, seq)] = {name: str(value) for name, value in fields.items() if name != "body"}

    def write(self, command: Command, part: str, *arguments: str | int) -> None:
        """Have a part of the experiment changed beside the tables."""
        self.beside.append(Write(command, part, arguments))

    def put(self, table: Table[K, R], key: K, row: R | None) -> None:
        """Store a row; None removes it."""
        if table.is_resident:
            self.tables.put(table, key, row)
        else:
            self.puts[table, key] = row


def _guard(address: Address, value: Any) -> Guard:
    table, key = address
    part, field = table.part(key), table.text_of(key)
    return Guard(part, field, Rule.ABSENT) if value is None else Guard(part, field, Rule.EQUAL, str(value))
