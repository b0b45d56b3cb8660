"""One process's view of one experiment: decides commands from its tables, and commits what was decided. No I/O.

`Writer.run` yields what is to be sent to the store, and is sent the answer. Whoever drives it may close it at any time,
as after a timeout: what was committed then shows when it runs next.
"""

from __future__ import annotations

import hashlib
import math
from collections import ChainMap, defaultdict
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from struct import Struct
from typing import Any

from optimist.experiments.drafts import Address, Draft, Missing
from optimist.experiments.tables import Tables
from optimist.records import StoreError, Unavailable
from optimist.records.commits import Answer, Guard, Head, Load, Loaded, Request, Write
from optimist.records.tables import (
    CONTEXTS,
    GENERATORS,
    LEVELS,
    PICKS,
    PREVIEWS,
    RECORDS,
    REMEMBERED,
    ROOT,
    SCORED,
    TABLES,
    WHOLE,
    Change,
    RootRow,
    Table,
    shown_as,
    text_of_row,
    unpacked,
)

Command = Callable[[Draft], Any]
"""A function of `experiments.transitions` with its arguments."""
ATTEMPTS = 64
"""Attempts after which a command fails because others were faster."""
PATIENCE = 3.0
"""Seconds for which others may have their turns before a command fails; each of them has it for a quarter of a second.
"""
CONTESTED = 1.0
"""Seconds for which a writer asks for the turn before it decides, after others were faster: then nothing is decided in
vain."""
DERIVED = 1024
"""How many generators' levels a process keeps: they are read again when they are needed."""
ARGUMENTS = 4000
"""Arguments of one write: Lua's stack ends at twice as many."""
_HISTORY = Struct("<HBI")


class Pause:
    """The request to go on in a few milliseconds."""


@dataclass(slots=True)
class Counts:
    """How often something happened."""

    rounds: int = 0
    conflicts: int = 0
    """Others were faster, or had the turn."""
    surprises: int = 0
    """A guard did not hold."""
    reads: int = 0
    loads: int = 0
    claims: int = 0
    """The turn was asked for."""


Steps = Generator[Request | Load | Pause, Answer | Loaded | None, list[Any]]


@dataclass
class Writer:
    """The writer of one process. name: no other one ever has it. clock: a local clock that never goes back, by which it
    reckons Redis's time.
    """

    name: str
    clock: Callable[[], float]
    tables: Tables = field(default_factory=Tables)
    head: Head | None = None
    """Of the tables; None: nothing was read, or the store has lost what was."""
    counts: Counts = field(default_factory=Counts)
    _offset: float = 0.0
    """Redis's time less that of the local clock."""
    _contested_until: float = -math.inf
    _commits: int = 0
    _kept: dict[Address, Any] = field(default_factory=dict)
    """Rows that are not resident, of picks under lease that this process opened."""
    _derived: dict[Address, Any] = field(default_factory=dict)
    """What `Draft.derived` had, the newest last; as of `head`."""

    @property
    def now(self) -> float:
        """Unix seconds of Redis's clock, about."""
        return self.clock() + self._offset

    def run(self, commands: Sequence[Command]) -> Steps:
        """Decide these commands in order, in one commit. Returns their replies, errors of the store among them.

        Raises Unavailable where others were faster `ATTEMPTS` times, or had their turns for `PATIENCE`.
        """
        known: dict[Address, Any] = {}
        left, until, has_turn = ATTEMPTS, math.inf, False
        self.counts.rounds += 1
        try:
            while left and self.clock() < until:
                if self.head is None:
                    yield from self._load()
                    known = {}
                assert self.head is not None
                if not has_turn and self.clock() < self._contested_until:
                    before, has_turn = self.head, (yield from self._claim())
                    known = known if self.head == before else {}
                    if not has_turn:
                        until = min(until, self.clock() + PATIENCE)
                        yield Pause()
                        continue
                head, draft = self.head, Draft(self.tables, self.now, ChainMap(known, self._kept, self._derived))
                replies, missing = _decided(draft, commands)
                request = self._request(draft, missing, self.name if has_turn and not missing else "")
                answer = yield from self._answered(request)
                if answer.is_done and not missing:
                    if request.chain:
                        self._commit(answer.head, draft)
                    self.tables.roll_back()
                    return replies
                self.tables.roll_back()
                values = zip(missing or draft.guards, answer.values, strict=True)
                read = {(table, key): table.value_in(key, value) for (table, key), value in values}
                known = known | read if answer.head == head else read
                if answer.is_done:
                    self.counts.reads += 1
                elif answer.waits or answer.missed is None or answer.missed:
                    was_done = bool(answer.missed) and bool(request.chain) and answer.missed[0][0] == request.chain
                    self.counts.conflicts += 1
                    self._contested_until = self.clock() + CONTESTED
                    self._catch_up(answer)
                    if was_done:  # the answer was lost, and others came after it
                        return replies
                    has_turn = False
                else:
                    self.counts.surprises += 1
                left, until = left - 1, math.inf
            raise Unavailable("others were faster too often: try again")
        except BaseException:
            self.tables.roll_back()
            raise

    def _claim(self) -> Generator[Request, Any, bool]:
        """Ask for the turn, and catch up. Returns whether nobody else may commit now."""
        assert self.head is not None
        self.counts.claims += 1
        answer = yield from self._answered(Request(self.head, (), who=self.name, claims=True))
        if answer.waits or answer.missed:
            self._contested_until = self.clock() + CONTESTED
        self._catch_up(answer)
        return not answer.waits and answer.missed is not None

    def _load(self) -> Generator[Load, Any, None]:
        loaded: Loaded = yield Load()
        self.counts.loads += 1
        self.tables, self.head, self._offset = Tables(loaded.changes), loaded.head, loaded.time - self.clock()
        self._kept.clear()
        self._derived.clear()

    def _answered(self, request: Request) -> Generator[Request, Any, Answer]:
        sent = self.clock()
        answer: Answer = yield request
        self._offset = answer.time - (sent + self.clock()) / 2
        return answer

    def _request(self, draft: Draft, missing: Sequence[Address], who: str) -> Request:
        assert self.head is not None
        if missing:
            return Request(self.head, [Guard(table.part(key), table.text_of(key)) for table, key in missing])
        guards, changes = list(draft.guards.values()), draft.tables.changed()
        if not (changes or draft.puts or draft.deletes):
            return Request(self.head, guards, who=who)
        self._commits += 1
        changes += (Change(*address, row) for address, row in draft.puts.items())
        entry, writes = _written(draft, changes)
        # Of the commit's name, too, so that the same step of two processes is two steps, and the second one a repeat.
        digest = hashlib.sha1(f"{self.head.chain} {self.name} {self._commits} {entry}".encode()).hexdigest()
        return Request(self.head, guards, digest, entry, writes, draft.frees and not draft.grows, who)

    def _commit(self, head: Head, draft: Draft) -> None:
        """Take over what was committed."""
        self.head = None if draft.deletes else head
        self._forget(self.tables.undo)
        self.tables.undo.clear()
        for (table, key), row in draft.puts.items():
            if table.is_kept and not table.divided and row is not None:
                self._kept[table, key] = row
        for address, value in draft.derived.items():
            self._derived.pop(address, None)
            self._derived[address] = value
        while len(self._derived) > DERIVED:
            del self._derived[next(iter(self._derived))]

    def _catch_up(self, answer: Answer) -> None:
        """Take over the steps that were missed; where the store does not know them any more, all is read anew."""
        if answer.missed is None:
            self.head = None
            return
        for _, entry in answer.missed:
            changes = unpacked(entry)
            self.tables.apply(change for change in changes if change.table.is_resident)
            self._forget(changes)
            for table, key, row in changes:
                if table is LEVELS and (levels := self._derived.get((table, (key[0], WHOLE)))) is not None:
                    levels.follow(key[1], key[2], row)
        self.head = answer.head

    def _forget(self, changes: Iterable[tuple[Table[Any, Any], Any, Any]]) -> None:
        """Keep nothing of picks that these changes have ended."""
        for table, key, _ in changes:
            if table is PICKS and key not in self.tables.picks:
                self._kept.pop((RECORDS, key), None)
                self._kept.pop((CONTEXTS, key), None)


def _decided(draft: Draft, commands: Sequence[Command]) -> tuple[list[Any], list[Address]]:
    """The replies to these commands; or what has to be read before they can be decided."""
    replies: list[Any] = []
    for place, command in enumerate(commands):
        mark, changes = len(draft.tables.undo), draft.changes
        try:
            replies.append(command(draft))
        except StoreError as error:
            assert draft.changes == changes, "a command is refused before it changes anything"
            replies.append(error)
        except Missing as found:
            missing = list(found.addresses)
            for other in commands[place + 1 :]:  # each as if it came next, so that all is read at once
                draft.tables.roll_back(mark)
                missing += _missing(draft, other)
            return [], list(dict.fromkeys(missing))
    return replies, []


def _missing(draft: Draft, command: Command) -> Sequence[Address]:
    try:
        command(draft.empty())
    except Missing as found:
        return found.addresses
    except StoreError:
        pass
    return ()


def _written(draft: Draft, changes: Sequence[Change]) -> tuple[str, list[Write]]:
    """The entry of a step, with which others catch up, and what is written of it. changes: of all tables."""
    shown: list[str] = []
    put: dict[str, list[Any]] = defaultdict(list)
    newest: dict[Table[Any, Any], list[str]] = defaultdict(list)
    gone: dict[str, list[str]] = defaultdict(list)
    for table, key, row in changes:
        text = None if row is None else text_of_row(row)
        if table.is_resident or table.is_followed:
            shown.append(shown_as(table, key, text))
        part, name = table.part(key), table.text_of(key)
        if text is None:
            gone[part].append(name)
        elif table.is_ring:
            newest[table] += name, text
        else:
            put[part] += name, text
        if table is PREVIEWS:
            if text is None:
                gone[f"{part}:bodies"].append(name)
            else:
                put[f"{part}:bodies"] += name, draft.previews[key]
        elif table is ROOT and row is not None:
            put["counts"] += _counts_of_root(row)
        elif table is GENERATORS and row is not None:
            chained = f"{row.seq} {row.chain}"
            put["counts"] += f"{key}:seq", row.seq, f"chain_{key}", chained, f"{key}:voids", row.voids
    entry = f"[{','.join(shown)}]"
    if draft.deletes:
        return entry, list(_deletion(draft))
    writes = [
        Write("XADD", f"log:{one.generator}", (f"{one.seq}-0", *chain.from_iterable(one.fields.items())))
        for one in draft.logs
    ]
    for part, names in gone.items():
        writes += _split("HDEL", part, names)
    for part, items in put.items():
        writes += _split("HSET", part, items)
    for table, items in newest.items():
        writes.append(Write("RING", table.name, (REMEMBERED, len(table.beside), *table.beside, *items)))
    if draft.history:
        packed = (_HISTORY.pack(one.generator, one.late + 2 * (not one.has_pick), one.rows) for one in draft.history)
        writes.append(Write("APPEND", "history", (b"".join(packed),)))
    return entry, [*writes, *draft.beside, *(Write("DUE", "", due) for due in draft.due)]


def _split(command: Any, part: str, arguments: Sequence[Any]) -> list[Write]:
    starts = range(0, len(arguments), ARGUMENTS)
    return [Write(command, part, tuple(arguments[start : start + ARGUMENTS])) for start in starts]


def _counts_of_root(root: RootRow) -> Iterator[str | int]:
    """What the scripts of scorers read of it."""
    yield from ("instance", root.instance, "keep_log", int(root.keep_log), "told", root.told)
    if root.mixture_growth is not None:
        yield from ("mixture_growth", repr(root.mixture_growth))


def _deletion(draft: Draft) -> Iterator[Write]:
    """The removal of every part of an experiment."""
    yield from draft.beside
    divided = ["log", *(table.name for table in TABLES.values() if table.divided)]
    for g in draft.tables.generators:
        for part in (*(f"{name}:{g}" for name in divided), f"previews:{g}:bodies"):
            yield Write("UNLINK", part, ())
    whole = [table.name for table in TABLES.values() if not table.divided]
    orders = [f"{table.name}:order" for table in TABLES.values() if table.is_ring]
    for part in (*whole, *orders, *SCORED, "config", "history", "head", "tail"):
        yield Write("UNLINK", part, ())
