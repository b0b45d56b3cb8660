"""The scorer's loop: whose estimate is due, whether this process may make it, and when."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import os
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import torch

from optimist.insight.metrics import CLAIMS_LOST, SCORING_FAILURES, TAKEOVERS
from optimist.scoring.budget import Key, cool_down, kept
from optimist.scoring.held import LONGEST_TAIL, Held
from optimist.scoring.overview import Overview
from optimist.scoring.questions import Arguments, Questions, Result
from optimist.store import DUE, MODES, Damaged, GeneratorState, NotFound, Store, StoreError, Superseded

logger = logging.getLogger(__name__)

SWEEP = 1.0
"""Seconds between looks at every experiment, for batches whose announcement was lost and scorers that died."""
CLAIM = 4.0
"""Seconds after which another scorer may take over a generator whose scorer shows no life."""
RENEW = 1.0
IDLE = 60.0
"""Seconds without work after which a generator is let go of."""
STUCK = 60.0
"""Seconds for a look at every experiment, after which something must be wrong."""
QUEUED = 2.0
"""Seconds that a generator may wait for a free thread before others may have it."""


class Scorer:
    """Scores generators of every experiment in the store, as many at once as it has `threads` for numerics.

    A generator is claimed when an estimate of it is due, and kept while it has batches: any number of scorers share the
    work. One may die, or be paused, at any moment: what it holds is derived from snapshot and log, another scorer
    reaches the same numbers, and nothing is published under a claim that was taken over.

    Statistics live on the `device`. They are kept warm between batches, with the feature maps and references that they
    are scored by, up to `warm_bytes` (None: all of them), the latest one always; those used longest ago are dropped,
    and made again when they are needed: statistics from snapshot and log, maps from the config and what was fitted.
    """

    def __init__(
        self, store: Store, threads: int = 2, *, device: torch.device | str = "cpu", warm_bytes: int | None = None
    ) -> None:
        # More threads than cores, and eigenproblems wait for each other at every step, many times slower.
        torch.set_num_threads(max(1, (os.cpu_count() or 1) // threads))
        self._store = store
        self._owner = uuid.uuid4().hex
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="scorer")
        self._slots = asyncio.Semaphore(threads)
        self._questions = Questions(store, self._in_thread, torch.device(device))
        self._warm_bytes = math.inf if warm_bytes is None else warm_bytes
        self._held: dict[Key, Held] = {}
        self._worked: dict[Key, float] = {}
        self._queued: dict[Key, float] = {}
        self._busy: dict[Key, asyncio.Task[None]] = {}
        self._again: set[Key] = set()
        self._wanted: set[Key] = set()
        # Tried again when the next estimate is due, not every second.
        self._failed: set[Key] = set()
        # Tried again at the next sweep.
        self._broken_off: set[Key] = set()
        self._overview = Overview()
        self._turned = time.monotonic()
        self._ends = False
        self._epoch = store.epoch

    @property
    def is_alive(self) -> bool:
        """Whether it goes its rounds, be it in vain while Redis is away."""
        return time.monotonic() - self._turned < STUCK

    async def run(self) -> None:
        """Score until cancelled; then let go of all generators, so that others need not wait for the claims to end."""
        always = [asyncio.create_task(loop()) for loop in (self._sweep_for_ever, self._renew_for_ever)]
        try:
            async with self._store.announcements(DUE, MODES) as announcements:
                async for announcement in announcements:
                    if announcement is None:
                        continue
                    key = (announcement.experiment, announcement.generator)
                    if announcement.channel == MODES:
                        self._wanted.add(key)
                    self._schedule(key)
        finally:
            self._ends = True
            tasks = [*always, *self._busy.values()]
            for task in tasks:
                task.cancel()
            # They leave their connections behind, else. A call to Redis may swallow a cancellation (asyncio.wait_for
            # of Python 3.11 does, where both come at once): such a task goes on to the end of its turn.
            await asyncio.wait(tasks, timeout=2.0)
            self._pool.shutdown(wait=False, cancel_futures=True)
            with contextlib.suppress(StoreError, TimeoutError):
                async with asyncio.timeout(2.0):
                    for key in list(self._held):
                        with contextlib.suppress(NotFound):
                            await self._let_go(key)

    async def _sweep_for_ever(self) -> None:
        while not self._ends:
            with _going_on():
                names = await self._store.experiments()
                self._questions.keep(set(names))
                for name in names:
                    with _going_on():
                        await self._sweep(name)
                self._overview.show(len(names), len(self._held), kept(self._held, self._questions))
            self._turned = time.monotonic()
            await asyncio.sleep(SWEEP)

    async def _sweep(self, name: str) -> None:
        for generator in (await self._store.state(name)).generators:
            key = (name, generator.ordinal)
            outgrown = has_outgrown(generator, self._held.get(key))
            self._overview.add(name, generator, outgrown)
            owed = key in self._broken_off or outgrown or generator.due_seq > generator.estimate_seq
            if owed and key not in self._failed:
                self._schedule(key)

    async def _renew_for_ever(self) -> None:
        while not self._ends:
            await asyncio.sleep(RENEW)
            # A call of its own, whose end lets the last generator go.
            await self._renew_all()

    async def _renew_all(self) -> None:
        now = time.monotonic()
        kept: dict[str, list[int]] = {}
        for key in list(self._held):
            if now - self._queued.get(key, now) > QUEUED:
                continue  # runs out while this process is too busy
            if key not in self._busy and now - self._worked.get(key, now) > IDLE:
                with _going_on():
                    await self._let_go(key)
            else:
                kept.setdefault(key[0], []).append(key[1])
        for name, generators in kept.items():
            with _going_on():
                await self._renew(name, generators)

    async def _renew(self, name: str, generators: list[int]) -> None:
        try:
            claims = await self._store.claims(name, generators, self._owner, CLAIM)
        except StoreError:
            # A Redis that was away may have lost the end of the log: what was taken of it is taken again.
            claims = [None] * len(generators)
        for generator, claim in zip(generators, claims, strict=True):
            key = (name, generator)
            held = self._held.get(key)
            if key not in self._busy and held is not None and (claim is None or claim.token != held.token):
                del self._held[key]

    async def _let_go(self, key: Key) -> None:
        held = self._held.pop(key, None)
        self._worked.pop(key, None)
        if held is not None:
            await self._store.release_claim(*key, held.token)

    def _schedule(self, key: Key) -> None:
        self._failed.discard(key)
        self._broken_off.discard(key)
        if key in self._busy:
            self._again.add(key)
        else:
            self._busy[key] = asyncio.create_task(self._work(key))

    async def _work(self, key: Key) -> None:
        try:
            self._queued[key] = time.monotonic()
            # Claimed only with a thread to work in, so that scorers with more of them free take more.
            async with self._slots:
                del self._queued[key]
                while True:
                    self._again.discard(key)
                    await self._score(key)
                    self._cool_down()
                    if key not in self._again or self._ends:
                        return
        except Superseded as error:
            CLAIMS_LOST.inc()
            logger.info("%s/%d is let go of: %s", *key, error)
            self._held.pop(key, None)
            self._questions.forget_fitted(key[0])
        except NotFound:
            self._held.pop(key, None)
        except Damaged as error:
            logger.error("%s/%d cannot be scored: %s", *key, error)
            await self._give_in(key, error)
        except StoreError as error:
            SCORING_FAILURES.inc()
            logger.warning("scoring %s/%d waits: %s", *key, error)
            # What was taken may not be published: it is taken again, from the snapshot.
            self._held.pop(key, None)
            self._broken_off.add(key)
        except Exception as error:
            logger.exception("scoring %s/%d failed", *key)
            await self._give_in(key, error)
        finally:
            self._queued.pop(key, None)
            self._worked[key] = time.monotonic()
            self._cool_down()
            del self._busy[key]

    async def _score(self, key: Key) -> None:
        if self._store.epoch != self._epoch:
            self._start_over()
        claim = await self._store.claim(*key, self._owner, CLAIM)
        if claim is None:
            self._held.pop(key, None)
            self._wanted.discard(key)
            return
        TAKEOVERS.inc(claim.taken_over)
        asked = await self._questions.get(*key, claim)
        if asked is None:
            await self._store.release_claim(*key, claim.token)
            return
        held = self._held.get(key)
        if held is None or held.asked is not asked:
            held = self._held[key] = Held(self._store, self._in_thread, *key, asked, claim.token)
        held.token = claim.token
        held.wants_modes |= key in self._wanted
        self._wanted.discard(key)
        await held.catch_up()

    def _start_over(self) -> None:
        """Drop what was taken from another server: this one may have lost part of it."""
        self._epoch = self._store.epoch
        for key in self._held.keys() - self._busy.keys():
            del self._held[key]
        self._questions.forget_fitted()

    def _cool_down(self) -> None:
        # One that waits for a thread has nothing in hand yet.
        at_work = self._busy.keys() - self._queued.keys()
        cool_down(self._held, self._questions, self._worked, at_work, self._warm_bytes)

    async def _give_in(self, key: Key, error: Exception) -> None:
        """Say in the report why a generator is not scored; it is tried again from its snapshot when one is due."""
        SCORING_FAILURES.inc()
        # The statistic may have taken half of what was read.
        held = self._held.pop(key, None)
        with contextlib.suppress(StoreError):
            claim = await self._store.claim(*key, self._owner, CLAIM)
            # Where another scorer had the claim in between, it may have trimmed what was being read.
            if claim is not None and (held is None or held.token == claim.token):
                await self._store.put_damage(*key, f"{type(error).__name__}: {error}", claim.token)
                self._failed.add(key)

    def _in_thread(self, function: Callable[[*Arguments], Result], *arguments: *Arguments) -> asyncio.Future[Result]:
        return asyncio.get_running_loop().run_in_executor(self._pool, function, *arguments)


def has_outgrown(generator: GeneratorState, held: Held | None) -> bool:
    """Whether a generator's log is so long that it is time for a snapshot."""
    return generator.log_bytes >= (LONGEST_TAIL if held is None else held.room)


@contextmanager
def _going_on() -> Iterator[None]:
    """No turn of a loop ends the loop: Redis may be away, or what it holds of one experiment damaged."""
    try:
        yield
    except StoreError:
        pass  # the next turn comes
    except Exception:
        logger.exception("a turn of the scorer's loop failed")
