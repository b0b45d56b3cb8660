"""The Redis that the store's tests run on.

By default the embedded one. OPTIMIST_TEST_SERVERS names others, separated by commas: 6.2, 7.0, cluster, 7.0-cluster
(`make test-redis` runs them all); OPTIMIST_TEST_REDIS names the redis-server that counts as 7.0.
"""

import os
from collections.abc import Iterator

import pytest
from redis.asyncio import Redis

from optimist.store import EmbeddedRedis, start_embedded
from optimist.store.clients import ClusterClient
from tests.support.servers import Cluster, Server, cluster, redis_6, redis_7, single


@pytest.fixture(scope="session", params=os.environ.get("OPTIMIST_TEST_SERVERS", "embedded").split(","))
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[EmbeddedRedis | Server | Cluster]:
    directory = tmp_path_factory.mktemp("redis")
    match request.param:
        case "embedded":
            running = start_embedded(directory)
        case "6.2":
            running = single(_found(redis_6()), directory)
        case "7.0":
            running = single(_found(redis_7()), directory)
        case "cluster":
            running = cluster(_found(redis_6() or redis_7()), directory)
        case "7.0-cluster":
            running = cluster(_found(redis_7()), directory)
        case name:
            raise ValueError(f"OPTIMIST_TEST_SERVERS: {name!r} is none of 6.2, 7.0, cluster, 7.0-cluster")
    with running as server:
        yield server


@pytest.fixture
async def redis(redis: Redis) -> Redis:
    if isinstance(redis, ClusterClient):
        # What the tests ask of the server, they ask of all its masters.
        redis.command_flags |= dict.fromkeys(("KEYS", "CONFIG SET", "CLIENT KILL"), redis.PRIMARIES)
        redis.result_callbacks["KEYS"] = lambda command, answers: [key for keys in answers.values() for key in keys]
    return redis


def _found(program: str | None) -> str:
    return program or pytest.skip("no redis-server of this version here; OPTIMIST_TEST_REDIS names one of 7.0")
