"""What happens between the store and its Redis: announcements, lost connections and replies, full memory."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import uvloop
from redis.asyncio import Redis
from redis.exceptions import ConnectionError

from optimist.records import AskGroup, Unavailable
from optimist.store import DUE, SCORED, Announcement, Store, connect
from optimist.store.clients import ClusterClient
from tests.support.exchanges import claimed, new_pick, open_picks, settle
from tests.support.servers import Server


@asynccontextmanager
async def cutting_proxy(url: str, path: Path, every: int) -> AsyncIterator[str]:
    """A socket before the server's that cuts the connection in place of every n-th script's reply."""
    scripts = 0
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        where = urlsplit(url)
        upstream, downstream = await (
            asyncio.open_unix_connection(where.path)
            if where.scheme == "unix"
            else asyncio.open_connection(where.hostname, where.port)
        )
        cut = asyncio.Event()

        async def pass_requests() -> None:
            nonlocal scripts
            while request := await reader.read(2**20):
                scripts += request.count(b"EVALSHA")
                if b"EVALSHA" in request and scripts % every == 0:
                    cut.set()
                downstream.write(request)

        asking = asyncio.create_task(pass_requests())
        try:
            while (reply := await upstream.read(2**20)) and not cut.is_set():
                writer.write(reply)
        finally:
            asking.cancel()
            writer.close()
            downstream.close()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(serve(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    proxy = await asyncio.start_unix_server(accept, path)
    try:
        yield f"unix://{path}"
    finally:
        proxy.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
def test_a_command_that_is_cancelled_leaves_no_answer_to_the_next_one(
    server: Server, run: Callable[[Coroutine[Any, Any, None]], None]
):
    """Whenever the cancellation comes: before, during and after the write, or while the answer is awaited."""

    # A cluster takes no command without a key.
    echo = "EVAL", "return ARGV[1]", 1, "key"

    async def cancel() -> None:
        async with connect(server.url, max_connections=1) as redis:
            for passes in range(40):
                asked = asyncio.create_task(redis.execute_command(*echo, f"cancelled {passes}"))
                for _ in range(passes):
                    await asyncio.sleep(0)
                asked.cancel()
                found, _ = await asyncio.gather(redis.execute_command(*echo, "next"), asked, return_exceptions=True)
                assert found == b"next"

    run(cancel())


async def test_lost_replies_open_and_count_nothing_twice(store: Store, redis: Redis, server: Server, tmp_path: Path):
    if isinstance(redis, ClusterClient):
        pytest.skip("a cluster's nodes give their own addresses, past any proxy; test_cluster.py cuts its connections")
    await store.create_experiment("x", "{}", ["a"], growth=0.0, labels=[""])
    async with cutting_proxy(server.url, tmp_path / "s", every=3) as url, connect(url) as redis:
        unreliable = Store(redis)
        for n in range(8):
            group = AskGroup(f"ask {n}", [new_pick(0, "{}")])
            opened = await open_picks(unreliable, "x", (await unreliable.state("x")).rounds, [group], lease_seconds=60)
            assert opened is not None
            assert opened.numbers == {f"ask {n}": [n + 1]}
        assert len((await store.state("x")).open_picks) == 8
        for pick in range(1, 9):
            assert (await settle(unreliable, "x", pick, f"d{pick}", 5, b"body")).seq == pick
            claim = await claimed(unreliable, "x", 0)
            assert await unreliable.put_estimate("x", 0, pick, "{}", claim, label="")
        assert await unreliable.latch_decision("x", "{}")
    stored = await store.state("x")
    assert (stored.rounds, stored.told, stored.generators[0].samples, stored.open_picks) == (8, 8, 40, [])
    assert len(await store.history("x")) == 7 * 8


async def test_due_and_new_estimates_are_announced(store: Store):
    await store.create_experiment("x", "{}", ["a", "b"], growth=0.0, labels=[""])
    await open_picks(store, "x", 0, [AskGroup("ask", [new_pick(1, "{}")])], lease_seconds=60)
    claim = await claimed(store, "x", 1)
    async with store.announcements(DUE, SCORED) as stream:
        assert await anext(stream) is None, "subscribed: look now"
        assert await anext(stream) is None
        for _ in range(2):
            await settle(store, "x", 1, "digest", 5, b"body")
            await store.put_estimate("x", 1, 1, "{}", claim, label="")
        assert await anext(stream) == Announcement(DUE, "x", 1, 1)
        assert await anext(stream) == Announcement(SCORED, "x", 1, 1)
        # Repeats change nothing, so they are not announced: the next one heard is the next batch's.
        await open_picks(store, "x", 1, [AskGroup("ask", [new_pick(0, "{}")])], lease_seconds=60)
        await settle(store, "x", 2, "digest", 5, b"body")
        assert await anext(stream) == Announcement(DUE, "x", 0, 1)


async def test_announcements_come_back_after_a_lost_connection(store: Store, redis: Redis):
    await store.create_experiment("x", "{}", ["a"], growth=0.0, labels=[""])
    claim = await claimed(store, "x", 0)
    async with store.announcements(SCORED) as stream:
        assert await anext(stream) is None
        await redis.client_kill_filter(_type="pubsub")
        assert await anext(stream) is None, "something may have been missed"
        await store.put_estimate("x", 0, 1, "{}", claim, label="")
        while (heard := await anext(stream)) is None:
            pass
        assert heard == Announcement(SCORED, "x", 0, 1)


async def test_an_unreachable_redis_is_named(tmp_path: Path):
    async with connect(f"unix://{tmp_path / 'nobody'}") as redis:
        for call in (Store(redis).state("x"), Store(redis).newest(), Store(redis).references.newest()):
            with pytest.raises(Unavailable):
                await call


async def test_scripts_lost_from_the_server_are_loaded_again(store: Store, redis: Redis):
    await store.create_experiment("x", "{}", ["a"], growth=0.0, labels=[""])
    await store.state("x")
    await redis.script_flush()
    assert (await store.state("x")).rounds == 0


def test_a_connection_that_was_closed_is_made_again(server: Server):
    async def use_a_closed_one() -> None:
        redis = connect(server.url)
        if isinstance(redis, ClusterClient):
            pytest.skip("a cluster's client keeps its connections by node")
        await redis.ping()
        connection = await redis.connection_pool.get_connection()
        connection._writer.transport.abort()
        await asyncio.sleep(0.05)
        with pytest.raises(ConnectionError):
            await connection.send_command("PING")
        await connection.send_command("PING")
        assert await connection.read_response() in (b"PONG", True)
        await redis.aclose()

    # The service's loop: its transports say in another way that they are closed.
    uvloop.run(use_a_closed_one())
