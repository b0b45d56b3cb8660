"""Decides which generator is scored next: namespaces take turns, and short turns do not wait for long ones."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable

from optimist.scoring.record import GeneratorRecord
from optimist.store import namespace_of

SHORT = 0.1
"""Seconds up to which a turn counts as short."""
LONG = 2.0
"""Seconds from which a turn counts as long, such as the decomposition of a large matrix; one of them runs at a time."""
REMEMBERED = 60.0
"""Seconds after a short turn for which a thread is kept free for the next one."""


class FairQueue:
    """Generators that wait for one of `threads`.

    Namespaces take turns; within one its experiments do; within an experiment the generator that has waited longest is
    next. One thread is kept free for short turns as long as there are any, and at most one long turn runs at a time. A
    turn's length is `GeneratorRecord.expected_seconds`; an unknown one counts as short.
    """

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._short = _RoundRobin()
        # With a single thread there is one queue for all.
        self._other = _RoundRobin() if threads > 1 else self._short
        self._running: dict[GeneratorRecord, float] = {}
        self._last_short = -math.inf

    def add(self, record: GeneratorRecord) -> None:
        """Add a generator, which must not be waiting yet."""
        (self._short if record.expected_seconds < SHORT else self._other).add(record)

    def next(self) -> GeneratorRecord | None:
        """Remove and return the next generator, which has a thread until `end`; None if none may begin now."""
        if len(self._running) == self._threads:
            return None
        others = [seconds for seconds in self._running.values() if seconds >= SHORT]
        record = None
        if len(others) < self._threads - self._kept_free():
            limit = LONG if max(others, default=0.0) >= LONG else math.inf
            record = self._other.pop(lambda waiting: waiting.expected_seconds < limit)
        if record is None:
            record = self._short.pop()
        if record is not None:
            self._running[record] = record.expected_seconds
            if 0.0 < record.expected_seconds < SHORT:
                self._last_short = time.monotonic()
        return record

    def end(self, record: GeneratorRecord) -> None:
        """Free the thread of a generator that `next` returned."""
        del self._running[record]

    def _kept_free(self) -> int:
        """How many threads are kept free for short turns."""
        is_wanted = bool(self._short) or time.monotonic() - self._last_short < REMEMBERED
        return 1 if is_wanted and self._threads > 1 else 0


class _RoundRobin:
    """Records by namespace and experiment. Both dictionaries are in the order of their turns."""

    def __init__(self) -> None:
        self._waiting: dict[str, dict[str, deque[GeneratorRecord]]] = {}

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, record: GeneratorRecord) -> None:
        """Put a record behind the others of its experiment."""
        experiments = self._waiting.setdefault(namespace_of(record.name), {})
        experiments.setdefault(record.name, deque()).append(record)

    def pop(self, may_begin: Callable[[GeneratorRecord], bool] = lambda _: True) -> GeneratorRecord | None:
        """The next record that may begin; its experiment and its namespace go behind the others."""
        for experiments in self._waiting.values():
            for records in experiments.values():
                for record in records:
                    if may_begin(record):
                        self._remove(record)
                        return record
        return None

    def _remove(self, record: GeneratorRecord) -> None:
        namespace = namespace_of(record.name)
        experiments = self._waiting.pop(namespace)
        records = experiments.pop(record.name)
        records.remove(record)
        if records:
            experiments[record.name] = records
        if experiments:
            self._waiting[namespace] = experiments
