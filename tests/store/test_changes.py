"""States are read by what has changed since they were read before, as long as that is of single generators."""

from __future__ import annotations

import pytest
from redis.asyncio import Redis

from optimist.records import ExperimentState
from optimist.store import Store
from tests.support.exchanges import append_to, claimed

NAMES = [f"g{place}" for place in range(20)]


@pytest.fixture(autouse=True)
async def experiment(store: Store) -> None:
    await store.create_experiment("x", "{}", NAMES, growth=0.0, labels=["", "kid"])


async def estimate(store: Store, generator: int, seq: int, label: str = "") -> None:
    mine = await claimed(store, "x", generator, label=label)
    assert await store.put_estimate("x", generator, seq, f"{label} {generator} {seq}", mine, point="[]", label=label)


async def renewed(store: Store, known: ExperimentState) -> set[int]:
    """Which generators were read again; all else is as a state that is read whole."""
    state = await store.state("x", known, all_metrics=True)
    assert state == await store.state("x", all_metrics=True)
    pairs = zip(state.generators, known.generators, strict=True)
    return {one.ordinal for one, before in pairs if one is not before}


async def test_only_what_has_changed_is_read_again(store: Store):
    await append_to(store, *range(20))
    known = await store.state("x", all_metrics=True)
    assert await renewed(store, known) == set()
    await append_to(store, 3, 7)
    assert await renewed(store, known) == {3, 7}
    await estimate(store, 5, 1)
    await estimate(store, 6, 1, "kid")
    assert await renewed(store, known) == {3, 5, 6, 7}
    known = await store.state("x", known, all_metrics=True)
    mine = await claimed(store, "x", 9, label="kid")
    await store.put_scoring_error("x", 9, "cannot be scored", mine, label="kid")
    assert 9 in await renewed(store, known)
    await store.set_state("x", 4, "paused")
    assert len(await renewed(store, known)) == 20, "that is no generator's own"


async def test_what_redis_has_lost_is_read_again(store: Store, redis: Redis):
    await append_to(store, 0, 1)
    known = await store.state("x", all_metrics=True)
    await append_to(store, 2)
    # Another history, in which this version was made at another time.
    await redis.hset("optimist:{x}:tokens", str(known.version % 128), "1.000000 2")
    assert len(await renewed(store, known)) == 20


async def test_who_is_far_behind_reads_everything(store: Store):
    known = await store.state("x", all_metrics=True)
    await append_to(store, *[0] * 2)
    known = await store.state("x", known, all_metrics=True)
    await append_to(store, *[1] * 100)
    assert await renewed(store, known) == {1}
    await append_to(store, *[1] * 28)
    assert len(await renewed(store, known)) == 20


async def test_the_work_of_a_read_does_not_grow_with_the_generators(store: Store, redis: Redis):
    async def commands() -> int:
        return sum(of["calls"] for of in (await redis.info("commandstats")).values())

    async def of_one_change(generators: int) -> int:
        await store.delete_experiment("x")
        names = [f"g{place}" for place in range(generators)]
        await store.create_experiment("x", "{}", names, growth=0.0, labels=[""])
        await append_to(store, 0)
        known = await store.state("x", all_metrics=True)
        await append_to(store, 1)
        before = await commands()
        await store.state("x", known, all_metrics=True)
        return await commands() - before

    assert await of_one_change(400) == await of_one_change(4)
