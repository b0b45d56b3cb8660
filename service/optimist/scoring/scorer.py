"""The scorer's loops: which estimates, mixtures and models are due, whether this process may make them, and when."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import math
import signal
import time
import uuid
from collections.abc import Callable, Collection, Generator, Iterable
from contextlib import contextmanager
from typing import Any

import torch

from optimist.insight.metrics import CLAIMS_LOST, SCORING_FAILURES, TAKEOVERS
from optimist.metrics.threads import limit_threads
from optimist.process import answer_soon, give_back_from
from optimist.records import CorruptData, NotFound, StoreError, Superseded
from optimist.scoring.experiments import ExperimentCache
from optimist.scoring.fairness import SHORT, FairQueue, SweepSchedule, owner_of
from optimist.scoring.mixture_job import MixtureJob
from optimist.scoring.model_job import ModelJob
from optimist.scoring.score_job import ScoreJob
from optimist.scoring.statistic_set import StatisticLock
from optimist.scoring.tasks import GeneratorTask, MixtureTask, ModelTask, ScoringTask, ScoringTasks, Subject
from optimist.scoring.threads import Threads, Work
from optimist.store import DUE, WANTED, Store, open_store
from optimist.store.clients import Outage
from optimist.store.connection import format_url, wait_for_server
from optimist_client.errors import reason

_log = logging.getLogger(__name__)
CLAIM = 4.0
"""Seconds after which another scorer may take over a generator whose scorer does not renew its claim."""


class Scorer:
    """Scores generators of every experiment in the store, as many at once as it has `threads` for numerics.

    Work that no ask waits for, such as watched metrics, has one thread fewer, separate and of low priority.

    A generator is claimed when an estimate of it is due, and kept while it has batches: any number of scorers share the
    work. A scorer may die or be paused at any moment: everything in it is derived from snapshot and log, so another
    scorer computes the same numbers, and nothing is published under a claim that was taken over.

    `FairQueue` decides what is scored next. Statistics live on the `device`. Between quanta, statistics stay in memory
    with their feature maps and references, up to `warm_bytes` (None: no limit); the latest always does. The least
    recently used are dropped, and computed again on demand.
    """

    def __init__(
        self, store: Store, threads: int = 2, *, device: torch.device | str = "cpu", warm_bytes: int | None = None
    ) -> None:
        # In each one thread, however many cores there are: the last bits of an estimate depend on how many compute it.
        limit_threads(1)
        self._store = store
        self._owner = uuid.uuid4().hex
        behind = max(1, threads - 1)
        self._in_thread = Threads(threads, behind)
        self._queue = FairQueue(threads, behind)
        self._experiments = ExperimentCache(store, self._in_thread, torch.device(device))
        self._warm_bytes = math.inf if warm_bytes is None else warm_bytes
        self._tasks = ScoringTasks()
        self._sweeps = SweepSchedule()
        self._running: dict[ScoringTask[Any], asyncio.Task[None]] = {}
        self._lock = StatisticLock(store, self._in_thread, self._tasks, self._queue, self._running, self._schedule)
        self._outage = Outage()
        self._swept = time.monotonic()
        self._is_ending = False
        self._incarnation = store.incarnation

    @property
    def is_alive(self) -> bool:
        """True while the sweeps continue; unreachable Redis does not end them."""
        # The scorer counts as dead after 60 seconds without a complete sweep.
        return time.monotonic() - self._swept < 60.0

    async def run(self) -> None:
        """Score until cancelled; then release all generators, so that other scorers need not wait for the claims to
        end."""
        loops = [asyncio.create_task(loop()) for loop in (self._sweep_for_ever, self._renew_for_ever)]
        try:
            async with self._store.announcements(DUE, WANTED) as announcements:
                async for announcement in announcements:
                    if announcement is None:
                        self._sweeps.forget()
                        continue
                    self._sweeps.notice(announcement.experiment)
                    with _surviving_errors():
                        await self._meet(announcement.experiment)
                    for task in self._tasks.hear(announcement):
                        self._schedule(task)
        finally:
            self._is_ending = True
            tasks = [*loops, *self._running.values()]
            for task in tasks:
                task.cancel()
            # Wait until they have closed their connections. A call to Redis may swallow a cancellation, as wait_for of
            # Python 3.11 does if result and cancellation coincide; such a coroutine ends after its quantum.
            await asyncio.wait(tasks, timeout=2.0)
            self._in_thread.end()
            with contextlib.suppress(StoreError, TimeoutError):
                async with asyncio.timeout(2.0):
                    await self._store.leave(self._owner)
                    for task in self._tasks.every:
                        with contextlib.suppress(NotFound):
                            await self._release(task)

    async def _meet(self, name: str) -> None:
        """Read the labels of an experiment that no sweep has seen yet. If that fails, a sweep finds its work."""
        if name not in self._tasks.labels and (labels := await self._store.metric_labels(name)):
            self._tasks.labels[name] = labels

    async def _sweep_for_ever(self) -> None:
        while not self._is_ending:
            with _surviving_errors(), self._outage.noticed():
                names = set(await self._store.indexed())
                scorers = tuple(await self._store.present(self._owner, CLAIM))
                self._tasks.keep(names)
                self._experiments.keep(names)
                for name in await self._store.ended_copies(names):
                    await self._store.delete_experiment(name)
                for name in self._sweeps.next(names, lambda name, of=scorers: owner_of(name, of) == self._owner):
                    with _surviving_errors():
                        await self._sweep(name)
                held = sum(task.is_held for task in self._tasks.every)
                self._tasks.overview.show(len(names), held, kept(self._tasks.every, self._experiments))
            self._swept = time.monotonic()
            await asyncio.sleep(1.0)  # for lost announcements and scorers that died

    async def _sweep(self, name: str) -> None:
        state = await self._store.state(name, all_metrics=True, estimates=False)
        due = list(self._tasks.look_at(name, state))
        self._sweeps.seen(name, state, is_due=bool(due))
        for task in due:
            self._schedule(task)

    async def _renew_for_ever(self) -> None:
        while not self._is_ending:
            await asyncio.sleep(1.0)
            await self._renew_all()
            # A thread that was kept free for short tasks may be free for others by now.
            self._start_tasks()

    async def _renew_all(self) -> None:
        now = time.monotonic()
        renewed: dict[str, list[ScoringTask[Any]]] = {}
        for task in [task for task in self._tasks.every if task.is_held]:
            # A generator is released after a minute without work.
            if task.state == "idle" and now - task.worked > 60.0:
                with _surviving_errors():
                    await self._release(task)
            # After two seconds in the queue a claim is not renewed, so that other scorers can claim the generator.
            elif task.state != "waiting" or now - task.queued <= 2.0:
                renewed.setdefault(task.name, []).append(task)
        for name, tasks in renewed.items():
            with _surviving_errors():
                await self._renew(name, tasks)

    async def _renew(self, name: str, tasks: list[ScoringTask[Any]]) -> None:
        try:
            claims = await self._store.claims(name, [(task.ordinal, task.label) for task in tasks], self._owner, CLAIM)
        except StoreError:
            # After an outage Redis may have lost the end of the log: start again from the snapshot.
            claims = [None] * len(tasks)
        for task, claim in zip(tasks, claims, strict=True):
            if task.state != "working" and (claim is None or claim.token != task.token):
                task.release()

    async def _release(self, task: ScoringTask[Any]) -> None:
        token = task.token
        task.release()
        if token:
            await self._store.end_claim(*task.address, token, task.label)

    def _schedule(self, task: ScoringTask[Any]) -> None:
        """Queue a task for a quantum; if it is working, for another quantum after this one."""
        task.problem = ""
        if task.state == "working" or task.is_locked:
            task.again = True
        elif task.state == "idle":
            task.state, task.queued = "waiting", time.monotonic()
            self._queue.add(task)
            self._start_tasks()

    def _start_tasks(self) -> None:
        # Claimed only when a thread is free, so that scorers with more free threads claim more.
        while not self._is_ending and (task := self._queue.next()) is not None:
            task.state, task.again = "working", False
            self._running[task] = asyncio.create_task(self._run_task(task))

    async def _run_task(self, task: ScoringTask[Any]) -> None:
        again, work = False, Work(task.is_ahead)
        try:
            with self._in_thread.working(work):
                await self._work(task)
            again = task.again
        except Superseded as error:
            CLAIMS_LOST.inc()
            _log.debug("%s is released: %s", task, error)
            task.release()
            self._experiments.forget_fitted(task.subject)
        except NotFound:
            task.release()
        except CorruptData as error:
            _log.error("%s cannot be scored: %s", task, error)
            await self._give_in(task, error)
        except StoreError as error:
            SCORING_FAILURES.inc()
            _log.warning("scoring %s is broken off: %s", task, error)
            # The statistic may hold unpublished batches: start again from the snapshot.
            task.release()
            task.problem = "broken off"
        except Exception as error:
            _log.exception("scoring %s failed", task)
            await self._give_in(task, error)
        finally:
            task.worked = time.monotonic()
            evict_beyond(self._tasks.every, self._experiments, self._warm_bytes)
            task.state = "idle"
            self._queue.end(task, work.seconds)
            del self._running[task]
            if again:
                self._schedule(task)
            self._start_tasks()

    async def _work(self, task: ScoringTask[Any]) -> None:
        if self._store.incarnation != self._incarnation:
            self._start_over()
        if task.seconds is None:
            task.seconds = await self._experiments.expected_seconds(task)
            if task.seconds >= SHORT:
                task.again = True  # it is queued again, with the long quanta
                return
        claim = await self._store.claim(*task.address, self._owner, CLAIM, task.label)
        if claim is None:
            task.release()
            task.is_wanted = False
            return
        TAKEOVERS.inc(claim.taken_over)
        task.token = claim.token
        experiment = await self._experiments.get(task, claim)
        if experiment is None:
            await self._release(task)
            return
        if task.experiment is not experiment:
            task.start(experiment)
        if isinstance(task, GeneratorTask):
            await ScoreJob(self._store, self._in_thread, task, experiment, self._queue.is_over).run()
        elif isinstance(task, MixtureTask):
            await MixtureJob(self._store, self._in_thread, task, experiment, self._lock).run()
        elif isinstance(task, ModelTask):
            await ModelJob(self._store, self._in_thread, task, experiment, self._lock).run()

    def _start_over(self) -> None:
        """Drop data derived from another server, because this server may have lost part of it."""
        self._incarnation = self._store.incarnation
        self._sweeps.forget()
        for task in self._tasks.every:
            if task.state != "working":
                task.release()
        self._experiments.forget_fitted()

    async def _give_in(self, task: ScoringTask[Any], error: Exception) -> None:
        """Store the reason why a generator is not scored, for the report. It is tried again when an estimate is due."""
        SCORING_FAILURES.inc()
        # The statistic may be incomplete.
        token = task.token
        task.release()
        with contextlib.suppress(StoreError):
            claim = await self._store.claim(*task.address, self._owner, CLAIM, task.label)
            # If another scorer had the claim in between, it may have trimmed the log that was being read.
            if claim is not None and token in ("", claim.token):
                await self._store.put_scoring_error(*task.address, reason(error), claim.token, task.label)
                task.problem = "failed"


@contextmanager
def _surviving_errors() -> Generator[None]:
    """Keep a loop running after an error: Redis may be unreachable, or the data of one experiment damaged."""
    try:
        yield
    except StoreError:
        pass  # tried again in the next round
    except Exception:
        _log.exception("a round of the scorer's loop failed")


def score_for_ever(
    redis_url: str, device: torch.device, warm_bytes: int | None, begun: Callable[[Scorer], None] | None = None
) -> None:
    """Score until SIGINT or SIGTERM, then release all generators; `begun` is called once Redis answers.

    Raises CannotStart if Redis is unsuitable.
    """

    async def run() -> None:
        await wait_for_server(redis_url)
        async with open_store(redis_url) as store:
            scorer = Scorer(store, device=device, warm_bytes=warm_bytes)
            task = asyncio.create_task(scorer.run())
            _log.info("the scorer begins, on %s (Redis: %s)", device, format_url(redis_url))

            def end(received: signal.Signals) -> None:
                _log.info("%s: the scorer releases its generators and ends", received.name)
                task.cancel()

            for number in (signal.SIGINT, signal.SIGTERM):
                asyncio.get_running_loop().add_signal_handler(number, end, number)
            if begun is not None:
                begun(scorer)
            with contextlib.suppress(asyncio.CancelledError):
                await task

    # Larger blocks are returned to the system as soon as they are freed: of eigenproblems at d = 2048 some 400 MiB.
    give_back_from(4 * 2**20)
    answer_soon()
    # Objects made so far stay: the collector need not go through them, and torch, again and again.
    gc.freeze()
    asyncio.run(run())


def kept(tasks: Iterable[ScoringTask[Any]], experiments: ExperimentCache) -> int:
    """The bytes of cached statistics, copies for mixtures and models among them, of feature maps and of references."""
    return sum(task.bytes for task in tasks) + experiments.bytes


def evict_beyond(tasks: Collection[ScoringTask[Any]], experiments: ExperimentCache, limit: float) -> None:
    """Drop the least recently used parts until the rest takes at most `limit` bytes; tasks at work keep their parts.

    A feature map is as recently used as the latest generator of its experiment and metric. It is dropped after all
    statistics that refer to it; a reference is dropped with the last bound that uses it.
    """
    left = kept(tasks, experiments)
    if left <= limit:
        return
    used: dict[Subject, float] = {}
    for task in tasks:
        used[task.subject] = max(used.get(task.subject, 0.0), task.worked)
    busy = {task.subject for task in tasks if task.state == "working"}
    droppable = [task for task in tasks if task.bytes and task.state != "working"]
    statistics = [(task.worked, False, task.subject, task) for task in droppable]
    maps = [(used.get(subject, 0.0), True, subject, None) for subject in experiments.cached if subject not in busy]
    for _, _, subject, task in sorted([*statistics, *maps], key=lambda entry: entry[:3]):
        if left <= limit:
            return
        if task is not None:
            left -= task.bytes
            task.evict()
        else:
            left -= experiments.evict(subject)
            for task in tasks:
                if task.subject == subject:
                    task.seconds = None  # unknown again: the next quantum has to build the bound
