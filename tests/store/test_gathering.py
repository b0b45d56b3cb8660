"""Commands that are sent together: each caller gets its own answer, or its own error, whatever befalls the others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from redis.asyncio import Redis
from redis.exceptions import ConnectionError, ResponseError

from optimist.store import Store, connect
from optimist.store.clients import LARGE, ClusterClient, Coalescer
from tests.support.servers import Server


@pytest.fixture
async def coalescer(server: Server, redis: Redis) -> AsyncIterator[Coalescer]:
    if isinstance(redis, ClusterClient):
        pytest.skip("a cluster's client sends each command by itself")
    async with connect(server.url) as client:
        assert isinstance(client, Coalescer)
        yield client


async def test_each_gets_its_own_answer(coalescer: Coalescer):
    large = bytes(LARGE + 1)
    asked = [coalescer.coalesced("ECHO", text) for text in (b"a", b"b", large, b"c")]
    refused = coalescer.coalesced("NONSENSE")
    cancelled = asyncio.ensure_future(coalescer.coalesced("ECHO", "d"))
    asyncio.get_running_loop().call_soon(cancelled.cancel)
    *found, error, _ = await asyncio.gather(*asked, refused, cancelled, return_exceptions=True)
    assert found == [b"a", b"b", large, b"c"]
    assert isinstance(error, ResponseError)
    assert cancelled.cancelled()
    assert await coalescer.coalesced("ECHO", "e") == b"e"


async def test_those_of_one_turn_share_a_read_of_redis(coalescer: Coalescer, redis: Redis):
    await coalescer.coalesced("PING")
    before = (await redis.info("stats"))["total_reads_processed"]
    await asyncio.gather(*(coalescer.coalesced("ECHO", n) for n in range(50)))
    assert (await redis.info("stats"))["total_reads_processed"] - before < 10


async def test_a_lost_connection_is_made_again(coalescer: Coalescer):
    await coalescer.coalesced("PING")
    for _ in range(3):
        await coalescer.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        assert await asyncio.gather(*(coalescer.coalesced("ECHO", n) for n in range(5))) == [
            b"%d" % n for n in range(5)
        ]


async def test_every_caller_hears_that_redis_is_gone(tmp_path: Path):
    async with connect(f"unix://{tmp_path}/nothing") as client:
        assert isinstance(client, Coalescer)
        found = await asyncio.gather(*(client.coalesced("PING") for _ in range(3)), return_exceptions=True)
        assert [type(error) for error in found] == [ConnectionError] * 3


async def test_scripts_that_redis_has_forgotten(coalescer: Coalescer, redis: Redis):
    store = Store(coalescer)
    for n in range(4):
        await store.create_experiment(f"x{n}", "{}", ["a"], growth=0.0, labels=[""])
    await redis.script_flush()
    states = await asyncio.gather(*(store.exchange(f"x{n}", wants_state=True) for n in range(4)))
    assert [done.state and done.state.rounds for done in states] == [0] * 4
