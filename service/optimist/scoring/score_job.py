"""One quantum of a generator: applies its log, and publishes estimates, snapshots and modes under its claim.

A statistic is taken from its snapshot, or made from the beginning of its log.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from optimist.insight.metrics import QUARANTINED, SCORING_SECONDS, SNAPSHOTS
from optimist.records import Artefact, ChainedExtent, CorruptData, LogEntry, LogGap, RetractedLog, Superseded, codec
from optimist.scoring.cached import CachedStatistic, ScoredEstimate, Step
from optimist.scoring.experiments import ScoredExperiment
from optimist.scoring.tasks import GeneratorTask
from optimist.scoring.threads import Arguments, Computed, InThread
from optimist.store import Store

_log = logging.getLogger(__name__)


async def resumed(
    store: Store, in_thread: InThread, log: tuple[str, int], label: str, experiment: ScoredExperiment
) -> CachedStatistic:
    """The statistic from the snapshot if there is one, otherwise an empty one. log: experiment and ordinal.

    Raises CorruptData if the snapshot cannot be read, and the log before it was trimmed.
    """
    # Before the snapshot: a retraction that comes meanwhile is then noticed as the log is read.
    retracted = await store.retracted_log(*log)
    try:
        snapshot = await store.snapshot(*log, label)
        if snapshot is not None:
            state = {"chain": snapshot.chain, "retracted": retracted, "ordinal": log[1]}
            thaw = partial(CachedStatistic.thaw, **state, **experiment.estimator_settings)
            return await in_thread(thaw, snapshot.body, snapshot.seq, experiment.bound, experiment.growth)
    except (CorruptData, ValueError) as error:
        # From an untrimmed log the same statistic can be computed.
        if not await _has_whole_log(store, log, retracted):
            raise CorruptData(f"{error}; the log before it is trimmed") from None
        _log.warning("%s/%d by %s is scored from its log: %s", *log, label, error)
    return CachedStatistic(
        experiment.bound, experiment.growth, retracted, ordinal=log[1], **experiment.estimator_settings
    )


async def _has_whole_log(store: Store, log: tuple[str, int], retracted: RetractedLog) -> bool:
    try:
        await store.read_log(*log, max(0, retracted.restart - 1), max_entries=1)
    except LogGap:
        return False
    return True


@dataclass(frozen=True, slots=True)
class ScoreJob:
    """One quantum of a generator by one metric, whose task must have a claim and an experiment."""

    store: Store
    in_thread: InThread
    task: GeneratorTask
    experiment: ScoredExperiment
    is_over: Callable[[GeneratorTask], bool] = lambda _: False
    """True if the quantum ends once it has stored something, so that other generators get the thread."""

    async def run(self) -> None:
        """Apply the log, publish the estimate that is due, and replace a long log by a snapshot.

        If that takes long, part of the log is left for the next quantum, and `GeneratorTask.again` is set. Raises
        Superseded if another scorer has the claim, CorruptData if neither snapshot nor log can be read, ArithmeticError
        if an estimate cannot be made.
        """
        task = self.task
        try:
            # The first estimate is made as early as possible, later ones only at the newest due position.
            await self._take(task.due if task.published else 0)
        except LogGap as error:
            # Another scorer had the claim meanwhile and trimmed the log, or Redis has lost its end. Start again from
            # the snapshot; but fixed kernels may be lost, too, and must then be read again.
            task.start(self.experiment)
            task.due = 0
            if self.experiment.kernels:
                raise Superseded(str(error)) from None
            try:
                await self._take(0)
            except LogGap as error:
                raise CorruptData(str(error)) from None
        if task.cached is not None:
            task.room, task.bytes = task.cached.room, task.cached.memory

    async def _take(self, newest: int) -> None:
        """Apply the log. `newest`: the newest known due position; no estimate is made at earlier ones."""
        task = self.task
        cached = task.cached = task.cached or await self._resumed()
        cached.published = task.published
        while entries := await self._read_log(cached):
            if not cached.knows(entries):
                task.start(self.experiment)
                await self._take(newest)
                return
            step, seconds = await self.in_thread(timed, cached.apply, entries, newest)
            await self._quarantine(step, entries)
            if step.scored is not None:
                task.seconds = seconds
                await self._publish(step.scored)
            # After the estimate, which could not be made again from a snapshot at a later position.
            is_outgrown = cached.has_outgrown()
            if is_outgrown:
                await self._put_snapshot(cached)
            if (is_outgrown or step.scored is not None) and self.is_over(task):
                task.again = True
                break
        else:
            if cached.seq < max(newest, cached.reaches):
                raise LogGap(f"log of generator {task.ordinal} in {task.name!r} ends before {newest}")
            if task.wants_estimate and cached.seq > task.published and not cached.is_empty:
                await self._publish(await self.in_thread(cached.scored))
            task.wants_estimate = False
        if task.is_wanted and not cached.is_empty:
            await self._put_modes(cached)

    async def _read_log(self, cached: CachedStatistic) -> list[LogEntry]:
        task = self.task
        return await self.store.read_log(*task.address, cached.seq, chain=cached.chain, label=task.label)

    async def _resumed(self) -> CachedStatistic:
        task = self.task
        return await resumed(self.store, self.in_thread, task.address, task.label, self.experiment)

    async def _quarantine(self, step: Step, entries: Sequence[LogEntry]) -> None:
        chains = {entry.seq: entry.chain for entry in entries}
        for seq, reason in step.unreadable:
            _log.warning("batch %d of %s is quarantined: %s", seq, self.task, reason)
            QUARANTINED.inc()
            await self.store.quarantine(
                *(*self.task.address, seq, reason, self.task.token), chain=chains[seq], label=self.task.label
            )

    async def _publish(self, scored: ScoredEstimate) -> None:
        SCORING_SECONDS.labels(self.experiment.bound.metric.name, scored.kind).observe(scored.seconds)
        payload = codec.encode(scored.estimate)
        point = json.dumps(scored.estimate.point, separators=(",", ":"))
        await self.store.put_estimate(
            *(*self.task.address, scored.seq, payload, self.task.token),
            chain=scored.chain,
            kernels=self.experiment.kernels,
            point=point,
            label=self.task.label,
        )
        self.task.published = scored.seq
        change = scored.estimate.change
        if change is not None and not self.task.has_changed:
            _log.warning(
                "answers of %s have changed since about pick %d, position %d of the log, by %.2g",
                *(self.task, change.pick, change.position + 1, change.shift),
            )
        self.task.has_changed = change is not None

    async def _put_snapshot(self, cached: CachedStatistic) -> None:
        body = await self.in_thread(cached.freeze)
        await self.store.put_snapshot(
            *(*self.task.address, cached.seq, body, self.task.token),
            chain=cached.chain,
            kernels=self.experiment.kernels,
            label=self.task.label,
        )
        cached.snapshot_taken(len(body))
        SNAPSHOTS.inc()

    async def _put_modes(self, cached: CachedStatistic) -> None:
        task = self.task
        task.is_wanted = False
        generator = (await self.store.state(task.name)).generators[task.ordinal].name
        made, task.modes_seconds = await self.in_thread(timed, cached.modes, generator)
        parts = [ChainedExtent(task.ordinal, cached.seq, cached.estimator.samples, cached.chain)]
        modes = Artefact("modes", task.label, task.ordinal)
        await self.store.put_artefact(
            *(task.name, modes, made.model_dump_json(), task.token, parts), kernels=self.experiment.kernels
        )


def timed(function: Callable[[*Arguments], Computed], *arguments: *Arguments) -> tuple[Computed, float]:
    """The result of a function, and the processor time that it took, which does not depend on other load."""
    begun = time.thread_time()
    result = function(*arguments)
    return result, time.thread_time() - begun
