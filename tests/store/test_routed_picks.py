"""What the picks of an experiment that routes prompts bring to the log: stored once, and gone with the pick."""

from __future__ import annotations

import itertools

import pytest
from redis.asyncio import Redis

from optimist.records import AskGroup, Contents
from optimist.store import Store
from tests.support.exchanges import new_pick, open_picks, settle

CONTEXTS = "optimist:{x}:contexts"
FIRST, SECOND = b"\x00\tfirst\n\xff", b"second" * 300
asks = itertools.count()


@pytest.fixture
def store(redis: Redis) -> Store:
    return Store(redis, settled_limit=2)


@pytest.fixture(autouse=True)
async def experiment(store: Store) -> None:
    await store.create_experiment("x", "{}", ["a", "b"], growth=0.04, route_growth=0.04, labels=[""])


async def opened(store: Store, *contexts: bytes, request: str = "", lease: float = 60.0) -> list[int]:
    """Picks of the first generator."""
    request = request or f"ask {next(asks)}"
    picks = [new_pick(0, "{}", nonce=f"{request.replace(' ', '-')}-{i}", context=c) for i, c in enumerate(contexts)]
    state = await store.state("x")
    found = await open_picks(store, "x", state.rounds, [AskGroup(request, picks)], lease, last=state.last)
    assert found is not None
    return found.numbers[request]


async def tell(store: Store, number: int, nonce: str, digest: str = "digest") -> bool:
    """Whether it was told before."""
    return (await settle(store, "x", number, digest, 1, b"12345678", nonce=nonce)).duplicate


async def logged(store: Store) -> list[bytes]:
    return [entry.context for entry in await store.read_log("x", 0, 0)]


async def test_a_tell_copies_it_into_the_log_once(store: Store, redis: Redis):
    numbers = await opened(store, FIRST, SECOND, b"", request="r")
    assert await opened(store, b"another", b"of", b"a repeat", request="r") == numbers
    assert await redis.hgetall(CONTEXTS) == {b"1": FIRST, b"2": SECOND}
    assert [await tell(store, number, f"r-{number - 1}", f"{number}") for number in (2, 2, 3, 1, 1)] == [0, 1, 0, 0, 1]
    assert await logged(store) == [SECOND, b"", FIRST]
    assert (await store.state("x")).generators[0].primary.log_bytes == 3 * 8 + len(FIRST) + len(SECOND)
    assert await redis.exists(CONTEXTS) == 0
    await store.append("x", 0, "key", Contents("digest", 1, b"12345678"))
    assert (await logged(store))[3:] == [b""]


async def test_it_goes_with_a_pick_that_is_given_up(store: Store, redis: Redis):
    [number] = await opened(store, FIRST)
    await store.give_up("x", number, "no time")
    assert await redis.exists(CONTEXTS) == 0


async def test_a_late_tell_finds_it_until_the_pick_is_forgotten(store: Store, redis: Redis):
    numbers = await opened(store, *(b"%d" % i for i in range(4)), request="late", lease=0.0)
    await store.state("x")
    assert await redis.hgetall(CONTEXTS) == {b"3": b"2", b"4": b"3"}, "those of the two newest of expired picks"
    assert (await settle(store, "x", numbers[3], "d", 1, b"12345678", nonce="late-3")).late
    assert await logged(store) == [b"3"]
    assert await redis.hkeys(CONTEXTS) == [b"3"]
    await store.delete_experiment("x")
    assert await redis.keys("optimist:{x}:*") == []


async def test_pages_of_a_log_end_where_contexts_are_large(store: Store):
    for _ in range(3):
        numbers = await opened(store, SECOND, SECOND, SECOND)
        for number in numbers:
            await tell(store, number, await nonce_of(store, number), f"{number}")
    assert len(await store.read_log("x", 0, 0, max_bytes=5 * len(SECOND))) == 4
    assert len(await store.read_log("x", 0, 0)) == 9


async def nonce_of(store: Store, number: int) -> str:
    return next(pick.nonce for pick in (await store.state("x")).open_picks if pick.number == number)


async def test_an_imported_log_has_it(store: Store):
    for context in (FIRST, b"", SECOND):
        [number] = await opened(store, context)
        await tell(store, number, await nonce_of(store, number), f"{number}")
    known = await store.state("x")
    async with store.restoring("y") as restoration:
        await restoration.add_entries(0, await store.read_log("x", 0, 0), keep_log=False)
        await restoration.commit("{}", 0.04, known, await store.history("x"), {})
    assert await store.read_log("y", 0, 0) == await store.read_log("x", 0, 0)
    state = await store.state("y")
    assert state.generators[0].primary.log_bytes == known.generators[0].primary.log_bytes
    assert state.route_growth == 0.04
