"""A turn of one generator: its log is applied; estimates, snapshots and modes are published under its claim."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Sequence
from functools import partial

from optimist.insight.metrics import SCORING_SECONDS, SET_ASIDE, SNAPSHOTS
from optimist.scoring.experiments import Arguments, InThread, Result, ScoredExperiment
from optimist.scoring.record import GeneratorRecord
from optimist.scoring.warm import Scored, Step, WarmGenerator
from optimist.store import Damaged, LogEntry, LogGap, Store, Superseded

TURN = 0.25
"""Seconds after which a turn ends as soon as something of it is stored, so that others may work."""

logger = logging.getLogger(__name__)


class CatchingUp:
    """A turn of the generator of a record that has a claim and an experiment."""

    def __init__(
        self, store: Store, in_thread: InThread, record: GeneratorRecord, experiment: ScoredExperiment
    ) -> None:
        self._store = store
        self._in_thread = in_thread
        self._record = record
        self._experiment = experiment

    async def run(self) -> None:
        """Take what the log holds, publish the estimate that is due, and put a snapshot in place of a long log.

        Where that takes long, some of the log may be left; `GeneratorRecord.again` is set then. Raises Superseded once
        another scorer has the claim, Damaged where neither snapshot nor log can be read, ArithmeticError where an
        estimate cannot be made.
        """
        record = self._record
        try:
            # The first estimate comes as early as it can; later ones are made at the newest position alone.
            await self._take(record.due if record.published else 0)
        except LogGap as error:
            # Another scorer had the claim meanwhile and trimmed the log, or Redis has lost the end of it. The snapshot
            # still leads on, unless kernels that were fixed are lost, too.
            record.start(self._experiment)
            record.due = 0
            if self._experiment.kernels:
                raise Superseded(str(error)) from None
            try:
                await self._take(0)
            except LogGap as error:
                raise Damaged(str(error)) from None
        if record.warm is not None:
            record.room, record.bytes = record.warm.room, record.warm.memory

    async def _take(self, newest: int) -> None:
        """Apply the log. `newest`: a position at which an estimate is due; none is made at earlier ones."""
        begun, record = time.monotonic(), self._record
        warm = record.warm = record.warm or await self._resume()
        warm.published = record.published
        while entries := await self._store.read_log(*record.key, warm.seq, chain=warm.chain):
            step, seconds = await self._in_thread(_timed, warm.apply, entries, newest)
            await self._set_aside(step, entries)
            if step.scored is not None:
                record.seconds = seconds
                await self._publish(step.scored)
            # After the estimate: nobody could make it again from a snapshot of a later position.
            is_outgrown = warm.has_outgrown()
            if is_outgrown:
                await self._put_snapshot(warm)
            if (is_outgrown or step.scored is not None) and time.monotonic() - begun > TURN:
                record.again = True
                break
        else:
            if warm.seq < newest:
                raise LogGap(f"log of generator {record.ordinal} in {record.name!r} ends before {newest}")
        if record.wants_modes and not warm.is_empty:
            await self._put_modes(warm)

    async def _resume(self) -> WarmGenerator:
        """The statistic of the snapshot if there is one, an empty one otherwise."""
        record, experiment = self._record, self._experiment
        try:
            snapshot = await self._store.snapshot(*record.key)
            if snapshot is not None:
                thaw = partial(WarmGenerator.thaw, chain=snapshot.chain)
                return await self._in_thread(thaw, snapshot.body, snapshot.seq, experiment.bound, experiment.growth)
        except (Damaged, ValueError) as error:
            # A log that was kept whole leads to the same statistic; a trimmed one does not.
            if not await self._has_whole_log():
                raise Damaged(f"{error}; the log before it is trimmed") from None
            logger.warning("%s/%d is scored from its log: %s", *record.key, error)
        return WarmGenerator(experiment.bound, experiment.growth)

    async def _has_whole_log(self) -> bool:
        try:
            await self._store.read_log(*self._record.key, 0, max_entries=1)
        except LogGap:
            return False
        return True

    async def _set_aside(self, step: Step, entries: Sequence[LogEntry]) -> None:
        chains = {entry.seq: entry.chain for entry in entries}
        for seq, reason in step.unreadable:
            logger.warning("batch %d of %s/%d is set aside: %s", seq, *self._record.key, reason)
            SET_ASIDE.inc()
            await self._store.set_aside(*self._record.key, seq, reason, self._record.token, chain=chains[seq])

    async def _publish(self, scored: Scored) -> None:
        SCORING_SECONDS.labels(self._experiment.bound.metric.name, scored.route).observe(scored.seconds)
        payload = json.dumps(scored.estimate.to_dict(), allow_nan=False)
        point = json.dumps(scored.estimate.point, separators=(",", ":"))
        await self._store.put_estimate(
            *(*self._record.key, scored.seq, payload, self._record.token),
            chain=scored.chain,
            kernels=self._experiment.kernels,
            point=point,
        )
        self._record.published = scored.seq

    async def _put_snapshot(self, warm: WarmGenerator) -> None:
        body = await self._in_thread(warm.freeze)
        await self._store.put_snapshot(
            *(*self._record.key, warm.seq, body, self._record.token), chain=warm.chain, kernels=self._experiment.kernels
        )
        warm.snapshot_taken(len(body))
        SNAPSHOTS.inc()

    async def _put_modes(self, warm: WarmGenerator) -> None:
        record = self._record
        record.wants_modes = False
        generator = (await self._store.state(record.name)).generators[record.ordinal].name
        made, record.modes_seconds = await self._in_thread(_timed, warm.modes, generator)
        await self._store.put_modes(
            *(*record.key, warm.seq, made.model_dump_json(), record.token),
            chain=warm.chain,
            kernels=self._experiment.kernels,
        )


def _timed(function: Callable[[*Arguments], Result], *arguments: *Arguments) -> tuple[Result, float]:
    """What a function returns, and the processor time that it took: other load on the machine does not lengthen it."""
    begun = time.thread_time()
    result = function(*arguments)
    return result, time.thread_time() - begun
