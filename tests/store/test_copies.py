"""Copies of experiments end when they are not kept, whatever scorers hold, and are deleted whole."""

from __future__ import annotations

import pytest
from redis.asyncio import Redis

from optimist.records import NotFound
from optimist.store import Store
from optimist.store.copies import COPY_SECONDS
from tests.store.test_restoration import restore

COUNTS = "optimist:{default~/x}:counts"


async def test_a_copy_that_is_not_kept_ends(store: Store, redis: Redis):
    copies = store.in_namespace("default").copies
    assert await restore(copies)
    assert 0 < await redis.ttl(COUNTS) <= COPY_SECONDS
    assert [await redis.ttl(key) for key in await redis.keys() if key != COUNTS.encode()].count(-1) > 5
    claim = await store.claim("default~/x", 0, "scorer", 60, label="")
    assert claim is not None
    await redis.expire(COUNTS, 1)
    await copies.keep_copy("x")
    assert await redis.ttl(COUNTS) > 1
    assert await store.ended_copies(["default~/x", "y"]) == []

    await redis.delete(COUNTS)  # as it expires
    await copies.keep_copy("x")
    assert not await redis.exists(COUNTS)
    for act in (
        lambda: store.claim("default~/x", 0, "scorer", 60, label=""),
        lambda: store.put_estimate("default~/x", 0, 5, "{}", claim.token, label=""),
        lambda: store.state("default~/x"),
    ):
        with pytest.raises(NotFound):
            await act()
    assert await store.ended_copies(["default~/x", "y", "default~/in-creation"]) == ["default~/x"]
    await store.delete_experiment("default~/x")
    assert [key for key in await redis.keys() if b"~" in key] == []
    assert await store.indexed() == []


async def test_copies_are_of_the_experiment_whose_instance_theirs_begins_with(store: Store, redis: Redis):
    copies = store.in_namespace("default").copies
    await restore(copies)
    await redis.hset(COUNTS, "instance", "original~x")
    assert await copies.ended_copies(["x"], "original") == ["x"]
    assert await copies.ended_copies(["x"], "origin") == []
    assert await store.ended_copies(["x"], "original") == [], "it is none itself"
