"""What the picks of an experiment that routes prompts bring to the log: stored once, and gone with the pick."""

from __future__ import annotations

import pytest
from redis.asyncio import Redis

from optimist.records import AskGroup, Contents
from optimist.store import Store
from tests.support.exchanges import new_pick, open_picks, settle

CONTEXTS = "optimist:{x}:contexts"
FIRST, SECOND = b"\x00\tfirst\n\xff", b"second" * 300


@pytest.fixture(autouse=True)
async def experiment(store: Store) -> None:
    await store.create_experiment("x", "{}", ["a", "b"], growth=0.04, route_growth=0.04, labels=[""])


async def opened(store: Store, *contexts: bytes, request: str = "") -> list[int]:
    """Picks of the first generator."""
    rounds = (await store.state("x")).rounds
    request = request or f"ask {rounds}"
    group = AskGroup(request, [new_pick(0, "{}", context=context) for context in contexts])
    found = await open_picks(store, "x", rounds, [group], 60.0)
    assert found is not None
    return found.numbers[request]


async def tell(store: Store, number: int) -> bool:
    """Whether it was told before."""
    return (await settle(store, "x", number, f"{number}", 1, b"12345678")).duplicate


async def test_a_tell_copies_it_into_the_log_once(store: Store, redis: Redis):
    numbers = await opened(store, FIRST, SECOND, b"", request="r")
    assert await opened(store, b"another", b"of", b"a repeat", request="r") == numbers
    assert await redis.hgetall(CONTEXTS) == {b"1": FIRST, b"2": SECOND}
    assert [await tell(store, number) for number in (2, 2, 3, 1, 1)] == [False, True, False, False, True]
    await store.append("x", 0, "key", Contents("digest", 1, b"12345678"))
    assert [entry.context for entry in await store.read_log("x", 0, 0)] == [SECOND, b"", FIRST, b""]
    assert (await store.state("x")).generators[0].primary.log_bytes == 4 * 8 + len(FIRST) + len(SECOND)
    assert await redis.exists(CONTEXTS) == 0


async def test_pages_of_a_log_end_where_contexts_are_large(store: Store):
    for number in await opened(store, *9 * [SECOND]):
        await tell(store, number)
    assert len(await store.read_log("x", 0, 0, max_bytes=5 * len(SECOND))) == 4
    assert len(await store.read_log("x", 0, 0)) == 9


async def test_an_imported_log_has_it(store: Store):
    for number in await opened(store, FIRST, b"", SECOND):
        await tell(store, number)
    known = await store.state("x")
    async with store.restoring("y") as restoration:
        await restoration.add_entries(0, await store.read_log("x", 0, 0), keep_log=False)
        await restoration.commit("{}", 0.04, known, await store.history("x"), {})
    assert await store.read_log("y", 0, 0) == await store.read_log("x", 0, 0)
    state = await store.state("y")
    assert state.generators[0].primary.log_bytes == known.generators[0].primary.log_bytes
    assert state.route_growth == 0.04
