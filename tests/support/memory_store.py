"""The store of one experiment in memory: it answers as commit.lua does."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from optimist.dispatch.writer import Pause, Steps
from optimist.records import Unavailable
from optimist.records.commits import TAIL, TURN, Answer, Guard, Head, Load, Loaded, Request, Rule, Write
from optimist.records.tables import WHOLE, Change, rows_in, unpacked


@dataclass
class Contents:
    """Everything that is stored."""

    head: Head = field(default_factory=Head)
    before: str = ""
    """The chain before that of the head."""
    journal: list[tuple[str, str]] = field(default_factory=list)
    """Chain and entry of every step; only the newest `TAIL` are answered."""
    hashes: dict[str, dict[str, Any]] = field(default_factory=dict)
    orders: dict[str, list[str]] = field(default_factory=dict)
    """The fields of rings, the oldest first."""
    logs: dict[str, dict[int, dict[str, Any]]] = field(default_factory=dict)
    """The fields of entries by position."""
    untrimmed: dict[str, dict[int, dict[str, Any]]] = field(default_factory=dict)
    """The same with those that were removed since."""
    lists: dict[str, list[str]] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    history: bytes = b""


class MemoryStore:
    """ring_limits: rows of a ring, by its name, where these are not as many as a step says."""

    def __init__(self, clock: Callable[[], float], ring_limits: Mapping[str, int] | None = None) -> None:
        self.clock = clock
        self.contents = Contents()
        self.due: list[tuple[Any, ...]] = []
        """What was announced."""
        self.is_full = False
        self._turn, self._next = ("", 0.0), ""
        self._ring_limits = ring_limits or {}

    def answer(self, request: Request | Load) -> Answer | Loaded:
        stored = self.contents
        if isinstance(request, Load):
            return Loaded(stored.head, self.clock(), rows_in(stored.hashes))
        values = [self._value(guard) for guard in request.guards]
        fits = all(map(_holds, request.guards, values))
        is_same, is_repeat = self._is_same(request), self._is_repeat(request)
        left = self._turn[1] - self.clock()
        is_others = self._turn[0] not in ("", request.who) and 0 < left < TURN
        if request.claims and stored.head.seq:
            if not is_others:
                self._give_turn(request.who, "" if self._next == request.who else self._next)
            elif not self._next:
                self._next = request.who
        elif is_repeat or (is_same and fits and not (request.chain and is_others)):
            if request.chain and not is_repeat:
                if self.is_full and not request.frees:
                    raise Unavailable("OOM command not allowed when used memory > 'maxmemory'")
                self._write(request)
            if self._turn[0] and not is_others and not is_repeat and (request.chain or request.who):
                self._give_turn(self._next)
            head = Head(request.head.seq + 1, request.chain) if request.chain and not is_repeat else stored.head
            return Answer(True, head, self.clock(), values)
        missed = () if is_same else self._missed(request.head)
        waits = is_others and (request.claims or (is_same and fits))
        return Answer(is_same and fits and not waits, stored.head, self.clock(), values, missed, waits)

    def _give_turn(self, who: str, after: str = "") -> None:
        self._turn, self._next = (who, self.clock() + TURN), after

    def folded(self) -> list[Change]:
        """The changes of the resident tables of all steps."""
        changes = (change for _, entry in self.contents.journal for change in unpacked(entry))
        return [change for change in changes if change.table.is_resident]

    def remembered(self) -> Contents:
        return copy.deepcopy(self.contents)

    def go_back(self, contents: Contents) -> None:
        """Be as it was then, as a Redis that has lost its last writes."""
        self.contents = copy.deepcopy(contents)

    def run(self, steps: Steps) -> list[Any]:
        """Answer every request of a writer."""
        try:
            request = next(steps)
            while True:
                request = steps.send(None if isinstance(request, Pause) else self.answer(request))
        except StopIteration as done:
            return done.value

    def _is_same(self, request: Request) -> bool:
        return self.contents.head == request.head

    def _is_repeat(self, request: Request) -> bool:
        stored = self.contents
        return bool(request.chain) and (stored.before, stored.head.chain) == (request.head.chain, request.chain)

    def _missed(self, head: Head) -> list[tuple[str, str]] | None:
        journal, first = self.contents.journal, max(0, len(self.contents.journal) - TAIL)
        if head.seq == first == 0 and not head.chain:
            return list(journal)
        if first < head.seq <= len(journal) and journal[head.seq - 1][0] == head.chain:
            return journal[head.seq :]
        return None

    def _value(self, guard: Guard) -> Any:
        if guard.part.startswith("log:"):
            entries = self.contents.logs.get(guard.part, {})
            if not guard.field:
                return str(min(entries)) if entries else None
            entry = entries.get(int(guard.field))
            return entry and {name: str(value) for name, value in entry.items() if name not in ("body", "context")}
        if guard.part.startswith("curve:"):
            return list(self.contents.lists.get(guard.part, ())) or None
        rows = self.contents.hashes.get(guard.part, {})
        return (dict(rows) or None) if guard.field == WHOLE else rows.get(guard.field)

    def _write(self, request: Request) -> None:
        stored = self.contents
        stored.before, stored.head = stored.head.chain, Head(stored.head.seq + 1, request.chain)
        stored.journal.append((request.chain, request.entry))
        for write in request.writes:
            self._do(write)

    def _do(self, write: Write) -> None:
        stored, arguments = self.contents, write.arguments
        match write.command:
            case "HSET":
                rows = stored.hashes.setdefault(write.part, {})
                rows.update({k: v if isinstance(v, bytes) else str(v) for k, v in _pairs(arguments).items()})
            case "SET":
                stored.texts[write.part] = str(arguments[0])
            case "RPUSH":
                stored.lists.setdefault(write.part, []).extend(map(str, arguments))
            case "LTRIM":
                del stored.lists.get(write.part, [])[int(arguments[1]) + 1 :]
            case "ZREM":
                pass  # the time of a claim, which is not simulated
            case "HDEL":
                for name in arguments:
                    stored.hashes.get(write.part, {}).pop(str(name), None)
            case "RING":
                limit, count, *rest = arguments
                limit = self._ring_limits.get(write.part, int(limit))
                for name, text in _pairs(tuple(rest[int(count) :])).items():
                    self._ring(write.part, limit, name, text, map(str, rest[: int(count)]))
            case "XADD":
                entries, position = stored.logs.setdefault(write.part, {}), int(str(arguments[0]).removesuffix("-0"))
                assert position == max(entries, default=position - 1) + 1, "the positions of a log are dense"
                entries[position] = dict(_pairs(arguments[1:]))
                stored.untrimmed.setdefault(write.part, {})[position] = entries[position]
            case "XTRIM":
                self.trim(write.part, int(str(arguments[2]).removesuffix("-0")))
            case "APPEND":
                [packed] = arguments
                assert isinstance(packed, bytes)
                stored.history += packed
            case "DUE":
                self.due.append(arguments)
            case "UNLINK":
                self._unlink(write.part)

    def _unlink(self, part: str) -> None:
        stored = self.contents
        for parts in (stored.hashes, stored.orders, stored.logs, stored.untrimmed, stored.lists, stored.texts):
            parts.pop(part, None)
        match part:
            case "head":
                stored.head, stored.before = Head(), ""
            case "tail":
                stored.journal = []
            case "history":
                stored.history = b""
            case _:
                pass

    def trim(self, part: str, first: int) -> None:
        """Remove the entries of a log before a position."""
        entries = self.contents.logs.get(part, {})
        for position in [position for position in entries if position < first]:
            del entries[position]

    def _ring(self, part: str, limit: int, name: str, text: Any, beside: Any) -> None:
        rows, order = self.contents.hashes.setdefault(part, {}), self.contents.orders.setdefault(part, [])
        if name not in rows:
            order.append(name)
        rows[name] = text
        if len(order) > limit:
            oldest = order.pop(0)
            for other in (part, *beside):
                self.contents.hashes.get(other, {}).pop(oldest, None)


def _pairs(arguments: tuple[Any, ...]) -> Mapping[str, Any]:
    return dict(zip(map(str, arguments[::2]), arguments[1::2], strict=True))


def _holds(guard: Guard, value: Any) -> bool:
    if guard.rule is Rule.ANY:
        return True
    return value is None if guard.rule is Rule.ABSENT else value == guard.value
