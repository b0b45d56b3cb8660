"""Common part of jobs that combine all generators: access to their statistics, and storage of the result.

Statistics of this scorer are locked meanwhile. Other statistics are read as copies, from snapshot and log.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar

from optimist.insight.metrics import SCORING_SECONDS
from optimist.records import Artefact, ChainedExtent, CorruptData, GeneratorState, LogGap, Superseded
from optimist.scoring.cached import CachedStatistic
from optimist.scoring.experiments import ScoredExperiment
from optimist.scoring.fairness import FairQueue
from optimist.scoring.score_job import ScoreJob, resumed
from optimist.scoring.tasks import CombinedTask, GeneratorTask, ScoringTask, ScoringTasks, TaskKey
from optimist.scoring.threads import InThread
from optimist.store import Store

_log = logging.getLogger(__name__)
Task = TypeVar("Task", bound=CombinedTask[Any])


class Made(NamedTuple):
    """An artefact as it is stored, and its point in charts."""

    payload: str
    point: str


@dataclass(frozen=True, slots=True)
class StatisticLock:
    """Locks cached statistics of a scorer for a reader: while one is locked, its generator gets no quantum."""

    store: Store
    in_thread: InThread
    tasks: ScoringTasks
    queue: FairQueue
    running: Mapping[ScoringTask[Any], asyncio.Task[None]]
    """The tasks at work now."""
    schedule: Callable[[GeneratorTask], None]
    """Queues a generator for a quantum."""
    locked: dict[TaskKey, GeneratorTask] = field(default_factory=dict[TaskKey, GeneratorTask])

    def is_busy(self, name: str, ordinal: int, label: str) -> bool:
        """True if the generator is at work: `acquire` would wait for the end of its quantum."""
        task = self.tasks.get((name, ordinal, label))
        return task is not None and task in self.running

    async def acquire(
        self, name: str, ordinal: int, label: str, experiment: ScoredExperiment, position: int
    ) -> CachedStatistic | None:
        """A generator's statistic at `position` of its log or later, which nothing changes until `release`.

        None where this scorer does not hold the generator, or cannot score it. What its own quantum would do, such as
        publishing an estimate that is due, is done first, under its own claim.
        """
        task = self.tasks.get((name, ordinal, label))
        if task is None:
            return None
        self.locked[task.key] = task
        task.is_locked, cached = True, None
        try:
            while (running := self.running.get(task)) is not None:
                await asyncio.wait([running])
            if task.state == "waiting":
                self.queue.remove(task)
                task.again = True
            task.state = "working"
            cached = await self._caught_up(task, experiment, position)
        finally:
            if cached is None:
                self.release(name, ordinal, label)
        return cached

    def release(self, name: str, ordinal: int, label: str) -> None:
        """Let a generator that was locked have quanta again."""
        task = self.locked.pop((name, ordinal, label))
        task.is_locked, task.state, task.worked = False, "idle", time.monotonic()
        if task.again:
            task.again = False
            self.schedule(task)

    def look_into(self, name: str, ordinal: int, label: str) -> None:
        """Give an unreadable generator a separate quantum, which records the cause if this scorer gets the claim."""
        self.schedule(self.tasks.task_of(name, ordinal, label))

    async def _caught_up(
        self, task: GeneratorTask, experiment: ScoredExperiment, position: int
    ) -> CachedStatistic | None:
        if not task.is_held or task.experiment is not experiment:
            return None
        try:
            while True:
                task.again = False
                await ScoreJob(self.store, self.in_thread, task, experiment).run()
                if task.cached is None or task.cached.seq >= position:
                    return task.cached
        except Exception as error:
            _log.debug("%s is not locked: %s", task, error)
            # The statistic may hold unpublished batches. Its own quantum begins from the snapshot, and records the
            # cause.
            task.release()
            task.again = True
            return None


@dataclass(frozen=True)
class CombinedJob(Generic[Task]):
    """One quantum of a job on the statistics of all generators, whose task must have a claim and an experiment.
    Statistics of this scorer are locked; others are copies, read from snapshots and logs."""

    store: Store
    in_thread: InThread
    task: Task
    experiment: ScoredExperiment
    lock: StatisticLock

    @asynccontextmanager
    async def _acquired(
        self, generators: Sequence[GeneratorState], *, without_corrupt: bool = False
    ) -> AsyncGenerator[dict[int, CachedStatistic]]:
        """The statistics by ordinal, ascending, each at its generator's position or later, to be read only.

        Nothing changes them until the end of the block. without_corrupt: leave out generators without a readable
        snapshot or log, for which otherwise CorruptData is raised; a separate quantum records the cause. Raises
        Superseded where a log was replaced.
        """
        task, statistics = self.task, dict[int, CachedStatistic]()
        # Copies of generators that are locked now, or retired since, are useless.
        task.copies = {g.ordinal: task.copies[g.ordinal] for g in generators if g.ordinal in task.copies}
        try:
            async with AsyncExitStack() as stack:
                # Generators at work come last: their quantum may be over by then.
                for generator in sorted(generators, key=lambda state: self.lock.is_busy(*self._unit(state))):
                    unit = self._unit(generator)
                    cached = await self.lock.acquire(*unit, self.experiment, generator.seq)
                    if cached is not None:
                        stack.callback(self.lock.release, *unit)
                        task.copies.pop(generator.ordinal, None)
                    else:
                        try:
                            cached = await self._copied(generator)
                        except CorruptData as error:
                            if not without_corrupt:
                                raise
                            _log.warning("generator %r is left out of %s: %s", generator.name, task, error)
                            self.lock.look_into(*unit)
                            continue
                    statistics[generator.ordinal] = cached
                yield dict(sorted(statistics.items()))
        finally:
            task.bytes = sum(copy.memory for copy in task.copies.values())

    async def _put(self, artefact: Artefact, payload: str | bytes, parts: list[ChainedExtent], point: str = "") -> None:
        task, kernels = self.task, self.experiment.kernels
        await self.store.put_artefact(task.name, artefact, payload, task.token, parts, point=point, kernels=kernels)

    def _observe(self, kind: str, seconds: float) -> None:
        SCORING_SECONDS.labels(self.experiment.bound.metric.name, kind).observe(seconds)

    def _unit(self, generator: GeneratorState) -> tuple[str, int, str]:
        return self.task.name, generator.ordinal, self.task.label

    async def _copied(self, generator: GeneratorState, attempts: int = 5) -> CachedStatistic:
        """A statistic to be read, at the generator's position or later, from a snapshot and the log behind it.

        The copy is kept for the next time. Only the scorer that has the generator publishes.
        attempts: how often the log is read from the snapshot on, where another scorer trims it meanwhile.
        """
        task = self.task
        for attempt in range(1, attempts + 1):
            try:
                cached = task.copies.get(generator.ordinal)
                if cached is None:
                    log = task.name, generator.ordinal
                    cached = await resumed(self.store, self.in_thread, log, task.label, self.experiment)
                if await self._read(cached, generator):
                    task.copies[generator.ordinal] = cached
                    return cached
            except LogGap as error:
                # Trimmed meanwhile; or Redis has lost the end of the log, and perhaps kernels that samples fixed.
                if self.experiment.kernels and generator.ordinal in task.copies:
                    raise Superseded(str(error)) from None
                if attempt == attempts:
                    raise CorruptData(str(error)) from None
            task.copies.pop(generator.ordinal, None)
        raise Superseded(f"batches of generator {generator.name!r} are retracted while they are read")

    async def _read(self, cached: CachedStatistic, generator: GeneratorState) -> bool:
        """Apply the log. False if a batch was retracted since the statistic was begun."""
        log, label = (self.task.name, generator.ordinal), self.task.label
        while entries := await self.store.read_log(*log, cached.seq, chain=cached.chain, label=label):
            if not cached.knows(entries):
                return False
            await self.in_thread(cached.apply, entries, sys.maxsize)
        if cached.seq < max(generator.seq, cached.reaches):
            raise LogGap(f"log of generator {generator.name!r} in {log[0]!r} ends before {generator.seq}")
        return True


def parts_of(statistics: dict[int, CachedStatistic]) -> list[ChainedExtent]:
    """Position of each of these statistics in its log, as stored with an artefact."""
    return [
        ChainedExtent(ordinal, cached.seq, cached.estimator.samples, cached.chain)
        for ordinal, cached in statistics.items()
    ]
