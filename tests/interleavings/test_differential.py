"""Tables answer as the store of today does."""

from __future__ import annotations

import pytest
from redis.asyncio import Redis

from optimist.store import Store
from tests.interleavings.differential import run


@pytest.mark.parametrize("seed", [0, 1])
async def test_tables_answer_as_the_store_of_today(seed: int, store: Store, redis: Redis):
    await run(store, redis, seed, commands=150)


@pytest.mark.long
@pytest.mark.parametrize("seed", [100, 101, 102])
async def test_tables_answer_as_the_store_of_today_in_long_runs(seed: int, store: Store, redis: Redis):
    await run(store, redis, seed, commands=1500)
