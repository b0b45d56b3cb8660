from collections.abc import AsyncIterator, Iterator

import pytest
from redis.asyncio import Redis

from optimist.store import EmbeddedRedis, Store, connect, start_embedded


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedRedis]:
    with start_embedded(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture
async def redis(server: EmbeddedRedis) -> AsyncIterator[Redis]:
    client = connect(server.url)
    await client.flushall()
    yield client
    await client.aclose()


@pytest.fixture
def store(redis: Redis) -> Store:
    return Store(redis)
