"""How many experiments, references and generators there may be: exactly, however many are made at once."""

from __future__ import annotations

import asyncio

import pytest
from redis.asyncio import Redis

from optimist.records import Full
from optimist.store import Store
from tests.support.present import experiments, references

MOST = 3


async def make(store: Store, name: str) -> bool:
    """As the API makes one: False where there is no place."""
    try:
        await store.reserve(name, MOST)
    except Full:
        return False
    return await store.create_experiment(name, "{}", ["a"], growth=0.0, labels=[""])


async def put(store: Store, name: str) -> bool:
    try:
        await store.references.reserve(name, MOST)
    except Full:
        return False
    return await store.references.put(name, "{}", b"body")


@pytest.mark.parametrize("namespace", ["default", "red"])
async def test_of_many_made_at_once_as_many_are_made_as_there_may_be(store: Store, namespace: str):
    others, store = store.in_namespace("green"), store.in_namespace(namespace)
    assert all([await make(others, f"e{n}") and await put(others, f"r{n}") for n in range(MOST)])
    made = await asyncio.gather(*(make(store, f"e{n}") for n in range(20)))
    kept = await asyncio.gather(*(put(store, f"r{n}") for n in range(20)))
    assert made.count(True) == kept.count(True) == MOST
    assert len(await experiments(store)) == len(await references(store)) == MOST
    with pytest.raises(Full, match="at most 3 experiments in a namespace"):
        await store.reserve("e", MOST)
    with pytest.raises(Full, match="at most 3 references in a namespace"):
        await store.references.reserve("r", MOST)
    # What is there is there: made again, it takes no place.
    (name, *_) = await experiments(store)
    assert not await store.create_experiment(name, "{}", ["a"], growth=0.0, labels=[""])
    await store.reserve(name, MOST)
    await store.references.reserve(next(iter(await references(store))), MOST)
    assert len(await experiments(others)) == MOST


async def test_of_many_that_make_the_same_all_find_it_in_one_place(store: Store):
    made = await asyncio.gather(*(make(store, "same") for _ in range(10)))
    assert made.count(True) == 1
    assert [await make(store, name) for name in ("b", "c", "d")] == [True, True, False]


async def test_a_deleted_one_leaves_its_place(store: Store):
    for name in ("a", "b", "c"):
        assert await make(store, name)
    assert await store.delete_experiment("b")
    assert await make(store, "d")
    assert not await make(store, "b")


async def test_one_made_again_while_it_is_deleted_keeps_its_place(store: Store, redis: Redis):
    await make(store, "a")
    since = await store._index.since("a")
    await make(store, "a")
    await store._index.remove("a", since)
    assert await redis.zscore("optimist:experiments", "a")


async def test_a_place_that_nothing_came_to_take_is_lost_when_another_needs_it(store: Store, redis: Redis):
    for name in ("a", "b", "lost"):
        await store.reserve(name, MOST)
    for name in ("a", "b"):
        assert await store.create_experiment(name, "{}", ["a"], growth=0.0, labels=[""])
    # Somebody may be just making it.
    assert not await make(store, "d")
    since = await redis.zscore("optimist:experiments", "lost")
    await redis.zadd("optimist:experiments", {"lost": since - 61, "a": since - 61})
    assert await make(store, "d")
    assert sorted(await experiments(store)) == ["a", "b", "d"]
    assert not await make(store, "lost")


async def test_of_many_generators_added_at_once_as_many_are_added_as_there_may_be(store: Store):
    await make(store, "x")

    async def add(name: str) -> bool:
        try:
            return bool(await store.add_generator("x", name, limit=MOST))
        except Full:
            return False

    added = await asyncio.gather(*(add(f"g{n}") for n in range(10)))
    assert added.count(True) == MOST - 1
    with pytest.raises(Full, match="at most 3 generators"):
        await store.add_generator("x", "another", limit=MOST)
    assert await store.add_generator("x", "a", limit=MOST) == 0
