"""How this project talks to a Redis server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import ExponentialWithJitterBackoff

from optimist.store.store import Store


def connect(url: str, max_connections: int = 64, timeout: float = 10.0) -> Redis:
    """A client for redis://, rediss:// (TLS) or unix:// URLs; it connects when first used. Close it with `aclose`.

    timeout: seconds for connecting, for one reply, and for a free connection where all are in use. A lost reply or
    connection is met by sending again, three times within about two seconds. That is safe because every script
    recognises what it has done. Values stay bytes. Raises ValueError for another kind of URL.
    """
    pool = BlockingConnectionPool.from_url(
        url,
        max_connections=max_connections,
        timeout=timeout,
        socket_timeout=timeout,
        socket_connect_timeout=timeout,
        health_check_interval=15,
        retry=Retry(ExponentialWithJitterBackoff(base=0.1, cap=1.0), retries=3),
    )
    return Redis.from_pool(pool)


@asynccontextmanager
async def open_store(url: str) -> AsyncIterator[Store]:
    """A `Store` on the server at `url`, its connections closed in the end."""
    redis = connect(url)
    try:
        yield Store(redis)
    finally:
        await redis.aclose()
