"""How much of Redis' memory requests may take, by the fraction of its reserve that they must leave free."""

from __future__ import annotations

import pytest
from redis.asyncio import Redis

from optimist.api.problems import ApiError
from optimist.api.redis_health import MIN_RESERVE, ROUNDED_UP, RedisHealth
from optimist.settings import Settings
from optimist.store import Store
from tests.support.made import until


async def refused(health: RedisHealth, size: int, reserve: float) -> bool:
    try:
        await health.check_room(size, reserve=reserve)
    except ApiError as error:
        return error.problem.status == 503
    return False


@pytest.mark.parametrize("reserve", [0.5, 1.0, 2.0])
async def test_a_body_fits_until_its_fraction_of_the_reserve_is_reached(redis: Redis, store: Store, reserve: float):
    free = 4 * MIN_RESERVE
    await redis.config_set("maxmemory", (await store.usage()).used_bytes + free)
    try:
        health = RedisHealth(store, Settings(redis_url="redis://localhost", memory_reserve=0.0))
        async with health.monitoring():
            await until(lambda: refused(health, free, reserve))  # it has measured
            largest, noise = int((free - reserve * MIN_RESERVE) / ROUNDED_UP), MIN_RESERVE // 8
            assert not await refused(health, largest - noise, reserve)
            assert await refused(health, largest + noise, reserve)
    finally:
        await redis.config_set("maxmemory", 0)
