"""Memory: what a full Redis refuses it refuses whole, and a busy life leaves no more than is promised."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest
from redis.asyncio import Redis

from optimist.records import Artefact, AskGroup, ChainedExtent, Contents, GeneratorState, NewPick, Returned, Unavailable
from optimist.store import MIXTURE, MODEL_UNIT, Store
from tests.support.exchanges import MODEL, ROUTE_TABLE, claimed, new_pick, open_picks, put_modes, settle

asks = itertools.count()


def ask(*picks: NewPick) -> list[AskGroup]:
    return [AskGroup(f"ask {next(asks)}", list(picks) or [new_pick(0, "{}")])]


async def everything(redis: Redis) -> dict[bytes, bytes]:
    return {key: await redis.dump(key) for key in sorted(await redis.keys("*"))}


async def test_a_full_redis_refuses_every_step_whole_and_takes_it_later(store: Store, redis: Redis):
    await store.create_experiment("x", "{}", ["a", "b"], growth=0.0, labels=["", "kid"])
    for rounds in range(4):
        await open_picks(store, "x", rounds, ask(new_pick(0, "{}", 5 * rounds, 5)), lease_seconds=60)
    await settle(store, "x", 1, "digest", 5, b"body")
    mixing, routing = await claimed(store, "x", MIXTURE), await claimed(store, "x", MODEL_UNIT)
    extent = [ChainedExtent(0, 1, 5)]
    calls: dict[str, Callable[[], Awaitable[Any]]] = {
        "create": lambda: store.create_experiment("x2", "{}", ["a"], growth=0.0, labels=[""]),
        "open": lambda: open_picks(store, "x", 4, ask(), lease_seconds=60),
        "settle": lambda: settle(store, "x", 2, "digest", 5, b"body"),
        "append": lambda: store.append("x", 0, "key", Contents("digest", 5, b"body")),
        "renew": lambda: store.renew_leases("x", [2, 3], 600),
        "mixture": lambda: store.put_artefact("x", Artefact("mixture", label=""), "{}", mixing, extent),
        "model": lambda: store.put_artefact("x", MODEL, b"model", routing, extent),
        "routes": lambda: store.put_artefact("x", ROUTE_TABLE, "{}", routing, extent),
        "blend": lambda: store.blend("x", {0: 1.0}, 5, "request"),
        "add": lambda: store.add_generator("x", "c"),
        "pause": lambda: store.set_state("x", 1, "paused"),
        "control": lambda: store.control("x", {"stop": "", "budget": "9"}),
        "decide": lambda: store.latch_decision("x", "{}"),
    }
    for label in ("", "kid"):
        mine: dict[str, Any] = {"token": await claimed(store, "x", 0, label=label), "label": label}
        calls |= {
            f"claim {label}": partial(store.claim, "x", 1, "scorer", 60, label),
            f"estimate {label}": partial(store.put_estimate, "x", 0, 1, "{}", point="[]", **mine),
            f"fitted {label}": partial(store.put_fitted, "x", 0, b"sigma", **mine),
            f"modes {label}": partial(put_modes, store, "x", 0, 1, "{}", **mine),
            f"snapshot {label}": partial(store.put_snapshot, "x", 0, 1, b"statistic", **mine),
            f"quarantined {label}": partial(store.quarantine, "x", 0, 1, "torn", **mine),
            f"scoring error {label}": partial(store.put_scoring_error, "x", 0, "scratched", **mine),
        }
    before = await everything(redis)
    await redis.config_set("maxmemory", 1)
    try:
        for name, call in calls.items():
            with pytest.raises(Unavailable):
                await call()
            assert await everything(redis) == before, name
        # What makes room, or takes hardly any, goes on.
        assert (await settle(store, "x", 1, "digest", 5, b"body")).duplicate
        await store.give_up("x", 3, "tired")
        stored = await store.state("x")
        assert (stored.generators[0].returned, stored.told) == ([Returned(10, 5)], 1)
    finally:
        await redis.config_set("maxmemory", 0)
    for call in calls.values():
        assert await call() is not False
    stored = await store.state("x")
    assert (stored.rounds, stored.told, len(stored.open_picks), stored.generators[0].samples) == (5, 3, 2, 15)
    unit = stored.generators[0].primary
    assert (unit.snapshot_seq, unit.estimate, stored.decision) == (1, "{}", "{}")


async def test_how_full_redis_is_is_known(store: Store, redis: Redis):
    limit = 100 * 2**20
    await redis.config_set("maxmemory", limit)
    try:
        usage = await store.usage()
    finally:
        await redis.config_set("maxmemory", 0)
    assert 0 < usage.used_bytes < limit == usage.limit_bytes


async def test_a_snapshot_all_of_which_has_come_makes_room_in_a_full_redis(
    store: Store, redis: Redis, monkeypatch: pytest.MonkeyPatch
):
    await store.create_experiment("x", "{}", ["a"], growth=0.0, labels=[""])
    await store.append("x", 0, "key", Contents("digest", 5, bytes(100_000)))
    claim = await claimed(store, "x", 0)
    run = store._commands.experiment_script

    async def fill(name: str, *arguments: Any, **options: Any) -> object:
        if name == "flip_snapshot":
            await redis.config_set("maxmemory", 1)
        return await run(name, *arguments, **options)

    monkeypatch.setattr(store._commands, "experiment_script", fill)
    try:
        assert await store.put_snapshot("x", 0, 1, b"statistic", claim, label="")
    finally:
        await redis.config_set("maxmemory", 0)
    assert await redis.xlen("optimist:{x}:log:0") == 0


def next_of(generator: GeneratorState) -> NewPick:
    """A pick of the next index: of those that were returned, if there are any."""
    if not generator.returned:
        return new_pick(generator.ordinal, "{}", generator.handed, 1)
    start, size = generator.returned[0]
    return new_pick(generator.ordinal, "{}", start, 1, again=True, left=size - 1)


async def test_a_busy_life_is_bounded_and_leaves_nothing(redis: Redis):
    store, limit = Store(redis, settled_limit=6), 6
    await store.create_experiment("x", "{}", ["a", "b"], growth=0.0, labels=[""])
    held = await open_picks(store, "x", 0, ask(), lease_seconds=60)
    assert held is not None

    async def size(key: bytes) -> int:
        lengths = {"hash": "HLEN", "list": "LLEN", "zset": "ZCARD", "stream": "XLEN", "string": "STRLEN"}
        return await redis.execute_command(lengths[(await redis.type(key)).decode()], key)

    async def live(rounds: int) -> dict[str, int]:
        for n in range(rounds):
            stored = await store.state("x")
            first, three = stored.rounds + 1, ask(*map(next_of, stored.generators), new_pick(1))
            assert await open_picks(store, "x", first - 1, three, lease_seconds=0.001 if n % 3 == 0 else 60)
            await asyncio.sleep(0.002)
            await store.renew_leases("x", [1], 60)
            if n % 3:
                await settle(store, "x", first, "digest", 5, bytes(100))
                await store.give_up("x", first + 1, "tired")
                await settle(store, "x", first + 2, "digest", 5, bytes(100))
            await store.append("x", n % 2, f"key {first}", Contents("digest", 5, bytes(100)))
            for g, state in enumerate((await store.state("x")).generators):
                claim = await claimed(store, "x", g)
                await store.put_estimate("x", g, state.seq, "{}", claim, label="")
                await put_modes(store, "x", g, state.seq, "{}", claim)
                if n % 2:
                    await store.put_snapshot("x", g, state.seq, bytes(1000), claim, label="")
        return {key.decode().rpartition("}:")[2]: await size(key) for key in await redis.keys("optimist:{x}:*")}

    first, later = await live(24), await live(42)
    grown = {part for part, length in later.items() if length > first.get(part, 0)}
    assert {part for part in grown if not part.startswith("snapshot:")} == {"history"}
    assert len(later) == len(first)
    assert later["settled"] == later["settled_order"] == limit
    assert later["appended"] == later["appended_at"] == limit
    assert later["requests"] == later["leases"] == 1
    assert later["picks"] == 1 + limit
    assert not (await settle(store, "x", 1, "digest", 5, b"body")).late, "renewed all along"
    await store.delete_experiment("x")
    assert await redis.keys("*") == []
