"""Statistics of generators that this scorer holds, lent to a mixture, or a model of contexts, that is made of them."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from typing import Any

from optimist.scoring.catching_up import CatchingUp
from optimist.scoring.experiments import ScoredExperiment
from optimist.scoring.fairness import FairQueue
from optimist.scoring.record import GeneratorRecord, Key, Record
from optimist.scoring.records import Records
from optimist.scoring.threads import InThread
from optimist.scoring.warm import WarmGenerator
from optimist.store import Store

_log = logging.getLogger(__name__)


class Lending:
    """Lends the warm statistics of a scorer: while one is lent, its generator gets no turn of its own."""

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
    ) -> WarmGenerator | None:
        """A generator's statistic at `position` of its log or later, which nothing changes until `take_back`.

        None where this scorer does not hold the generator, or cannot score it. What its own turn would do, such as
        publishing an estimate that is due, is done first, under its own claim.
        """
        record = self._records.get((name, ordinal, label))
        if record is None:
            return None
        self._lent[record.key] = record
        record.is_lent, warm = True, None
        try:
            while (turn := self._turns.get(record)) is not None:
                await asyncio.wait([turn])
            if record.state == "waiting":
                self._queue.remove(record)
                record.again = True
            record.state = "working"
            warm = await self._caught_up(record, experiment, position)
        finally:
            if warm is None:
                self.take_back(name, ordinal, label)
        return warm

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
    ) -> WarmGenerator | None:
        if not record.is_held or record.experiment is not experiment:
            return None
        try:
            while True:
                record.again = False
                await CatchingUp(self._store, self._in_thread, record, experiment).run()
                if record.warm is None or record.warm.seq >= position:
                    return record.warm
        except Exception as error:
            _log.debug("%s is not lent: %s", record, error)
            # The statistic may hold what could not be published. Its own turn begins from the snapshot, and says what
            # is wrong.
            record.release()
            record.again = True
            return None
