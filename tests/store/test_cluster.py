"""A Redis Cluster of three masters and their replicas: shared out, moved, broken, and reached again."""

import asyncio
import random
import signal
from collections.abc import Iterator

import pytest
from redis.asyncio import Redis

from optimist.records import CannotStart, Unavailable
from optimist.store import DUE, Announcement, Store, clients, connect
from optimist.store.connection import check_server
from tests.support.exchanges import claimed, new_pick, open_one, settle
from tests.support.present import experiments, references
from tests.support.servers import Cluster, cluster, redis_6, redis_7

# Their slots are 16,287, 8,157 and 3,300: one on each master.
NAMES = ("x", "z", "b")


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    program = redis_6() or redis_7() or pytest.skip("no redis-server here")
    with cluster(program, tmp_path_factory.mktemp("cluster"), replicas=1) as servers:
        yield servers


@pytest.fixture(scope="module")
def server(servers: Cluster) -> Cluster:
    return servers


async def round_(store: Store, experiment: str) -> int:
    """Ask and tell once; the number of the pick."""
    number = await open_one(store, experiment, new_pick(0))
    assert number is not None
    await settle(store, experiment, number, f"digest {number}", 5, b"body")
    return number


async def patiently(store: Store, experiment: str) -> int:
    """`round_`, over again while Redis is away, as a worker does it."""
    async with asyncio.timeout(60):
        while True:
            try:
                return await round_(store, experiment)
            except Unavailable:
                await asyncio.sleep(0.05)


async def test_experiments_of_all_masters_make_one_store(store: Store, servers: Cluster):
    names = [f"experiment-{n}" for n in range(12)]
    assert {servers.owner(f"{{{name}}}") for name in names} == set(servers.masters)
    for name in names:
        assert await store.create_experiment(name, "{}", ["a"], growth=0.0, labels=[""])
        assert [await round_(store, name) for _ in range(3)] == [1, 2, 3]
        assert [entry.pick for entry in await store.read_log(name, 0, 0)] == [1, 2, 3]
        claim = await claimed(store, name, 0)
        assert await store.put_estimate(name, 0, 3, "{}", claim, label="")
    assert await experiments(store) == names
    body = random.Random(1).randbytes(3 * 2**20 + 1)  # chunks are of 1 MiB
    for name in names[:3]:
        assert await store.references.put(name, "{}", body)
        assert await store.references.get(name) == ("{}", body)
    assert set(await references(store)) == set(names[:3])
    for name in names:
        assert await store.delete_experiment(name)
    assert await experiments(store) == []


async def test_every_node_hears_the_announcements_of_all(store: Store, redis: Redis, monkeypatch: pytest.MonkeyPatch):
    for name in NAMES:
        await store.create_experiment(name, "{}", ["a"], growth=0.0, labels=[""])
    for node in redis.get_nodes():
        monkeypatch.setattr(clients.random, "choice", lambda nodes, node=node: node)
        async with store.announcements(DUE) as stream:
            assert await anext(stream) is None
            for name in NAMES:
                number = await round_(store, name)
                async with asyncio.timeout(10):
                    # What was told while another node was listened to may come late.
                    while await anext(stream) != Announcement(DUE, name, 0, number):
                        pass


async def test_a_subscription_leaves_a_node_that_has_fallen_silent(
    store: Store, redis: Redis, servers: Cluster, monkeypatch: pytest.MonkeyPatch
):
    await store.create_experiment("x", "{}", ["a"], growth=0.0, labels=[""])
    monkeypatch.setattr("optimist.store.announcements._QUIET_SECONDS", 0.2)
    silent = servers.replica_of(servers.masters[0])
    there = next(node for node in redis.get_nodes() if node.port == silent.port)
    chosen = iter([there, *redis.get_primaries()])
    monkeypatch.setattr(clients.random, "choice", lambda nodes: next(chosen))
    async with store.announcements(DUE) as stream:
        assert await anext(stream) is None
        silent.send(signal.SIGSTOP)
        try:
            await round_(store, "x")
            async with asyncio.timeout(10):
                # Only what comes after the move is heard, and None says that something may have been missed.
                assert await anext(stream) is None
                await round_(store, "x")
                while (heard := await anext(stream)) is None:
                    pass
        finally:
            silent.send(signal.SIGCONT)
    assert heard == Announcement(DUE, "x", 0, 2)


async def test_lost_connections_open_and_count_nothing_twice(store: Store, servers: Cluster):
    for name in NAMES:
        await store.create_experiment(name, "{}", ["a"], growth=0.0, labels=[""])

    async def cut() -> None:
        for master in servers.masters:
            await asyncio.to_thread(master.call, "CLIENT", "KILL", "TYPE", "normal")

    for _ in range(12):
        await asyncio.gather(cut(), *(patiently(store, name) for name in NAMES))
    for name in NAMES:
        stored = await store.state(name)
        log = await store.read_log(name, 0, 0)
        picks = [entry.pick for entry in log]
        assert len(set(picks)) == len(picks) == stored.told == stored.generators[0].batches >= 12
        assert len(await store.history(name)) == 7 * stored.told


async def test_more_calls_than_connections_wait_for_their_turn(store: Store, servers: Cluster):
    await store.create_experiment("x", "{}", ["a"], growth=0.0, labels=[""])
    async with connect(f"{servers.url}?client_name=few", max_connections=2) as redis:
        few = Store(redis)
        states = asyncio.gather(*(few.state("x") for _ in range(100)))
        configs = asyncio.gather(*(few.config("x") for _ in range(100)))
        assert {stored.rounds for stored in await states} == {0}
        assert set(await configs) == {"{}"}
        # Two for commands, two for pipelines, and the one that asked who is there.
        assert 1 <= servers.owner("{x}").call("CLIENT", "LIST").count(b"name=few") <= 5


async def test_calls_given_up_leave_no_reply_to_another(store: Store):
    for name in NAMES:
        await store.create_experiment(name, f'"{name}"', ["a"], growth=0.0, labels=[""])

    async def ask(name: str) -> bool:
        return await store.config(name) == f'"{name}"' and (await store.state(name)).rounds == 0

    for delay in range(40):
        asks = [asyncio.create_task(ask(random.choice(NAMES))) for _ in range(10)]
        await asyncio.sleep(delay / 10_000)
        for given_up in asks[::2]:
            given_up.cancel()
        answers = await asyncio.gather(*asks, return_exceptions=True)
        assert all(answer is True or isinstance(answer, asyncio.CancelledError) for answer in answers), answers


async def test_an_experiment_is_away_while_its_slot_moves_and_whole_after(store: Store, servers: Cluster):
    await store.create_experiment("x", "{}", ["a"], growth=0.0, labels=[""])
    assert [await round_(store, "x") for _ in range(3)] == [1, 2, 3]
    before = await store.state("x")
    source = servers.owner("{x}")
    target = next(master for master in servers.masters if master is not source)
    slot = source.call("CLUSTER", "KEYSLOT", "{x}")
    target.call("CLUSTER", "SETSLOT", slot, "IMPORTING", servers.node_id(source))
    source.call("CLUSTER", "SETSLOT", slot, "MIGRATING", servers.node_id(target))
    keys = source.call("CLUSTER", "GETKEYSINSLOT", slot, 100)
    for number, key in enumerate(keys):
        source.call("MIGRATE", "127.0.0.1", target.port, key, 0, 5000)
        if number == len(keys) // 2:
            with pytest.raises(Unavailable):
                await round_(store, "x")
    for master in (target, source, *servers.masters):
        master.call("CLUSTER", "SETSLOT", slot, "NODE", servers.node_id(target))
    assert servers.owner("{x}") is target
    assert await store.state("x") == before
    assert await patiently(store, "x") == 4
    assert await store.references.put("r", "{}", b"body")


async def test_what_is_known_of_the_nodes_may_grow_stale_altogether(store: Store, redis: Redis):
    await store.ping()
    await redis.aclose()
    # As where every server got another address, and the name in the URL leads to them.
    redis.nodes_manager.startup_nodes.clear()  # pyright: ignore[reportAttributeAccessIssue]
    await store.ping()


async def test_an_unreachable_cluster_is_named():
    redis = connect("redis+cluster://127.0.0.1:1")
    with pytest.raises(Unavailable, match=r"127\.0\.0\.1:1"):
        await Store(redis).state("x")
    async with Store(redis).announcements(DUE) as stream:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await anext(stream)
    await redis.aclose()


async def test_one_unfit_master_is_enough(redis: Redis, servers: Cluster):
    await check_server(redis)
    unfit = servers.masters[2]
    unfit.call("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    try:
        with pytest.raises(CannotStart, match=f"{unfit.port} has maxmemory-policy allkeys-lru"):
            await check_server(redis)
    finally:
        unfit.call("CONFIG", "SET", "maxmemory-policy", "noeviction")
    async with connect(servers.url.replace("+cluster", "")) as plain:
        with pytest.raises(CannotStart, match=r"begin its URL with redis\+cluster://"):
            await check_server(plain)


@pytest.mark.long
@pytest.mark.faults
async def test_a_replica_takes_over_from_a_killed_master(store: Store, servers: Cluster):
    for name in NAMES:
        await store.create_experiment(name, "{}", ["a"], growth=0.0, labels=[""])
        assert await round_(store, name) == 1
    master = await asyncio.to_thread(servers.owner, "{x}")
    # Redis acknowledges before its replica has it, so what is killed here is a master whose replica has caught up.
    assert await asyncio.to_thread(master.call, "WAIT", 1, 10_000) == 1
    async with store.announcements(DUE) as stream:
        assert await anext(stream) is None
        await asyncio.to_thread(master.kill)
        try:
            with pytest.raises(Unavailable):
                await round_(store, "x")
            assert await patiently(store, "x") >= 2
            assert await patiently(store, "z") == 2
            async with asyncio.timeout(20):
                while (heard := await anext(stream)) is None or heard.experiment != "z":
                    if heard is None:  # The subscription is new: what was announced before is lost.
                        await patiently(store, "z")
        finally:
            await asyncio.to_thread(master.start)
    assert (await store.read_log("x", 0, 0))[0].digest == "digest 1"
    assert await asyncio.to_thread(servers.owner, "{x}") is not master
    await asyncio.to_thread(servers.until_whole)
    assert await patiently(store, "x") >= 3
