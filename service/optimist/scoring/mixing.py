"""One turn of a mixture: reads the statistics of all generators, and publishes weights under the mixture's claim."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import NamedTuple

from optimist.dispatch.mixture_curve import curve_point
from optimist.evaluation.blends import mixture_of
from optimist.evaluation.track import Track
from optimist.insight.metrics import SCORING_SECONDS
from optimist.scoring.catching_up import timed
from optimist.scoring.experiments import InThread, ScoredExperiment
from optimist.scoring.lending import Lending
from optimist.scoring.record import MixtureRecord
from optimist.scoring.resuming import resumed
from optimist.scoring.warm import WarmGenerator
from optimist.store import Damaged, GeneratorState, LogGap, MixedPart, Store, Superseded

ATTEMPTS = 5
"""How often a log is read from the snapshot on, where another scorer trims it meanwhile."""


class _Made(NamedTuple):
    """A mixture as it is stored, and what charts keep of it."""

    payload: str
    point: str


def _made(tracks: Mapping[str, Track], experiment: ScoredExperiment) -> _Made:
    mixture = mixture_of(tracks, experiment.published)
    return _Made(json.dumps(mixture.to_dict(), allow_nan=False), curve_point(mixture, experiment.delta))


class Mixing:
    """One turn of the mixture of an experiment by one metric, whose record must have a claim and an experiment."""

    def __init__(
        self,
        store: Store,
        in_thread: InThread,
        record: MixtureRecord,
        experiment: ScoredExperiment,
        lending: Lending,
    ) -> None:
        self._store = store
        self._in_thread = in_thread
        self._record = record
        self._experiment = experiment
        self._lending = lending

    async def run(self) -> None:
        """Make the mixture of all logs as they are now, if somebody wants it or it is due, unless it stands.

        Raises Superseded if another scorer has the claim, or if a batch that it was made of counts no longer; Damaged
        if neither snapshot nor log of a generator can be read; ValueError or ArithmeticError if there is no mixture.
        """
        record, state = self._record, await self._store.state(self._record.name)
        generators = state.mixable
        standing = await self._store.mixture(*record.subject)
        parts = {} if standing is None else standing.parts
        is_new = {g.ordinal: g.seq for g in generators} != {ordinal: part.seq for ordinal, part in parts.items()}
        if generators and is_new and (record.is_wanted or state.owes_mixture):
            # Copies of generators that are lent now, or retired since, are of no more use.
            record.copies = {g.ordinal: record.copies[g.ordinal] for g in generators if g.ordinal in record.copies}
            try:
                await self._make(generators)
            finally:
                record.bytes = sum(copy.memory for copy in record.copies.values())
        # Whoever wants one of later batches, too, says so again.
        record.is_wanted = False

    async def _make(self, generators: list[GeneratorState]) -> None:
        record = self._record
        async with AsyncExitStack() as stack:
            found: dict[int, WarmGenerator] = {}
            # Those whose turn goes on come last: it may be over by then.
            for generator in sorted(generators, key=lambda one: self._lending.is_busy(*self._unit(one))):
                unit, seq = self._unit(generator), generator.seq
                warm = await self._lending.lend(*unit, self._experiment, seq)
                if warm is None:
                    warm = await self._copied(generator)
                else:
                    stack.callback(self._lending.take_back, *unit)
                    record.copies.pop(generator.ordinal, None)
                found[generator.ordinal] = warm
            tracks = {generator.name: found[generator.ordinal].track for generator in generators}
            parts = [MixedPart(g, found[g].seq, found[g].track.samples, found[g].chain) for g in sorted(found)]
            made, record.seconds = await self._in_thread(timed, _made, tracks, self._experiment)
        metric = self._experiment.bound.metric.name
        SCORING_SECONDS.labels(metric, "mixture").observe(record.seconds)
        await self._store.put_mixture(
            *(record.name, made.payload, record.token, parts),
            kernels=self._experiment.kernels,
            point=made.point,
            label=record.label,
        )

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
