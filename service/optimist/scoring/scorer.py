"""The scorer's loop: when an estimate is due, it reads the generator's log and makes it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import uuid
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TypeVar, TypeVarTuple

import torch

from optimist.bounds import Bound
from optimist.scoring.warm import Scored, WarmGenerator, build_bound
from optimist.store import DUE, NotFound, Store, StoreError, Superseded
from optimist_client.models import Experiment

logger = logging.getLogger(__name__)

Arguments = TypeVarTuple("Arguments")
Result = TypeVar("Result")

SWEEP = 1.0
"""Seconds between looks at every experiment, for batches whose announcement was lost."""
CLAIM = 5.0
"""Seconds for which a generator is claimed, anew with every read of its log."""


@dataclass
class _Warm:
    """An experiment whose generators are kept warm; `config` tells it from a later one of the same name."""

    config: str
    growth: float
    bound: Bound
    generators: dict[int, WarmGenerator] = field(default_factory=dict)


class Scorer:
    """Scores every generator of every experiment in the store, numerics in `threads` threads, never on the event loop.

    May die at any moment: what it holds is derived from the log, and another scorer reaches the same numbers.
    """

    def __init__(self, store: Store, threads: int = 2) -> None:
        # More threads than cores, and eigenproblems wait for each other at every step, many times slower.
        torch.set_num_threads(max(1, (os.cpu_count() or 1) // threads))
        self._store = store
        self._owner = uuid.uuid4().hex
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="scorer")
        self._warm: dict[str, _Warm] = {}
        self._building: dict[str, asyncio.Lock] = {}
        self._busy: dict[tuple[str, int], asyncio.Task[None]] = {}
        self._again: set[tuple[str, int]] = set()
        # Tried again when the next estimate is due, not every second.
        self._failed: set[tuple[str, int]] = set()

    async def run(self) -> None:
        """Score until cancelled."""
        sweeping = asyncio.create_task(self._sweep_for_ever())
        try:
            async with self._store.announcements(DUE) as announcements:
                async for announcement in announcements:
                    if announcement is not None:
                        self._schedule(announcement.experiment, announcement.generator)
        finally:
            for task in (sweeping, *self._busy.values()):
                task.cancel()
            self._pool.shutdown(wait=False, cancel_futures=True)

    async def _sweep_for_ever(self) -> None:
        while True:
            with contextlib.suppress(StoreError):
                names = await self._store.experiments()
                for name in set(self._warm) - set(names):
                    del self._warm[name]
                for name in names:
                    await self._sweep(name)
            await asyncio.sleep(SWEEP)

    async def _sweep(self, name: str) -> None:
        with contextlib.suppress(NotFound):
            for ordinal, generator in enumerate((await self._store.look(name)).generators):
                if generator.due_seq > generator.estimate_seq and (name, ordinal) not in self._failed:
                    self._schedule(name, ordinal)

    def _schedule(self, name: str, generator: int) -> None:
        key = (name, generator)
        self._failed.discard(key)
        if key in self._busy:
            self._again.add(key)
        else:
            self._busy[key] = asyncio.create_task(self._work(name, generator))

    async def _work(self, name: str, generator: int) -> None:
        key = (name, generator)
        try:
            while True:
                self._again.discard(key)
                await self._catch_up(name, generator)
                if key not in self._again:
                    return
        except Superseded:
            logger.info("another scorer has taken over %s/%d", name, generator)
        except StoreError as error:
            logger.warning("scoring %s/%d waits: %s", name, generator, error)
        except Exception as error:
            # The statistic may have taken half of what was read: start again from the log at the next batch.
            logger.exception("scoring %s/%d failed", name, generator)
            self._failed.add(key)
            if name in self._warm:
                self._warm[name].generators.pop(generator, None)
            with contextlib.suppress(StoreError):
                claim = await self._store.claim(name, generator, self._owner, CLAIM)
                if claim is not None:
                    await self._store.put_damage(name, generator, f"{type(error).__name__}: {error}", claim.token)
        finally:
            del self._busy[key]

    async def _catch_up(self, name: str, ordinal: int) -> None:
        warm = await self._experiment(name)
        if warm is None:
            return
        generator = warm.generators.setdefault(ordinal, WarmGenerator(warm.bound, warm.growth))
        while claim := await self._store.claim(name, ordinal, self._owner, CLAIM):
            entries = await self._store.read_log(name, ordinal, generator.seq)
            if not entries:
                return
            scored = await self._in_thread(generator.apply, entries)
            if scored is not None:
                await self._publish(name, ordinal, scored, claim.token)

    async def _publish(self, name: str, ordinal: int, scored: Scored, token: str) -> None:
        payload = json.dumps(scored.estimate.to_dict(), allow_nan=False)
        await self._store.put_estimate(name, ordinal, scored.seq, payload, token)

    async def _experiment(self, name: str) -> _Warm | None:
        text = await self._store.config(name)
        if text is None:
            self._warm.pop(name, None)
            return None
        async with self._building.setdefault(name, asyncio.Lock()):
            warm = self._warm.get(name)
            if warm is None or warm.config != text:
                experiment = Experiment.model_validate_json(text)
                bound = await self._in_thread(build_bound, experiment, await self._reference(experiment))
                warm = self._warm[name] = _Warm(text, experiment.config.rescore_growth, bound)
            return warm

    async def _reference(self, experiment: Experiment) -> bytes | None:
        name = experiment.config.reference
        if name is None:
            return None
        reference = await self._store.references.get(name)
        if reference is None:
            raise ValueError(f"reference {name!r} is gone")
        return reference[1]

    async def _in_thread(self, function: Callable[[*Arguments], Result], *arguments: *Arguments) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._pool, function, *arguments)


@asynccontextmanager
async def scoring(store: Store) -> AsyncIterator[None]:
    """A scorer running beside whatever else the event loop does."""
    task = asyncio.create_task(Scorer(store).run())
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
