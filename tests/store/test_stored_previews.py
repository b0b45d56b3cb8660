"""Previews in Redis: how many are kept, which, and when they go."""

from __future__ import annotations

import pytest
from redis.asyncio import Redis

from optimist.records import Conflict, Gone, PreparedPreview, Refused, Retracted
from optimist.store import Store
from tests.support.exchanges import new_pick, open_one, settle

MOST = 8


@pytest.fixture
async def instance(store: Store) -> str:
    await store.create_experiment("x", "{}", ["a", "b"], growth=0.04, batch_size=5, labels=[""])
    return (await store.state("x")).instance


async def told(store: Store, generator: int, rows: int = 5) -> int:
    """The number of a pick that was told."""
    number = await open_one(store, "x", new_pick(generator))
    assert number is not None
    await settle(store, "x", number, f"digest {number}", rows, b"body")
    return number


def previews(start: int | None, rows: int = 5) -> list[PreparedPreview]:
    return [
        PreparedPreview(place, None if start is None else start + place, "{}", b"\x00%d" % place)
        for place in range(rows)
    ]


async def test_the_newest_are_kept_and_a_sample_of_all_by_common_indices(store: Store, instance: str):
    for generator, batches in ((0, 12), (1, 40)):
        for batch in range(batches):
            await store.put_previews("x", await told(store, generator), previews(5 * batch), MOST, instance=instance)
    kept = await store.previews("x")
    of = {name: [one for other, one in kept if other == name] for name in "ab"}
    assert [len(of["a"]), len(of["b"])] == [MOST, MOST]
    assert [one.position for one in of["b"][:2]] == [40, 40], "the newest first"
    indices = {name: {one.index for one in found} for name, found in of.items()}
    assert len(indices["a"] & indices["b"]) >= 2, "though one has more than three times the samples of the other"


async def test_a_repeat_adds_nothing(store: Store, instance: str, redis: Redis):
    number = await told(store, 0)
    for _ in range(3):
        assert await store.put_previews("x", number, previews(None), MOST, instance=instance) == (0, 5)
    assert await redis.hlen("optimist:{x}:previews:0:bodies") == len(await store.previews("x")) == 5
    found = await store.preview("x", 0, number, 3)
    assert found is not None
    assert (found[0].index, found[1]) == (None, b"\x003")
    assert await store.preview("x", 0, number, 5) is None


async def test_only_a_told_batch_has_previews(store: Store, instance: str):
    await open_one(store, "x", new_pick(0))
    with pytest.raises(Conflict, match="has no batch yet"):
        await store.put_previews("x", 1, previews(0), MOST, instance=instance)
    await store.give_up("x", 1, "tired")
    with pytest.raises(Conflict, match="given up"):
        await store.put_previews("x", 1, previews(0), MOST, instance=instance)
    with pytest.raises(Gone):
        await store.put_previews("x", 99, previews(0), MOST, instance=instance)
    with pytest.raises(Refused, match="was told 5 samples"):
        await store.put_previews("x", await told(store, 0), previews(0, rows=6), MOST, instance=instance)


async def test_they_go_with_what_is_retracted_or_deleted(store: Store, instance: str, redis: Redis):
    first, second, other = await told(store, 0), await told(store, 0), await told(store, 1)
    for number in (first, second, other):
        await store.put_previews("x", number, previews(None), 30, instance=instance)
    await store.retract("x", pick=first)
    assert {one.pick for _, one in await store.previews("x")} == {second, other}
    with pytest.raises(Retracted):
        await store.put_previews("x", first, previews(None), 30, instance=instance)
    await store.retract("x", generator=0)
    assert {one.pick for _, one in await store.previews("x")} == {other}
    assert await redis.keys("optimist:{x}:previews:0*") == []
    await store.delete_experiment("x")
    assert await redis.keys("optimist:{x}:*") == []
