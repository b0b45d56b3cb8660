"""Slices of a sequence: what a pick or a batch leaves of one is handed out again, and batches keep their indices."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from optimist.records import AskGroup, Conflict, Contents, GeneratorState, Refused, Returned
from optimist.store import Store
from tests.support.exchanges import new_pick, open_one, open_picks, settle

SIZE = 4


@pytest.fixture(autouse=True)
async def experiment(store: Store) -> None:
    await store.create_experiment("x", "{}", ["a"], growth=0.0, batch_size=SIZE, labels=[""])


async def take(store: Store, start: int, size: int, lease: float = 60.0, **taken: Any) -> int | None:
    return await open_one(store, "x", new_pick(0, "{}", start, size, **taken), lease)


async def tell(store: Store, pick: int | None, rows: int) -> None:
    await settle(store, "x", pick or 0, f"{rows}", rows, b"body")


async def generator(store: Store) -> GeneratorState:
    [found] = (await store.state("x")).generators
    return found


async def test_a_pick_leaves_what_it_does_not_take(store: Store):
    await take(store, 0, 3, left=1)
    assert await generator(store) == await store_with(store, 4, [Returned(3, 1)])
    await take(store, 4, 4)
    await store.give_up("x", 2, "tired")
    assert (await generator(store)).returned == [Returned(3, 5)], "runs that touch are one"
    assert await take(store, 3, 2, again=True, left=2) is None, "the run is another one"
    assert await take(store, 4, 1, again=True, left=3) is None, "the run begins earlier"
    await take(store, 3, 2, again=True, left=3)
    assert await generator(store) == await store_with(store, 8, [Returned(5, 3)])
    await take(store, 5, 3, again=True)
    assert await generator(store) == await store_with(store, 8, [])


async def store_with(store: Store, handed: int, returned: list[Returned]) -> GeneratorState:
    """The present state of the generator, with these slices."""
    found = await generator(store)
    found.handed, found.returned = handed, returned
    return found


async def test_a_returned_slice_is_handed_out_again_once(store: Store):
    """Whether its pick was given up, or its lease ran out, unless its batch comes late."""
    late, unseen = [await take(store, start, SIZE, lease=0.02) for start in (0, 4)]
    given_up = await take(store, 8, SIZE)
    await asyncio.sleep(0.05)
    for _ in range(2):
        await store.give_up("x", given_up or 0, "tired")
    await tell(store, unseen, SIZE)
    assert await generator(store) == await store_with(store, 12, [Returned(0, 4), Returned(8, 4)])
    assert await take(store, 8, SIZE, again=True) is None, "the first one goes first"
    assert await take(store, 0, SIZE, again=True)
    assert await take(store, 0, SIZE, again=True) is None, "another ask has it"
    await store.give_up("x", 4, "tired")
    await tell(store, late, SIZE)
    assert await generator(store) == await store_with(store, 12, [Returned(8, 4)])
    twice = [new_pick(0, "{}", 8, SIZE, again=True) for _ in range(2)]
    assert await open_picks(store, "x", 4, [AskGroup("ask", twice)], 60) is None


async def test_a_slice_that_is_left_in_an_opening_can_be_taken_in_it(store: Store):
    picks = [new_pick(0, "{}", 0, 1, left=3), new_pick(0, "{}", 1, 2, again=True, left=1)]
    await open_picks(store, "x", 0, [AskGroup("ask", picks)], 60)
    assert await generator(store) == await store_with(store, 4, [Returned(3, 1)])


async def test_a_batch_keeps_the_indices_of_its_rows_and_leaves_the_others(store: Store):
    for start, rows in ((0, 4), (4, 1), (8, 9)):
        await tell(store, await take(store, start, SIZE), rows)
    assert [entry.indices for entry in await store.read_log("x", 0, 0)] == [(0, 4), (4, 1), (8, 4)]
    assert await generator(store) == await store_with(store, 12, [Returned(5, 3)])
    await store.retract("x", pick=2)
    await store.retract("x", pick=3)
    assert await generator(store) == await store_with(store, 12, [Returned(4, 8)]), "with what the batch left"


async def test_a_late_batch_leaves_nothing_that_another_pick_has(store: Store):
    late, later = await take(store, 0, SIZE, lease=0.02), await take(store, 4, SIZE, lease=0.02)
    await asyncio.sleep(0.05)
    await store.state("x")
    assert await take(store, 0, SIZE, again=True, left=SIZE)
    await tell(store, late, 2)
    await tell(store, later, 3)
    assert await generator(store) == await store_with(store, 8, [Returned(7, 1)])
    assert [entry.indices for entry in await store.read_log("x", 0, 0)] == [(0, 2), (4, 3)]


async def test_a_batch_without_a_pick_may_name_its_start(store: Store):
    for key, start, rows in (("none", None, 3), ("first", 0, 5), ("second", 3, 2), ("far", 17, 3)):
        await store.append("x", 0, key, Contents("digest", rows, b"body"), start=start)
    found = [(entry.pick, entry.indices) for entry in await store.read_log("x", 0, 0)]
    assert found == [(0, ()), (0, (0, 5)), (0, (17, 3))], "3 and 4 were told before"
    assert (await generator(store)).handed == 20, "the next multiple of the batch size"
    assert (await store.append("x", 0, "far", Contents("digest", 3, b"body"), start=17)).duplicate
    for start in (None, 16):
        with pytest.raises(Conflict, match="another start"):
            await store.append("x", 0, "far", Contents("digest", 3, b"body"), start=start)
    await store.retract("x", generator=0, position=2)
    assert (await generator(store)).returned == [], "nobody asked for it"


async def test_samples_may_have_no_indices(store: Store):
    await store.create_experiment("none", "{}", ["a"], growth=0.0, labels=[""])
    with pytest.raises(Refused, match="no indices"):
        await store.append("none", 0, "key", Contents("digest", 3, b"body"), start=0)
    await open_picks(store, "none", 0, [AskGroup("ask", [new_pick(0, "{}")])], 60)
    await settle(store, "none", 1, "digest", 3, b"body")
    [entry] = await store.read_log("none", 0, 0)
    assert entry.indices == ()
    [found] = (await store.state("none")).generators
    assert (found.samples, found.returned) == (3, [])


async def test_a_pick_takes_only_the_indices_that_come_next(store: Store):
    """Those that it was planned with may be another batch's by then, or its generator may have begun anew."""
    planned = (await store.state("x")).rounds, [AskGroup("ask", [new_pick(0, "{}", 0, SIZE)])]
    await store.append("x", 0, "key", Contents("digest", 6, b"body"), start=0)
    assert await open_picks(store, "x", *planned, 60.0) is None
    assert (await generator(store)).handed == 8
    planned = (await store.state("x")).rounds, [AskGroup("ask", [new_pick(0, "{}", 8, SIZE)])]
    await store.retract("x", generator=0)
    assert await open_picks(store, "x", *planned, 60.0) is None
    await take(store, 0, SIZE)
    assert (await generator(store)).handed == SIZE
