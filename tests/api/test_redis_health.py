"""Monitoring of Redis stops when the service does."""

from __future__ import annotations

import asyncio
import contextlib

from optimist.api.redis_health import RedisHealth
from optimist.settings import Settings
from optimist.store import Store, Usage, connect


class Swallowing(Store):
    """Its first call ends well though it was cancelled meanwhile, as redis-py's may."""

    async def usage(self) -> Usage:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(60.0)
        return Usage()


async def test_a_cancellation_that_is_swallowed_ends_it():
    redis = connect("redis://127.0.0.1:1")
    redis_health = RedisHealth(Swallowing(redis), Settings(redis_url="redis://127.0.0.1:1"))
    async with asyncio.timeout(10.0):
        async with redis_health.monitoring():
            await asyncio.sleep(0.1)
    await redis.aclose()
