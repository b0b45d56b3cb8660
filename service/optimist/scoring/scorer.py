"""The scorer's loops: which estimates, mixtures and routes are due, whether this process may make them, and when."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import signal
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from optimist.insight.metrics import CLAIMS_LOST, SCORING_FAILURES, TAKEOVERS
from optimist.metrics.threads import limit_threads
from optimist.process import answer_soon, give_back_from
from optimist.records import Damaged, NotFound, StoreError, Superseded
from optimist.scoring.catching_up import CatchingUp
from optimist.scoring.experiments import Experiments
from optimist.scoring.fairness import SHORT, FairQueue, SweepSchedule
from optimist.scoring.lending import Lending
from optimist.scoring.mixing import Mixing
from optimist.scoring.record import GeneratorRecord, MixtureRecord, Record, RoutesRecord, Subject
from optimist.scoring.records import Records
from optimist.scoring.routing import Routing
from optimist.scoring.threads import Threads, Work
from optimist.store import DUE, MIXTURES, MODES, ROUTES, Store, open_store
from optimist.store.connect import shown, wait_for_server
from optimist.store.reaching import Outage
from optimist_client.errors import reason

_log = logging.getLogger(__name__)
LARGE = 4 * 2**20
"""Blocks of memory of this size or more are returned to the system as soon as they are freed."""


class Scorer:
    """Scores generators of every experiment in the store, as many at once as it has `threads` for numerics.

    What no ask waits for, such as watched metrics, has a thread less, of its own and of low priority.

    A generator is claimed when an estimate of it is due, and kept while it has batches: any number of scorers share the
    work. A scorer may die or be paused at any moment: everything in it is derived from snapshot and log, so another
    scorer computes the same numbers, and nothing is published under a claim that was taken over.

    Who works next is decided by `FairQueue`. Statistics live on the `device`. They stay in memory between turns,
    with their feature maps and references, up to `warm_bytes` (None: no limit); the latest one always does. The least
    recently used ones are dropped, and computed again when they are needed.
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
        self._experiments = Experiments(store, self._in_thread, torch.device(device))
        self._warm_bytes = math.inf if warm_bytes is None else warm_bytes
        self._records = Records()
        self._rota = SweepSchedule()
        self._turns: dict[Record[Any], asyncio.Task[None]] = {}
        self._lending = Lending(store, self._in_thread, self._records, self._queue, self._turns, self._schedule)
        self._outage = Outage()
        self._swept = time.monotonic()
        self._is_ending = False
        self._epoch = store.epoch

    @property
    def is_alive(self) -> bool:
        """Whether the sweeps go on; they do while Redis is unreachable, too."""
        return time.monotonic() - self._swept < STUCK

    async def run(self) -> None:
        """Score until cancelled; then release all generators, so that others need not wait for the claims to end."""
        loops = [asyncio.create_task(loop()) for loop in (self._sweep_for_ever, self._renew_for_ever)]
        try:
            async with self._store.announcements(DUE, MODES, MIXTURES, ROUTES) as announcements:
                async for announcement in announcements:
                    if announcement is None:
                        self._rota.forget()
                        continue
                    self._rota.notice(announcement.experiment)
                    for record in self._records.hear(announcement):
                        self._schedule(record)
        finally:
            self._is_ending = True
            tasks = [*loops, *self._turns.values()]
            for task in tasks:
                task.cancel()
            # Wait until they have closed their connections. A call to Redis may swallow a cancellation, as wait_for of
            # Python 3.11 does if result and cancellation coincide; such a task ends after its turn.
            await asyncio.wait(tasks, timeout=2.0)
            self._in_thread.end()
            with contextlib.suppress(StoreError, TimeoutError):
                async with asyncio.timeout(2.0):
                    for record in self._records.every:
                        with contextlib.suppress(NotFound):
                            await self._release(record)

    async def _sweep_for_ever(self) -> None:
        while not self._is_ending:
            with _going_on(), self._outage.noticed():
                names = set(await self._store.indexed())
                self._records.keep(names)
                self._experiments.keep(names)
                for name in self._rota.next(names):
                    with _going_on():
                        await self._sweep(name)
                held = sum(record.is_held for record in self._records.every)
                self._records.overview.show(len(names), held, kept(self._records.every, self._experiments))
            self._swept = time.monotonic()
            await asyncio.sleep(SWEEP)

    async def _sweep(self, name: str) -> None:
        state = await self._store.state(name)
        watched = await self._store.watched(name, estimates=False) if state.labels else {}
        due = list(self._records.look_at(name, state, watched))
        self._rota.seen(name, state, is_due=bool(due))
        for record in due:
            self._schedule(record)

    async def _renew_for_ever(self) -> None:
        while not self._is_ending:
            await asyncio.sleep(RENEW)
            await self._renew_all()

    async def _renew_all(self) -> None:
        now = time.monotonic()
        renewed: dict[str, list[Record[Any]]] = {}
        for record in [record for record in self._records.every if record.is_held]:
            if record.state == "idle" and now - record.worked > IDLE:
                with _going_on():
                    await self._release(record)
            elif record.state != "waiting" or now - record.queued <= QUEUED:
                renewed.setdefault(record.name, []).append(record)
        for name, records in renewed.items():
            with _going_on():
                await self._renew(name, records)

    async def _renew(self, name: str, records: list[Record[Any]]) -> None:
        try:
            claims = await self._store.claims(
                name, [(record.ordinal, record.label) for record in records], self._owner, CLAIM
            )
        except StoreError:
            # After an outage Redis may have lost the end of the log: start again from the snapshot.
            claims = [None] * len(records)
        for record, claim in zip(records, claims, strict=True):
            if record.state != "working" and (claim is None or claim.token != record.token):
                record.release()

    async def _release(self, record: Record[Any]) -> None:
        token = record.token
        record.release()
        if token:
            await self._store.end_claim(*record.place, token, record.label)

    def _schedule(self, record: Record[Any]) -> None:
        """Queue a record for a turn; if it is working, for another turn after this one."""
        record.problem = ""
        if record.state == "working" or record.is_lent:
            record.again = True
        elif record.state == "idle":
            record.state, record.queued = "waiting", time.monotonic()
            self._queue.add(record)
            self._give_turns()

    def _give_turns(self) -> None:
        # Claimed only when a thread is free, so that scorers with more free threads claim more.
        while not self._is_ending and (record := self._queue.next()) is not None:
            record.state, record.again = "working", False
            self._turns[record] = asyncio.create_task(self._turn(record))

    async def _turn(self, record: Record[Any]) -> None:
        again, work = False, Work(record.decides)
        try:
            with self._in_thread.working(work):
                await self._work(record)
            again = record.again
        except Superseded as error:
            CLAIMS_LOST.inc()
            logger.debug("%s is released: %s", record, error)
            record.release()
            self._experiments.forget_fitted(record.subject)
        except NotFound:
            record.release()
        except Damaged as error:
            logger.error("%s cannot be scored: %s", record, error)
            await self._give_in(record, error)
        except StoreError as error:
            SCORING_FAILURES.inc()
            logger.warning("scoring %s is broken off: %s", record, error)
            # The statistic may hold what could not be published: start again from the snapshot.
            record.release()
            record.problem = "broken off"
        except Exception as error:
            logger.exception("scoring %s failed", record)
            await self._give_in(record, error)
        finally:
            record.worked = time.monotonic()
            evict_beyond(self._records.every, self._experiments, self._warm_bytes)
            record.state = "idle"
            self._queue.end(record, work.seconds)
            del self._turns[record]
            if again:
                self._schedule(record)
            self._give_turns()

    async def _work(self, record: Record[Any]) -> None:
        if self._store.epoch != self._epoch:
            self._start_over()
        if record.seconds is None:
            record.seconds = await self._experiments.expected_seconds(record)
            if record.seconds >= SHORT:
                record.again = True  # it is queued again, with the long turns
                return
        claim = await self._store.claim(*record.place, self._owner, CLAIM, record.label)
        if claim is None:
            record.release()
            record.forget_wish()
            return
        TAKEOVERS.inc(claim.taken_over)
        record.token = claim.token
        experiment = await self._experiments.get(record, claim)
        if experiment is None:
            await self._release(record)
            return
        if record.experiment is not experiment:
            record.start(experiment)
        if isinstance(record, GeneratorRecord):
            await CatchingUp(self._store, self._in_thread, record, experiment, self._queue.is_over).run()
        elif isinstance(record, MixtureRecord):
            await Mixing(self._store, self._in_thread, record, experiment, self._lending).run()
        elif isinstance(record, RoutesRecord):
            await Routing(self._store, self._in_thread, record, experiment, self._lending).run()

    def _start_over(self) -> None:
        """Drop what was derived from another server's data, because this server may have lost part of it."""
        self._epoch = self._store.epoch
        self._rota.forget()
        for record in self._records.every:
            if record.state != "working":
                record.release()
        self._experiments.forget_fitted()

    async def _give_in(self, record: Record[Any], error: Exception) -> None:
        """Store the reason why a generator is not scored, for the report. It is tried again when an estimate is due."""
        SCORING_FAILURES.inc()
        # The statistic may be incomplete.
        token = record.token
        record.release()
        with contextlib.suppress(StoreError):
            claim = await self._store.claim(*record.place, self._owner, CLAIM, record.label)
            # If another scorer had the claim in between, it may have trimmed the log that was being read.
            if claim is not None and token in ("", claim.token):
                await self._store.put_damage(*record.place, reason(error), claim.token, record.label)
                record.problem = "failed"


@contextmanager
def _going_on() -> Iterator[None]:
    """Keep a loop running after an error: Redis may be unreachable, or the data of one experiment damaged."""
    try:
        yield
    except StoreError:
        pass  # tried again in the next turn
    except Exception:
        logger.exception("a turn of the scorer's loop failed")


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
            _log.info("the scorer begins, on %s (Redis: %s)", device, shown(redis_url))
            for number in (signal.SIGINT, signal.SIGTERM):
                asyncio.get_running_loop().add_signal_handler(number, task.cancel)
            if begun is not None:
                begun(scorer)
            with contextlib.suppress(asyncio.CancelledError):
                await task

    # Eigenproblems leave some 400 MiB of freed blocks at d = 2048.
    give_back_from(LARGE)
    answer_soon()
    asyncio.run(run())


logger = logging.getLogger(__name__)

SWEEP = 1.0
"""Seconds between sweeps of experiments, for lost announcements and scorers that died."""
CLAIM = 4.0
"""Seconds after which another scorer may take over a generator whose scorer does not renew its claim."""
RENEW = 1.0
IDLE = 60.0
"""Seconds without work after which a generator is released."""
STUCK = 60.0
"""Seconds without a complete sweep after which the scorer counts as dead."""
QUEUED = 2.0
"""Seconds that a generator may wait for a thread; after that its claim is not renewed, so that others can claim it."""


def kept(records: Iterable[Record[Any]], experiments: Experiments) -> int:
    """Bytes of cached statistics, copies for mixtures and routes among them, and of the feature maps and references."""
    return sum(record.bytes for record in records) + experiments.bytes


def evict_beyond(records: Collection[Record[Any]], experiments: Experiments, limit: float) -> None:
    """Drop the least recently used parts until the rest takes at most `limit` bytes; those at work keep theirs.

    A feature map was last used when the latest generator of its experiment and metric was. It is dropped after the
    statistics of all of them, which refer to it; a reference is dropped with the last bound that uses it.
    """
    left = kept(records, experiments)
    if left <= limit:
        return
    used: dict[Subject, float] = {}
    for record in records:
        used[record.subject] = max(used.get(record.subject, 0.0), record.worked)
    busy = {record.subject for record in records if record.state == "working"}
    droppable = [record for record in records if record.bytes and record.state != "working"]
    statistics = [(record.worked, False, record.subject, record) for record in droppable]
    maps = [(used.get(subject, 0.0), True, subject, None) for subject in experiments.cached if subject not in busy]
    for _, _, subject, record in sorted([*statistics, *maps], key=lambda entry: entry[:3]):
        if left <= limit:
            return
        if record is not None:
            left -= record.bytes
            record.evict()
        else:
            left -= experiments.evict(subject)
            for one in records:
                if one.subject == subject:
                    one.seconds = None  # unknown again: the next turn has to build the bound
