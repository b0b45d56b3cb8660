"""The statistics of all generators at once, for what is made of them together."""

from __future__ import annotations

import logging
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from optimist.records import Damaged, GeneratorState, LogGap, MixedPart, Superseded
from optimist.scoring.experiments import ScoredExperiment
from optimist.scoring.lending import Lending
from optimist.scoring.record import GatheringRecord
from optimist.scoring.resuming import resumed
from optimist.scoring.threads import InThread
from optimist.scoring.warm import WarmGenerator
from optimist.store import Store

ATTEMPTS = 5
"""How often a log is read from the snapshot on, where another scorer trims it meanwhile."""
_log = logging.getLogger(__name__)


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
    ) -> AsyncIterator[dict[int, WarmGenerator]]:
        """The statistics by ordinal, ascending, each at its generator's position or later, to be read only.

        Nothing changes them until the end of the block. without_damaged: leave out generators of which neither snapshot
        nor log can be read, for which otherwise Damaged is raised; they get a turn of their own, which notes why.
        Raises Superseded where a log is not the one that it was.
        """
        record, found = self._record, dict[int, WarmGenerator]()
        # Copies of generators that are lent now, or retired since, are of no more use.
        record.copies = {g.ordinal: record.copies[g.ordinal] for g in generators if g.ordinal in record.copies}
        try:
            async with AsyncExitStack() as stack:
                # Those whose turn goes on come last: it may be over by then.
                for generator in sorted(generators, key=lambda one: self._lending.is_busy(*self._unit(one))):
                    unit = self._unit(generator)
                    warm = await self._lending.lend(*unit, self._experiment, generator.seq)
                    if warm is not None:
                        stack.callback(self._lending.take_back, *unit)
                        record.copies.pop(generator.ordinal, None)
                    else:
                        try:
                            warm = await self._copied(generator)
                        except Damaged as error:
                            if not without_damaged:
                                raise
                            _log.warning("generator %r is left out of %s: %s", generator.name, record, error)
                            self._lending.look_into(*unit)
                            continue
                    found[generator.ordinal] = warm
                yield dict(sorted(found.items()))
        finally:
            record.bytes = sum(copy.memory for copy in record.copies.values())

    def _unit(self, generator: GeneratorState) -> tuple[str, int, str]:
        return self._record.name, generator.ordinal, self._record.label

    async def _copied(self, generator: GeneratorState) -> WarmGenerator:
        """A statistic to be read, at the generator's position or later, from a snapshot and the log behind it.

        It is kept for the next time. Nothing is published of it: that is for the scorer that has the generator.
        """
        record = self._record
        for attempt in range(1, ATTEMPTS + 1):
            try:
                warm = record.copies.get(generator.ordinal)
                if warm is None:
                    place = record.name, generator.ordinal
                    warm = await resumed(self._store, self._in_thread, place, record.label, self._experiment)
                if await self._read(warm, generator):
                    record.copies[generator.ordinal] = warm
                    return warm
            except LogGap as error:
                # Trimmed meanwhile; or Redis has lost the end of the log, and perhaps kernels that samples fixed.
                if self._experiment.kernels and generator.ordinal in record.copies:
                    raise Superseded(str(error)) from None
                if attempt == ATTEMPTS:
                    raise Damaged(str(error)) from None
            record.copies.pop(generator.ordinal, None)
        raise Superseded(f"batches of generator {generator.name!r} are retracted while they are read")

    async def _read(self, warm: WarmGenerator, generator: GeneratorState) -> bool:
        """Apply the log. False if a batch was retracted since the statistic was begun."""
        place, label = (self._record.name, generator.ordinal), self._record.label
        while entries := await self._store.read_log(*place, warm.seq, chain=warm.chain, label=label):
            if not warm.knows(entries):
                return False
            await self._in_thread(warm.apply, entries, sys.maxsize)
        if warm.seq < max(generator.seq, warm.reaches):
            raise LogGap(f"log of generator {generator.name!r} in {place[0]!r} ends before {generator.seq}")
        return True


def parts_of(gathered: dict[int, WarmGenerator]) -> list[MixedPart]:
    """What is made of these statistics, as it is stored with that."""
    return [MixedPart(ordinal, warm.seq, warm.track.samples, warm.chain) for ordinal, warm in gathered.items()]
