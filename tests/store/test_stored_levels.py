"""The levels of batches as they are kept, and batches that were accepted on another scale. All on a real Redis."""

from __future__ import annotations

import itertools
import math
import random

import pytest
from redis.asyncio import Redis

from optimist.numerics.anomalies import EXTREMES, KEPT, Level, keep
from optimist.records import (
    AskGroup,
    Conflict,
    Contents,
    KeptLevel,
    Measures,
    NotFound,
    Origin,
    Retracted,
    Settled,
    Size,
)
from optimist.store import Store
from tests.support.exchanges import new_pick, open_picks, settle

PIXELS = round(math.log(255.0), 4)
contents = (f"{number * 2654435761 % 2**64:016x}" for number in itertools.count(1))
keys = (f"key {number}" for number in itertools.count())


@pytest.fixture(autouse=True)
async def experiment(store: Store) -> None:
    await store.create_experiment("x", "{}", ["a", "b", "c"], growth=0.04, labels=[""])


def measured(*levels: float | None) -> Measures:
    """By the levels of its arrays; None where one has none."""
    sizes = [Size(f"array {place}", 1.0, 0, 1.0, None, level) for place, level in enumerate(levels)]
    return Measures(next(contents), sizes=sizes)


async def append(store: Store, generator: int, *levels: float | None, rows: int = 5) -> Settled:
    key = next(keys)
    return await store.append("x", generator, key, Contents(key, rows, b"body", measures=measured(*levels)))


async def kept(store: Store, generator: int, array: int = 0) -> list[Level]:
    (found,) = await store.levels("x", [generator])
    return [Level(one.position, one.origin.rows, one.value) for one in found if one.array == array]


@pytest.mark.parametrize("value", [0.0, -12.3456, 4999.9999])
def test_a_level_is_read_as_it_was_stored(value: float):
    known = KeptLevel(3, 7, Origin(12, 5, 1763823999.25), value)
    assert KeptLevel.from_member(*known.stored) == known


async def test_levels_are_kept_by_array_with_the_origin_of_their_batch(store: Store):
    group = AskGroup(next(keys), [new_pick(1, "{}")])
    assert await open_picks(store, "x", 0, [group], lease_seconds=60)
    await settle(store, "x", 1, next(keys), 2, b"body", measures=measured(0.25, None, -3.5))
    await append(store, 1, None, None, 0.5, rows=9)
    nothing, found = await store.levels("x", [0, 1])
    assert nothing == []
    assert [(one.array, one.position, one.value) for one in found] == [(0, 1, 0.25), (2, 1, -3.5), (2, 2, 0.5)]
    assert [(one.origin.pick, one.origin.rows) for one in found] == [(1, 2), (1, 2), (0, 9)]


async def test_what_might_be_anomalous_is_worth_a_look(store: Store):
    assert [(await append(store, 0, level)).doubtful for level in (0.0, 0.1, 0.2, PIXELS, 0.3)] == [
        *(True, True, False, True, False)
    ]
    assert not (await append(store, 1, None)).doubtful


async def test_the_store_keeps_what_an_evaluation_in_memory_keeps(store: Store):
    rng = random.Random(1)
    expected: tuple[list[Level], list[Level]] = [], []
    for position in range(1, KEPT + 120):
        levels = [round(rng.gauss(0.0, 1.0), 4), round(rng.gauss(5.0, 1.0), 4)]
        for array, level in enumerate(levels):
            keep(expected[array], Level(position, 5, level))
        await append(store, 0, *levels)
    for array in (0, 1):
        found = await kept(store, 0, array)
        assert [one.value for one in found] == [one.value for one in expected[array]]
        assert found[:EXTREMES] == expected[array][:EXTREMES]


async def test_a_retraction_takes_levels_along_and_a_deletion_everything(store: Store, redis: Redis):
    for level in (0.1, 0.2, 0.3):
        await append(store, 0, level, 1.0)
    await append(store, 1, 0.4)
    await store.retract("x", generator=0, position=2)
    assert [one.position for one in await kept(store, 0)] == [1, 3]
    assert [one.position for one in await kept(store, 0, 1)] == [1, 3]
    await store.retract("x", generator=0)
    assert await kept(store, 0) == []
    assert len(await kept(store, 1)) == 1
    await store.delete_experiment("x")
    assert await redis.keys("*") == []


async def test_a_batch_is_accepted_once_and_on_record(store: Store):
    await append(store, 0, 0.0)
    await append(store, 0, PIXELS)
    first, already = await store.accept_batch("x", generator=0, position=2, who="key", reason="they are right")
    assert (first.position, first.until, first.who, first.reason, already) == (2, 2, "key", "they are right", False)
    again, already = await store.accept_batch("x", generator=0, position=2, who="other")
    assert (again, already) == (first, True)
    generator = (await store.state("x")).generators[0]
    assert (generator.acceptances, generator.accepted, generator.accepted_until) == ([first], {2}, 0)
    whole, already = await store.accept_batch("x", generator=0)
    assert (whole.position, whole.until, already) == (0, 2, False)
    assert await store.accept_batch("x", generator=0) == (whole, True)
    await append(store, 0, PIXELS)
    newer, already = await store.accept_batch("x", generator=0)
    assert (newer.until, already) == (3, False)
    assert (await store.state("x")).generators[0].accepted_until == 3


async def test_a_batch_is_accepted_by_its_pick(store: Store):
    group = AskGroup(next(keys), [new_pick(1, "{}")])
    assert await open_picks(store, "x", 0, [group], lease_seconds=60)
    with pytest.raises(Conflict, match="no batch yet"):
        await store.accept_batch("x", pick=1)
    await settle(store, "x", 1, next(keys), 2, b"body", measures=measured(0.25))
    found, _ = await store.accept_batch("x", pick=1)
    assert (found.generator, found.position) == (1, 1)
    with pytest.raises(NotFound):
        await store.accept_batch("x", pick=2)


async def test_what_is_no_batch_or_does_not_count_cannot_be_accepted(store: Store):
    with pytest.raises(NotFound, match="has no batches"):
        await store.accept_batch("x", generator=0)
    for level in (0.0, PIXELS):
        await append(store, 0, level)
    await store.retract("x", generator=0, position=2)
    for position in (0, 4):
        with pytest.raises(NotFound, match=f"no batch at position {position}"):
            await store.accept_batch("x", generator=0, position=position)
    with pytest.raises(NotFound, match=r"position 3 .* is a retraction"):
        await store.accept_batch("x", generator=0, position=3)
    with pytest.raises(Retracted, match="position 2"):
        await store.accept_batch("x", generator=0, position=2)
    with pytest.raises(NotFound):
        await store.accept_batch("x", generator=7, position=1)


async def test_a_generator_that_starts_anew_is_no_longer_accepted(store: Store):
    await append(store, 0, PIXELS)
    await store.accept_batch("x", generator=0)
    await store.retract("x", generator=0)
    assert (await store.state("x")).generators[0].accepted_until == 0
    await append(store, 0, PIXELS)
    found, already = await store.accept_batch("x", generator=0)
    assert (found.until, already) == (3, False)
