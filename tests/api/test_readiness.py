"""Whether a service is ready, by what it needs of Redis."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest

from optimist.api.app import create_app
from optimist.api.routes import health
from optimist.settings import Settings
from optimist.store import EmbeddedRedis
from tests.support.servers import SLOTS, Cluster, Server, cluster, redis_6, redis_7


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    program = redis_6() or redis_7() or pytest.skip("no redis-server here")
    options = ["--cluster-require-full-coverage", "no"]
    with cluster(program, tmp_path_factory.mktemp("cluster"), options=options) as servers:
        yield servers


async def api_of(url: str) -> AsyncIterator[httpx.AsyncClient]:
    app = create_app(Settings(redis_url=url), url)
    async with app.router.lifespan_context(app):
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost", timeout=60) as http:
            yield http


@pytest.fixture
async def http(servers: Cluster, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[httpx.AsyncClient]:
    monkeypatch.setattr(health, "PROBED", 0.0)
    async for client in api_of(servers.url):
        yield client


async def unserved(http: httpx.AsyncClient) -> list[str]:
    answer = await http.get("/readyz")
    assert answer.status_code == 200, answer.text
    assert answer.json()["status"] == "ready"
    return answer.json()["unserved"]


async def until_all_served(http: httpx.AsyncClient) -> None:
    async with asyncio.timeout(30):
        while True:
            answer = await http.get("/readyz")
            if answer.status_code == 200 and answer.json()["unserved"] == []:
                return
            await asyncio.sleep(0.05)


def slots_of(number: int) -> str:
    return f"{SLOTS * number // 3}-{SLOTS * (number + 1) // 3 - 1}"


@pytest.mark.long
@pytest.mark.parametrize(("number", "is_killed"), [(0, True), (1, False)])
async def test_a_service_is_ready_while_a_node_of_its_cluster_is_dead(
    http: httpx.AsyncClient, servers: Cluster, number: int, is_killed: bool, caplog: pytest.LogCaptureFixture
):
    """Killed or stopped: it names the slots, again and again, and none once the node is back."""
    assert await unserved(http) == []
    node = servers.masters[number]
    if is_killed:
        await asyncio.to_thread(node.kill)
    else:
        node.send(signal.SIGSTOP)
    try:
        with caplog.at_level(logging.WARNING, health.__name__):
            assert [await unserved(http) for _ in range(4)] == [[slots_of(number)]] * 4
        assert [one.getMessage() for one in caplog.records if one.name == health.__name__] == [
            f"slots of the Redis Cluster that no node accepts writes for: {slots_of(number)}"
        ]
        metrics = (await http.get("/metrics")).text
        assert f"optimist_redis_unserved_slots {float(SLOTS * (number + 1) // 3 - SLOTS * number // 3)}" in metrics
    finally:
        await asyncio.to_thread(back, node, is_killed)
    await until_all_served(http)
    await asyncio.to_thread(servers.until_whole)


def back(node: Server, is_killed: bool) -> None:
    if is_killed:
        node.start()
    else:
        node.send(signal.SIGCONT)


@pytest.mark.long
async def test_a_service_is_not_ready_where_no_node_answers(http: httpx.AsyncClient, servers: Cluster):
    assert await unserved(http) == []
    for node in servers.masters:
        await asyncio.to_thread(node.kill)
    try:
        assert (await http.get("/readyz")).status_code == 503
    finally:
        for node in servers.masters:
            await asyncio.to_thread(node.start)
    await asyncio.to_thread(servers.until_whole)
    await until_all_served(http)


async def test_of_a_single_redis_every_slot_is_served(server: EmbeddedRedis, tmp_path: Path):
    async for http in api_of(server.url):
        assert await unserved(http) == []
