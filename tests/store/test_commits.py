"""commit.lua answers as the store in memory, which the simulator has, and stands what that one stands."""

from __future__ import annotations

import asyncio
import contextlib
import random
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from optimist.dispatch.committing import carried_out
from optimist.dispatch.writer import Command, Writer
from optimist.experiments.transitions import batches, controls, picks, retracting
from optimist.records import (
    Artefact,
    Batch,
    ChainedExtent,
    Contents,
    LogEntry,
    NotFound,
    Settled,
    StoreError,
    Superseded,
    Unavailable,
)
from optimist.records.commits import TAIL, TURN, Guard, Head, Request, Rule, Write
from optimist.store import MIXTURE, Store, connect
from optimist.store.keys import experiment_key
from tests.interleavings.invariants import check_store, tables_of
from tests.interleavings.operations import Alternating, Drawer
from tests.interleavings.redis_contents import contents_of, plain
from tests.support.exchanges import claimed
from tests.support.memory_store import MemoryStore
from tests.support.servers import Server, redis_6, redis_7

NAMES = ["g0", "g1", "g2"]


class Frozen:
    """A clock that both stores go by: it moves only where a test moves it."""

    def __init__(self) -> None:
        self.now = 1e9

    def __call__(self) -> float:
        return self.now


class SameTime(Store):
    """A store whose answers have the time of a test, so that two stores decide the same."""

    clock = Frozen()

    async def commit(self, experiment: str, request: Request) -> Any:
        answer = await super().commit(experiment, request)
        return type(answer)(answer.is_done, answer.head, self.clock(), answer.values, answer.missed, answer.waits)

    async def load_tables(self, experiment: str) -> Any:
        loaded = await super().load_tables(experiment)
        return type(loaded)(loaded.head, self.clock(), loaded.changes)


def drawer_of(memory: MemoryStore, seed: int) -> Drawer:
    return Drawer(random.Random(seed), lambda: memory.contents.hashes.get("units", {}), lambda: tables_of(memory).root)


async def test_the_script_answers_as_the_store_in_memory(redis: Redis):
    """The same commands, on Redis by two writers in turns, and on memory by another one."""
    store, clock = SameTime(redis), SameTime.clock
    memory = MemoryStore(clock)
    mine, others = Writer("m", clock), [Writer(f"w{place}", clock) for place in range(2)]
    drawer = drawer_of(memory, 1)
    root, r = drawer.new_root(), random.Random(2)

    async def both(commands: list[Command], place: int) -> list[Any]:
        expected = memory.run(mine.run(commands))
        replies = await carried_out(store, "x", others[place], commands)
        assert list(map(shown, replies)) == list(map(shown, expected))
        return replies

    await both([lambda draft: controls.create(draft, root, "{}", NAMES)], 0)
    for _ in range(500):
        clock.now += r.choice([0.1, 0.1, 2.0])
        operations = [drawer.draw(r.randrange(6)) for _ in range(r.choice([1, 1, 3]))]
        replies = await both([operation.command for operation in operations], r.randrange(2))
        drawer.picks += given(replies, mine)
        if tables_of(memory).root is None:
            await both([lambda draft: controls.create(draft, root, "{}", NAMES)], 0)
            drawer.picks.clear()
    assert plain(await contents_of(redis, "x")) == plain(memory.contents)


def shown(reply: Any) -> Any:
    return (type(reply), str(reply)) if isinstance(reply, StoreError) else reply


def given(replies: list[Any], writer: Writer) -> list[tuple[int, str]]:
    numbers = [number for reply in replies if isinstance(reply, picks.Asked) for number in reply.numbers]
    return [(number, writer.tables.picks[number].nonce) for number in numbers if number in writer.tables.picks]


@pytest.fixture
def request_of_one(store: Store):
    """Writes a field if the head is as given, with these guards."""

    def made(head: Head, chain: str, *guards: Guard, who: str = "", value: str = "1") -> Request:
        return Request(head, guards, chain, f"entry {chain}", [Write("HSET", "controls", (chain, value))], who=who)

    return made


async def test_a_step_is_written_once(store: Store, redis: Redis, request_of_one: Any):
    first = request_of_one(Head(), "one")
    for _ in range(2):
        answer = await store.commit("x", first)
        assert (answer.is_done, answer.head) == (True, Head(1, "one"))
    second = await store.commit("x", request_of_one(Head(1, "one"), "two"))
    assert second.is_done
    late = await store.commit("x", first)
    assert (late.is_done, late.head, late.missed) == (
        False,
        Head(2, "two"),
        [("one", "entry one"), ("two", "entry two")],
    )
    assert await redis.hlen("optimist:{x}:controls") == 2


async def test_a_guard_that_does_not_hold_refuses_a_step(store: Store, request_of_one: Any):
    absent, equal = Guard("controls", "one", Rule.ABSENT), Guard("controls", "one", Rule.EQUAL, "1")
    assert not (await store.commit("x", request_of_one(Head(), "one", equal))).is_done
    assert (await store.commit("x", request_of_one(Head(), "one", absent))).is_done
    answer = await store.commit("x", request_of_one(Head(1, "one"), "two", equal, absent))
    assert (answer.is_done, answer.values, answer.missed) == (False, ["1", "1"], [])


async def test_whoever_is_far_behind_reads_all(store: Store, request_of_one: Any):
    head = Head()
    for number in range(TAIL + 2):
        answer = await store.commit("x", request_of_one(head, f"{number}"))
        head = answer.head
    behind = [
        await store.commit("x", Request(Head(seq, f"{seq - 1}" if seq else ""), ())) for seq in (0, 2, 3, TAIL + 1)
    ]
    assert [None if one.missed is None else len(one.missed) for one in behind] == [None, None, TAIL - 1, 1]
    unknown = await store.commit("x", Request(Head(TAIL + 1, "another"), ()))
    assert unknown.missed is None, "the same number of steps is not the same history"


async def test_turns_are_taken_one_after_the_other(store: Store, request_of_one: Any):
    def claim(head: Head, who: str) -> Request:
        return Request(head, (), who=who, claims=True)

    await store.commit("x", request_of_one(Head(), "one"))
    mine = await store.commit("x", claim(Head(), "first"))
    assert (mine.is_done, mine.waits) == (False, False)
    assert mine.missed, "a claim catches up"
    for waiting in (claim(mine.head, "second"), claim(mine.head, "third"), request_of_one(mine.head, "two")):
        waits = await store.commit("x", waiting)
        assert (waits.is_done, waits.waits) == (False, True)
    read = await store.commit("x", Request(mine.head, [Guard("controls", "one")]))
    assert (read.is_done, read.values) == (True, ["1"]), "only steps wait"
    done = await store.commit("x", request_of_one(mine.head, "two", who="first"))
    assert (await store.commit("x", claim(done.head, "third"))).waits, "the second one is next"
    assert (await store.commit("x", claim(done.head, "second"))).is_done
    assert (await store.commit("x", Request(done.head, (), who="second"))).is_done, "a turn is given back unused"
    assert (await store.commit("x", claim(done.head, "third"))).is_done
    await asyncio.sleep(TURN + 0.01)
    assert (await store.commit("x", request_of_one(done.head, "three"))).is_done, "no turn lasts longer"


async def played(url: str, seed: int, acknowledged: list[Settled]) -> None:
    """One process: clients that give commands one after the other, and repeat what was not answered."""
    async with connect(url) as redis:
        store, writer = Store(redis), Writer(f"process {seed} {time.time()}", time.monotonic)
        drawer = Drawer(random.Random(seed), dict, lambda: writer.tables.root, leases=(0.5, 3.0))
        while True:
            operations = [drawer.draw(seed) for _ in range(drawer.random.choice([1, 3]))]
            commands = [operation.command for operation in operations if operation.kind not in ("delete", "latch")]
            replies = await repeated(store, writer, commands)
            drawer.picks += given(replies, writer)
            acknowledged += [reply for reply in replies if isinstance(reply, Settled) and reply.seq]


async def repeated(store: Store, writer: Writer, commands: list[Command]) -> list[Any]:
    for _ in range(200):
        with contextlib.suppress(Unavailable):
            return await carried_out(store, "x", writer, commands)
        await asyncio.sleep(0.02)
    raise AssertionError("the server does not come back")


class Killed:
    """A server that is killed, started again, and set back to what it had at an earlier kill."""

    def __init__(self, program: str, path: Path) -> None:
        self._program, self._path, self._copies = program, path, 0
        self.server = Server(program, path / "redis", *OPTIONS)

    def kill(self) -> Path:
        """Kill it and start it again; what it had is in this directory."""
        self._copies += 1
        copy = self._path / f"copy {self._copies}"
        self.server.kill()
        shutil.copytree(self._path / "redis", copy)
        self.server.start()
        return copy

    def set_back(self, copy: Path) -> None:
        self.server.kill()
        shutil.rmtree(self._path / "redis")
        shutil.copytree(copy, self._path / "redis")
        self.server.start()


OPTIONS = "--appendonly", "yes", "--appendfsync", "always", "--save", ""


async def test_what_makes_room_goes_on_while_memory_is_full(redis: Redis):
    store, writer = Store(redis), Writer("w", time.monotonic)
    drawer = Drawer(random.Random(0), dict, lambda: writer.tables.root)
    asked = picks.Ask("request", ("one", "two"), 60.0, picks.Room(9, 9, 9))
    batch = Batch(1, "one", Contents("digest", 5, b"body"))
    commands: list[Command] = [
        lambda draft: controls.create(draft, drawer.new_root(), "{}", NAMES),
        lambda draft: picks.ask(draft, asked, Alternating()),
    ]
    await carried_out(store, "x", writer, commands)
    await redis.config_set("maxmemory", 1)
    try:
        with pytest.raises(Unavailable):
            await carried_out(store, "x", writer, [lambda draft: batches.tell(draft, batch)])
        await carried_out(store, "x", writer, [lambda draft: picks.give_up(draft, 2, "tired", "two")])
    finally:
        await redis.config_set("maxmemory", 0)
    [settled] = await carried_out(store, "x", writer, [lambda draft: batches.tell(draft, batch)])
    assert (settled.seq, settled.duplicate, [*writer.tables.picks]) == (1, False, [])


class OnTables:
    """The two methods of `Store` that `scored` needs, by commits."""

    def __init__(self, store: Store) -> None:
        self._store, self._writer = store, Writer("w", time.monotonic)

    async def run(self, command: Command) -> Any:
        [reply] = await carried_out(self._store, "x", self._writer, [command])
        return reply

    async def append(self, _: str, g: int, key: str, contents: Contents) -> Any:
        return await self.run(lambda draft: batches.append(draft, g, key, contents))

    async def retract(self, _: str, *, fits_kernels: bool = False, until: int | None = None, **named: Any) -> Any:
        by, name = retracting.By(), retracting.Named(**named)
        return await self.run(lambda draft: retracting.retract(draft, name, by, until=until, fits_kernels=fits_kernels))


RETRACTED: list[dict[str, Any]] = [
    {"generator": 0, "position": 3},
    {"generator": 0, "position": 6},
    {"generator": 0},
    {"generator": 0, "until": 3},
    {"generator": 0, "position": 1, "fits_kernels": True},
    {"generator": 0, "fits_kernels": True},
]


@pytest.mark.parametrize("named", RETRACTED)
async def test_what_scorers_made_goes_as_today(named: dict[str, Any], store: Store, redis: Redis):
    """The scripts of scorers work beside commits, and what they made is the same after a retraction."""
    await store.create_experiment("x", "{}", NAMES, 0.3, labels=["m"], keep_log=True, instance="one")
    expected = await scored(store, redis, store, named)
    await redis.flushall()
    tables, root = OnTables(store), Drawer(random.Random(0), dict, lambda: None).new_root()
    await tables.run(lambda draft: controls.create(draft, root._replace(keep_log=True), "{}", NAMES))
    assert await scored(store, redis, tables, named) == expected


async def test_a_deleted_experiment_leaves_nothing(store: Store, redis: Redis):
    tables, root = OnTables(store), Drawer(random.Random(0), dict, lambda: None).new_root()
    await tables.run(lambda draft: controls.create(draft, root, "{}", NAMES))
    await scored(store, redis, tables, {"generator": 0, "position": 8})
    assert await redis.keys("optimist:{x}:*")
    assert await tables.run(controls.delete)
    assert not await redis.keys("optimist:{x}:*")
    with pytest.raises(NotFound):
        await store.claim("x", 0, "scorer", 10.0, "m")


async def scored(store: Store, redis: Redis, experiment: Any, named: dict[str, Any]) -> dict[str, Any]:
    """What is left of what scorers made of eight batches, after this retraction."""
    for g in range(2):
        for number in range(8):
            contents = Contents(f"digest {number}", 5, b"body")
            await experiment.append("x", g, f"{number}", contents)
    place = Artefact("mixture", "m")
    mixed = await claimed(store, "x", MIXTURE, label="m")
    tokens = [await claimed(store, "x", g, label="m") for g in range(2)]
    await store.put_fitted("x", 0, b"kernels", tokens[0], await read_logs(store), label="m")
    for g, token in enumerate(tokens):
        for seq in (2, 5, 7):
            assert await store.put_estimate("x", g, seq, f"estimate {seq}", token, label="m", point=f"point {seq}")
        assert await store.put_snapshot("x", g, 4, b"statistic", token, label="m")
        await store.quarantine("x", g, 3, "unreadable", token, label="m")
    for seq in (2, 7):
        parts = [ChainedExtent(g, seq, 5 * seq, "") for g in range(2)]
        assert await store.put_artefact("x", place, "mixture", mixed, parts, point=f"point {seq}")
    await experiment.retract("x", **named)
    with pytest.raises(Superseded):
        await store.put_estimate("x", 0, 8, "old claim", tokens[0], label="m")
    fresh = await claimed(store, "x", 0, "another", label="m")
    with pytest.raises(Superseded):
        await store.put_estimate("x", 0, 8, "void", fresh, label="m")
    await store.put_estimate("x", 0, 9, "new", fresh, label="m", point="point 9")
    return await made(store, redis)


async def read_logs(store: Store) -> dict[int, LogEntry]:
    """The second entry of each log."""
    return {g: (await store.read_log("x", g, 0))[1] for g in range(2)}


async def made(store: Store, redis: Redis) -> dict[str, Any]:
    prefix = experiment_key("x", "")
    units = {
        name: text for name, text in (await redis.hgetall(f"{prefix}units")).items() if not name.endswith(b":made")
    }
    for name in [name for name in units if name.endswith((b":snapshot", b":upload"))]:
        units[name] = b"random"
    artefacts = {n: t for n, t in (await redis.hgetall(f"{prefix}artefacts")).items() if not n.endswith(b":made")}
    counts = await redis.hmget(f"{prefix}counts", "0:quarantined", "1:quarantined", "0:voids", "0:seq", "told")
    parts = [key.decode().removeprefix(prefix) for key in await redis.keys(f"{prefix}*")]
    return {
        "units": units,
        "artefacts": artefacts,
        "counts": counts,
        "quarantined": await redis.hgetall(f"{prefix}quarantined"),
        "estimates": await redis.hgetall(f"{prefix}estimates"),
        "claimed": sorted(await redis.hkeys(f"{prefix}claims")),
        "snapshots": sum(part.startswith("snapshot:") for part in parts),
        "fitted": await store.fitted("x", "m"),
        **{part: await redis.lrange(f"{prefix}{part}", 0, -1) for part in parts if part.startswith("curve:")},
    }


@pytest.mark.faults
@pytest.mark.parametrize("found", [redis_6, redis_7])
async def test_processes_agree_while_the_server_is_killed_and_set_back(found: Callable[[], str | None], tmp_path: Path):
    """Nothing is lost that was acknowledged before a kill, and the counts are those of the logs."""
    if (program := found()) is None:
        pytest.skip("no redis-server of this version here")
    killed, acknowledged = Killed(program, tmp_path), list[Settled]()
    playing: list[asyncio.Task[None]] = []
    try:
        async with connect(killed.server.url) as redis:
            root = Drawer(random.Random(0), dict, lambda: None).new_root()._replace(keep_log=True)
            await repeated(Store(redis), Writer("w", time.monotonic), [lambda d: controls.create(d, root, "{}", NAMES)])
        playing += (asyncio.create_task(played(killed.server.url, seed, acknowledged)) for seed in (1, 2, 3))
        copies: list[Path] = []
        for _ in range(3):
            await more(acknowledged, playing)
            before = list(acknowledged)
            copies.append(await asyncio.to_thread(killed.kill))
            logs = (await checked(program, copies[-1])).contents.logs
            missing = [one for one in before if logs[f"log:{one.generator}"][one.seq]["pick"] != one.pick]
            assert not missing, "what was acknowledged is there"
        await asyncio.to_thread(killed.set_back, copies[0])
        await more(acknowledged, playing)
        await checked(program, await asyncio.to_thread(killed.kill))
    finally:
        for task in playing:
            task.cancel()
        await asyncio.gather(*playing, return_exceptions=True)
        killed.server.stop()


async def more(acknowledged: list[Settled], playing: list[asyncio.Task[None]]) -> None:
    """Wait until 30 more batches are acknowledged."""
    goal = len(acknowledged) + 30
    while len(acknowledged) < goal:
        assert not any(task.done() for task in playing), [task.exception() for task in playing if task.done()]
        await asyncio.sleep(0.01)


async def checked(program: str, directory: Path) -> MemoryStore:
    """What a server had, which holds together."""
    server = Server(program, directory, *OPTIONS)
    try:
        async with connect(server.url) as redis:
            memory = MemoryStore(time.time)
            memory.contents = await contents_of(redis, "x")
    finally:
        server.stop()
    check_store(memory, tables_of(memory), has_journal=False)
    return memory
