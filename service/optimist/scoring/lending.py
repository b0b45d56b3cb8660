"""Statistics of generators that this scorer holds, lent to a mixture, or a model of contexts, that is made of them.

Generators that this scorer does not hold are read as copies, from snapshot and log.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from optimist.records import Damaged, GeneratorState, LogGap, MixedPart, Superseded
from optimist.scoring.cached import CachedStatistic
from optimist.scoring.catching_up import CatchingUp, resumed
from optimist.scoring.experiments import ScoredExperiment
from optimist.scoring.fairness import FairQueue
from optimist.scoring.record import GatheringRecord, GeneratorRecord, Key, Record
from optimist.scoring.records import Records
from optimist.scoring.threads import InThread
from optimist.store import Store

ATTEMPTS = 5
"""How often a log is read from the snapshot on, where another scorer trims it meanwhile."""


_log = logging.getLogger(__name__)


class Lending:
    """Lends the cached statistics of a scorer: while one is lent, its generator gets no turn of its own."""

    def __init__(
        self,
        store: Store,
        in_thread: InThread,
        records: Records,
        queue: FairQueue,
        turns: Mapping[Record[Any], asyncio.Task[None]],
        schedule: Callable[[GeneratorRecord], None],
    ) -> None:
        """turns: those that go on now. schedule: queues a generator for a turn."""
        self._store = store
        self._in_thread = in_thread
        self._records = records
        self._queue = queue
        self._turns = turns
        self._schedule = schedule
        self._lent: dict[Key, GeneratorRecord] = {}

    def is_busy(self, name: str, ordinal: int, label: str) -> bool:
        """Whether a turn of the generator goes on, for whose end `lend` would wait."""
        record = self._records.get((name, ordinal, label))
        return record is not None and record in self._turns

    async def lend(
        self, name: str, ordinal: int, label: str, experiment: ScoredExperiment, position: int
    ) -> CachedStatistic | None:
        """A generator's statistic at `position` of its log or later, which nothing changes until `take_back`.

        None where this scorer does not hold the generator, or cannot score it. What its own turn would do, such as
        publishing an estimate that is due, is done first, under its own claim.
        """
        record = self._records.get((name, ordinal, label))
        if record is None:
            return None
        self._lent[record.key] = record
        record.is_lent, cached = True, None
        try:
            while (turn := self._turns.get(record)) is not None:
                await asyncio.wait([turn])
            if record.state == "waiting":
                self._queue.remove(record)
                record.again = True
            record.state = "working"
            cached = await self._caught_up(record, experiment, position)
        finally:
            if cached is None:
                self.take_back(name, ordinal, label)
        return cached

    def take_back(self, name: str, ordinal: int, label: str) -> None:
        """Let a generator that was lent have turns again."""
        record = self._lent.pop((name, ordinal, label))
        record.is_lent, record.state, record.worked = False, "idle", time.monotonic()
        if record.again:
            record.again = False
            self._schedule(record)

    def look_into(self, name: str, ordinal: int, label: str) -> None:
        """Give a generator that cannot be read a turn of its own: that says what is wrong, if this scorer may."""
        self._schedule(self._records.known(GeneratorRecord(name, ordinal, label)))

    async def _caught_up(
        self, record: GeneratorRecord, experiment: ScoredExperiment, position: int
    ) -> CachedStatistic | None:
        if not record.is_held or record.experiment is not experiment:
            return None
        try:
            while True:
                record.again = False
                await CatchingUp(self._store, self._in_thread, record, experiment).run()
                if record.cached is None or record.cached.seq >= position:
                    return record.cached
        except Exception as error:
            _log.debug("%s is not lent: %s", record, error)
            # The statistic may hold what could not be published. Its own turn begins from the snapshot, and says what
            # is wrong.
            record.release()
            record.again = True
            return None


class Gathering:
    """Brings the statistics of generators together for a record: those that this scorer holds are lent, the others are
    copies, read from their snapshots and logs."""

    def __init__(
        self,
        store: Store,
        in_thread: InThread,
        record: GatheringRecord[Any],
        experiment: ScoredExperiment,
        lending: Lending,
    ) -> None:
        self._store = store
        self._in_thread = in_thread
        self._record = record
        self._experiment = experiment
        self._lending = lending

    @asynccontextmanager
    async def gathered(
        self, generators: Sequence[GeneratorState], *, without_damaged: bool = False
    ) -> AsyncIterator[dict[int, CachedStatistic]]:
        """The statistics by ordinal, ascending, each at its generator's position or later, to be read only.

        Nothing changes them until the end of the block. without_damaged: leave out generators of which neither snapshot
        nor log can be read, for which otherwise Damaged is raised; they get a turn of their own, which notes why.
        Raises Superseded where a log is not the one that it was.
        """
        record, found = self._record, dict[int, CachedStatistic]()
        # Copies of generators that are lent now, or retired since, are of no more use.
        record.copies = {g.ordinal: record.copies[g.ordinal] for g in generators if g.ordinal in record.copies}
        try:
            async with AsyncExitStack() as stack:
                # Those whose turn goes on come last: it may be over by then.
                for generator in sorted(generators, key=lambda one: self._lending.is_busy(*self._unit(one))):
                    unit = self._unit(generator)
                    cached = await self._lending.lend(*unit, self._experiment, generator.seq)
                    if cached is not None:
                        stack.callback(self._lending.take_back, *unit)
                        record.copies.pop(generator.ordinal, None)
                    else:
                        try:
                            cached = await self._copied(generator)
                        except Damaged as error:
                            if not without_damaged:
                                raise
                            _log.warning("generator %r is left out of %s: %s", generator.name, record, error)
                            self._lending.look_into(*unit)
                            continue
                    found[generator.ordinal] = cached
                yield dict(sorted(found.items()))
        finally:
            record.bytes = sum(copy.memory for copy in record.copies.values())

    def _unit(self, generator: GeneratorState) -> tuple[str, int, str]:
        return self._record.name, generator.ordinal, self._record.label

    async def _copied(self, generator: GeneratorState) -> CachedStatistic:
        """A statistic to be read, at the generator's position or later, from a snapshot and the log behind it.

        It is kept for the next time. Nothing is published of it: that is for the scorer that has the generator.
        """
        record = self._record
        for attempt in range(1, ATTEMPTS + 1):
            try:
                cached = record.copies.get(generator.ordinal)
                if cached is None:
                    place = record.name, generator.ordinal
                    cached = await resumed(self._store, self._in_thread, place, record.label, self._experiment)
                if await self._read(cached, generator):
                    record.copies[generator.ordinal] = cached
                    return cached
            except LogGap as error:
                # Trimmed meanwhile; or Redis has lost the end of the log, and perhaps kernels that samples fixed.
                if self._experiment.kernels and generator.ordinal in record.copies:
                    raise Superseded(str(error)) from None
                if attempt == ATTEMPTS:
                    raise Damaged(str(error)) from None
            record.copies.pop(generator.ordinal, None)
        raise Superseded(f"batches of generator {generator.name!r} are retracted while they are read")

    async def _read(self, cached: CachedStatistic, generator: GeneratorState) -> bool:
        """Apply the log. False if a batch was retracted since the statistic was begun."""
        place, label = (self._record.name, generator.ordinal), self._record.label
        while entries := await self._store.read_log(*place, cached.seq, chain=cached.chain, label=label):
            if not cached.knows(entries):
                return False
            await self._in_thread(cached.apply, entries, sys.maxsize)
        if cached.seq < max(generator.seq, cached.reaches):
            raise LogGap(f"log of generator {generator.name!r} in {place[0]!r} ends before {generator.seq}")
        return True


def parts_of(gathered: dict[int, CachedStatistic]) -> list[MixedPart]:
    """What is made of these statistics, as it is stored with that."""
    return [MixedPart(ordinal, cached.seq, cached.track.samples, cached.chain) for ordinal, cached in gathered.items()]
