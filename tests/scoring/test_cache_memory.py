"""Scorers that may keep little: what they drop they make again, bit for bit."""

from __future__ import annotations

import gc
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from optimist.records import LogEntry
from optimist.scoring import Scorer
from optimist.scoring import tasks as task_module
from optimist.scoring import tasks as tasks_module
from optimist.scoring.cached import CachedStatistic, Step
from optimist.scoring.scorer import evict_beyond
from optimist.store import EmbeddedRedis, open_store
from tests.support.logs import moments_bound
from tests.support.made import Made, estimates_by, scoring, settled, until

BIG = 100
"""Rows of a batch of which some twenty outgrow a snapshot in 4 dimensions."""


@asynccontextmanager
async def running(server: EmbeddedRedis, warm_bytes: int | None) -> AsyncIterator[Scorer]:
    async with open_store(server.url) as store, scoring(store, warm_bytes) as scorer:
        yield scorer


def alive() -> set[int]:
    gc.collect()
    return {id(found) for found in gc.get_objects() if type(found) is CachedStatistic}


async def estimates_of_the_whole_log(made: Made, generator: int) -> dict[int, str]:
    """By position, as they are stored."""
    return await estimates_by(moments_bound(), made, generator)


@pytest.mark.long
@pytest.mark.parametrize("warm_bytes", [0, None])
async def test_what_is_dropped_is_made_again_bit_for_bit(make, server: EmbeddedRedis, warm_bytes: int | None):
    """With and without a snapshot to begin from."""
    made = await make(generators=4, rescore_growth=0.1, keep_log=True)
    before = alive()
    published: dict[tuple[int, int], str] = {}
    async with running(server, warm_bytes) as scorer:
        for turn in range(3):
            for generator in range(4):
                await made.tell_many(
                    generator, 1 + turn % 3 if generator % 2 else 12, 5 if turn % 2 else BIG, seed=turn
                )
            stored = await settled(made)
            await until(lambda: _quiet(scorer))
            published |= {
                (state.ordinal, state.primary.estimate_seq): state.primary.estimate for state in stored.generators
            }
            kept = 4 if warm_bytes is None else 1
            assert len(alive() - before) == sum(record.bytes > 0 for record in scorer._tasks.values()) == kept
            assert sum(record.is_held for record in scorer._tasks.values()) == 4, "its claims stay with it"
    assert any(state.primary.snapshot_seq > 0 for state in stored.generators)
    assert len(published) > 8
    for generator in range(4):
        expected = await estimates_of_the_whole_log(made, generator)
        found = {seq: estimate for (of, seq), estimate in published.items() if of == generator}
        assert found.items() <= expected.items()


async def _quiet(scorer: Scorer) -> bool:
    return all(record.state == "idle" for record in scorer._tasks.values())


async def test_those_used_longest_ago_go_first(make, server: EmbeddedRedis):
    made = await make(generators=4)
    async with running(server, None) as scorer:
        for generator in (2, 0, 3, 1):
            await made.tell_many(generator, 3)
            await settled(made)
            await until(lambda: _quiet(scorer))
        each = scorer._tasks["x", 0, made.label].bytes
        scorer._warm_bytes = 3 * each - 1
        evict_beyond(scorer._tasks.values(), scorer._experiments, scorer._warm_bytes)
        assert {record.ordinal for record in scorer._tasks.values() if record.bytes} == {3, 1}
        await made.tell_many(2, 2, seed=1)
        await settled(made)
        await until(lambda: _quiet(scorer))
        assert {record.ordinal for record in scorer._tasks.values() if record.bytes} == {1, 2}


async def test_no_estimate_that_stands_is_made_again(make, server: EmbeddedRedis, monkeypatch: pytest.MonkeyPatch):
    made = await make(generators=1)
    positions: list[int] = []
    apply = CachedStatistic.apply

    def noted(cached: CachedStatistic, entries: Sequence[LogEntry], newest: int) -> Step:
        step = apply(cached, entries, newest)
        positions.extend([] if step.scored is None else [step.scored.seq])
        return step

    monkeypatch.setattr(CachedStatistic, "apply", noted)
    async with running(server, 0) as scorer:
        for turn in range(4):
            await made.tell_many(0, 6, seed=turn)
            await settled(made)
            await until(lambda: _quiet(scorer))
            scorer._tasks["x", 0, made.label].evict()
            scorer._schedule(scorer._tasks["x", 0, made.label])
            await until(lambda: _quiet(scorer))
            assert scorer._tasks["x", 0, made.label].bytes > 0
            scorer._tasks["x", 0, made.label].evict()
    assert len(positions) >= 4
    assert len(positions) == len(set(positions))


async def test_one_that_was_dropped_is_not_read_again_for_its_log(
    make, server: EmbeddedRedis, monkeypatch: pytest.MonkeyPatch
):
    """Its log may have as many bytes as its statistic had, though that is no longer there."""
    for module in (task_module, tasks_module):
        monkeypatch.setattr(module, "LONGEST_TAIL", 1)
    made = await make(generators=1)
    async with running(server, 0) as scorer:
        await made.tell_many(0, 3)
        state = (await settled(made)).generators[0]
        await until(lambda: _quiet(scorer))
        record = scorer._tasks["x", 0, made.label]
        room = record.room
        record.evict()
        assert (record.bytes, record.room) == (0, room)
        assert state.primary.log_bytes > 1
        assert state.primary.log_bytes < record.room
