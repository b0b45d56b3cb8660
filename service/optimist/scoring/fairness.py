"""Who is scored next: metrics that decide before others, namespaces in turn, short turns not behind long ones."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from optimist.scoring.record import Record
from optimist.store import namespace_of

AnyRecord = Record[Any]
SHORT = 0.1
"""Seconds up to which a turn counts as short."""
LONG = 2.0
"""Seconds from which a turn counts as long, such as the decomposition of a large matrix; one of them runs at a time."""
REMEMBERED = 60.0
"""Seconds after a short turn for which a thread is kept free for the next one."""


class FairQueue:
    """Generators, mixtures, and models of contexts, that wait for one of `threads`.

    Those that picks are made from come first: watched metrics, and mixtures that somebody only asks for, get a thread
    only while none of these may begin, and with several threads never all of them. Within both, namespaces take turns;
    within one its experiments do; within an experiment the record that has waited longest is next. One thread is kept
    free for short turns of those that picks are made from as long as there are any, and at most one long turn runs at a
    time. A turn's length is `Record.expected_seconds`; an unknown one counts as short.
    """

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._deciding = _Lane(threads)
        self._watched = _Lane(threads)
        self._running: dict[AnyRecord, float] = {}
        self._last_short = -math.inf

    def add(self, record: AnyRecord) -> None:
        """Add a record, which must not be waiting yet."""
        lane = self._deciding if record.decides else self._watched
        (lane.short if record.expected_seconds < SHORT else lane.other).add(record)

    def next(self) -> AnyRecord | None:
        """Remove and return the next record, which has a thread until `end`; None if none may begin now."""
        if len(self._running) == self._threads:
            return None
        record = self._next_of(self._deciding)
        if record is None and sum(not one.decides for one in self._running) < max(1, self._threads - 1):
            record = self._next_of(self._watched)
        if record is not None:
            self._running[record] = record.expected_seconds
            if 0.0 < record.expected_seconds < SHORT and record.decides:
                self._last_short = time.monotonic()
        return record

    def end(self, record: AnyRecord) -> None:
        """Free the thread of a record that `next` returned."""
        del self._running[record]

    def remove(self, record: AnyRecord) -> None:
        """Remove a record that waits."""
        for lane in (self._deciding, self._watched):
            lane.short.discard(record)
            lane.other.discard(record)

    def _next_of(self, lane: _Lane) -> AnyRecord | None:
        others = [seconds for seconds in self._running.values() if seconds >= SHORT]
        record = None
        if len(others) < self._threads - self._kept_free():
            limit = LONG if max(others, default=0.0) >= LONG else math.inf
            record = lane.other.pop(lambda waiting: waiting.expected_seconds < limit)
        return lane.short.pop() if record is None else record

    def _kept_free(self) -> int:
        """How many threads are kept free for short turns."""
        is_wanted = bool(self._deciding.short) or time.monotonic() - self._last_short < REMEMBERED
        return 1 if is_wanted and self._threads > 1 else 0


class _Lane:
    """Records that wait, those with short turns apart; with a single thread there is one queue for all."""

    def __init__(self, threads: int) -> None:
        self.short = _RoundRobin()
        self.other = _RoundRobin() if threads > 1 else self.short


class _RoundRobin:
    """Records by namespace and experiment. Both dictionaries are in the order of their turns."""

    def __init__(self) -> None:
        self._waiting: dict[str, dict[str, deque[AnyRecord]]] = {}

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, record: AnyRecord) -> None:
        """Put a record behind the others of its experiment."""
        experiments = self._waiting.setdefault(namespace_of(record.name), {})
        experiments.setdefault(record.name, deque()).append(record)

    def pop(self, may_begin: Callable[[AnyRecord], bool] = lambda _: True) -> AnyRecord | None:
        """The next record that may begin; its experiment and its namespace go behind the others."""
        for experiments in self._waiting.values():
            for records in experiments.values():
                for record in records:
                    if may_begin(record):
                        self._remove(record)
                        return record
        return None

    def discard(self, record: AnyRecord) -> None:
        """Remove a record, if it is here; the turns stay as they are."""
        experiments = self._waiting.get(namespace_of(record.name), {})
        records = experiments.get(record.name, deque())
        if record in records:
            records.remove(record)
            if not records:
                del experiments[record.name]
            if not experiments:
                del self._waiting[namespace_of(record.name)]

    def _remove(self, record: AnyRecord) -> None:
        namespace = namespace_of(record.name)
        experiments = self._waiting.pop(namespace)
        records = experiments.pop(record.name)
        records.remove(record)
        if records:
            experiments[record.name] = records
        if experiments:
            self._waiting[namespace] = experiments
