"""Slices of an experiment's prompts: handed out once, returned when nobody brings them, handed out again."""

import asyncio

import pytest

from optimist.records import AskGroup, NewPick, Returned
from optimist.store import Store
from tests.support.exchanges import new_pick, open_picks, settle


@pytest.fixture(autouse=True)
async def experiment(store: Store) -> None:
    await store.create_experiment("x", "{}", ["a", "b"], growth=0.0, labels=[""])


async def take(store: Store, pick: NewPick, lease_seconds: float = 60) -> int | None:
    rounds = (await store.state("x")).rounds
    opened = await open_picks(store, "x", rounds, [AskGroup(f"ask {rounds}", [pick])], lease_seconds)
    return None if opened is None else rounds + 1


async def slices(store: Store) -> list[tuple[int, list[Returned]]]:
    return [(g.handed, g.returned) for g in (await store.state("x")).generators]


async def test_a_slice_returns_when_its_pick_ends_without_a_batch(store: Store):
    await take(store, new_pick(1, "{}", start=0, size=5))
    await take(store, new_pick(1, "{}", start=5, size=5), lease_seconds=0.02)
    await take(store, new_pick(1, "{}", start=10, size=3))
    await take(store, new_pick(0, "{}"))
    await asyncio.sleep(0.05)
    for _ in range(2):
        await store.give_up("x", 1, "tired")
    await store.give_up("x", 4, "tired")
    assert await slices(store) == [(0, []), (13, [Returned(1, 0, 5), Returned(2, 5, 5)])]
    await settle(store, "x", 3, "digest", 3, b"body")
    assert (await slices(store))[1] == (13, [Returned(1, 0, 5), Returned(2, 5, 5)])


async def test_a_returned_slice_is_handed_out_again_once(store: Store):
    first = await take(store, new_pick(0, "{}", start=0, size=5))
    assert first is not None
    await store.give_up("x", first, "tired")
    again = new_pick(0, "{}", start=0, size=5, again=first)
    second = await take(store, again)
    assert second is not None
    assert await take(store, again) is None, "another ask has it"
    assert await slices(store) == [(5, []), (0, [])]
    await store.give_up("x", second, "tired")
    assert await slices(store) == [(5, [Returned(second, 0, 5)]), (0, [])]


async def test_a_late_batch_takes_its_slice_back(store: Store):
    late = await take(store, new_pick(0, "{}", start=0, size=5), lease_seconds=0.02)
    unseen = await take(store, new_pick(0, "{}", start=5, size=5), lease_seconds=0.02)
    assert late is not None
    assert unseen is not None
    await asyncio.sleep(0.05)
    await settle(store, "x", unseen, "digest", 5, b"late, though nobody has read the state since")
    assert await slices(store) == [(10, [Returned(late, 0, 5)]), (0, [])]
    assert (await settle(store, "x", late, "digest", 5, b"body")).late
    assert await slices(store) == [(10, []), (0, [])]
    assert await take(store, new_pick(0, "{}", start=0, size=5, again=late)) is None


async def test_giving_up_late_returns_no_slice_that_another_pick_has(store: Store):
    late = await take(store, new_pick(0, "{}", start=0, size=5), lease_seconds=0.02)
    assert late is not None
    await asyncio.sleep(0.05)
    await store.state("x")
    assert await take(store, new_pick(0, "{}", start=0, size=5, again=late)) is not None
    await store.give_up("x", late, "tired")
    assert await slices(store) == [(5, []), (0, [])]


async def test_a_slice_is_handed_out_again_once_in_an_ask(store: Store):
    first = await take(store, new_pick(0, "{}", start=0, size=5))
    assert first is not None
    await store.give_up("x", first, "tired")
    again = new_pick(0, "{}", start=0, size=5, again=first)
    with pytest.raises(ValueError, match="once"):
        await open_picks(store, "x", 1, [AskGroup("ask", [again, again])], lease_seconds=60)
