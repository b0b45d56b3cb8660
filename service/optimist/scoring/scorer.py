"""The scorer's loop: when an estimate is due, it reads the generator's log and makes it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TypeVar, TypeVarTuple

import torch
from torch import Tensor

from optimist.bounds import Bound
from optimist.evaluation import Question, first_rows
from optimist.scoring.warm import Scored, WarmGenerator, batch, build_question, pack_fitted, unpack_fitted
from optimist.store import DUE, MODES, NotFound, Store, StoreError
from optimist_client.models import Experiment

logger = logging.getLogger(__name__)

Arguments = TypeVarTuple("Arguments")
Result = TypeVar("Result")

SWEEP = 1.0
"""Seconds between looks at every experiment, for batches whose announcement was lost."""


@dataclass
class _Warm:
    """An experiment whose generators are kept warm; `config` tells it from a later one of the same name."""

    config: str
    growth: float
    bound: Bound
    names: list[str]
    generators: dict[int, WarmGenerator] = field(default_factory=dict)


class Scorer:
    """Scores every generator of every experiment in the store, numerics in `threads` threads, never on the event loop.

    May die at any moment: what it holds is derived from the log, and another scorer reaches the same numbers.
    """

    def __init__(self, store: Store, threads: int = 2) -> None:
        # More threads than cores, and eigenproblems wait for each other at every step, many times slower.
        torch.set_num_threads(max(1, (os.cpu_count() or 1) // threads))
        self._store = store
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="scorer")
        self._warm: dict[str, _Warm] = {}
        self._building: dict[str, asyncio.Lock] = {}
        self._busy: dict[tuple[str, int], asyncio.Task[None]] = {}
        self._again: set[tuple[str, int]] = set()
        self._wanted: set[tuple[str, int]] = set()
        # Tried again when the next estimate is due, not every second.
        self._failed: set[tuple[str, int]] = set()

    async def run(self) -> None:
        """Score until cancelled."""
        sweeping = asyncio.create_task(self._sweep_for_ever())
        try:
            async with self._store.announcements(DUE, MODES) as announcements:
                async for announcement in announcements:
                    if announcement is None:
                        continue
                    key = (announcement.experiment, announcement.generator)
                    if announcement.channel == MODES:
                        self._wanted.add(key)
                    self._schedule(*key)
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
        except StoreError as error:
            logger.warning("scoring %s/%d waits: %s", name, generator, error)
        except Exception as error:
            # The statistic may have taken half of what was read: start again from the log at the next batch.
            logger.exception("scoring %s/%d failed", name, generator)
            self._failed.add(key)
            if name in self._warm:
                self._warm[name].generators.pop(generator, None)
            with contextlib.suppress(StoreError):
                await self._store.put_damage(name, generator, f"{type(error).__name__}: {error}")
        finally:
            del self._busy[key]

    async def _catch_up(self, name: str, ordinal: int) -> None:
        warm = await self._experiment(name)
        if warm is None:
            return
        generator = warm.generators.setdefault(ordinal, WarmGenerator(warm.bound, warm.growth))
        while entries := await self._store.read_log(name, ordinal, generator.seq):
            scored = await self._in_thread(generator.apply, entries)
            if scored is not None:
                await self._publish(name, ordinal, scored, warm.config)
        if (name, ordinal) in self._wanted:
            self._wanted.discard((name, ordinal))
            await self._publish_modes(name, ordinal, warm)

    async def _publish(self, name: str, ordinal: int, scored: Scored, config: str) -> None:
        payload = json.dumps(scored.estimate.to_dict(), allow_nan=False)
        await self._store.put_estimate(name, ordinal, scored.seq, payload, config)

    async def _publish_modes(self, name: str, ordinal: int, warm: _Warm) -> None:
        generator = warm.generators[ordinal]
        if generator.seq > 0:
            made = await self._in_thread(generator.modes, warm.names[ordinal])
            await self._store.put_modes(name, ordinal, generator.seq, made.model_dump_json(), warm.config)

    async def _experiment(self, name: str) -> _Warm | None:
        text = await self._store.config(name)
        if text is None:
            self._warm.pop(name, None)
            return None
        async with self._building.setdefault(name, asyncio.Lock()):
            warm = self._warm.get(name)
            if warm is None or warm.config != text:
                experiment = Experiment.model_validate_json(text)
                question = await self._in_thread(build_question, experiment, await self._reference(experiment))
                if question.open_kernels:
                    question = await self._closed(question, experiment, text)
                    if question is None:
                        return None
                    for ordinal in range(len(experiment.config.generators)):
                        self._schedule(name, ordinal)
                bound = await self._in_thread(question.bound_for, experiment.widths)
                config = experiment.config
                warm = self._warm[name] = _Warm(text, config.rescore_growth, bound, config.generators)
            return warm

    async def _closed(self, question: Question, experiment: Experiment, config: str) -> Question | None:
        """The question with its kernels fixed by the first samples, for good; None while there are too few."""
        name, generators = experiment.config.name, len(experiment.config.generators)
        fitted = await self._store.fitted(name)
        if fitted is None:
            needed = question.rows_to_fit(generators)
            if any(generator.samples < needed for generator in (await self._store.look(name)).generators):
                return None
            logs = [await self._first_batches(name, ordinal, needed) for ordinal in range(generators)]
            found = await self._in_thread(question.fitted, first_rows(logs, needed))
            # Whoever was first is right; all find the same.
            fitted = await self._store.put_fitted(name, pack_fitted(question, found), config)
        return unpack_fitted(question, fitted)

    async def _first_batches(self, name: str, generator: int, rows: int) -> list[dict[str, Tensor]]:
        found: list[dict[str, Tensor]] = []
        seq = 0
        while rows > 0:
            for entry in await self._store.read_log(name, generator, seq, max_entries=32):
                found.append(batch(entry)[0])
                seq, rows = entry.seq, rows - entry.rows
        return found

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
