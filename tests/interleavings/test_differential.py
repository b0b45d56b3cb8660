"""The store answers as the oracle does."""

from __future__ import annotations

import pytest
from redis.asyncio import Redis

from tests.interleavings.differential import run


@pytest.mark.parametrize("seed", [0, 1])
async def test_the_store_answers_as_the_oracle(seed: int, redis: Redis):
    await run(redis, seed, commands=150)


@pytest.mark.long
@pytest.mark.parametrize("seed", [100, 101])
async def test_the_store_answers_as_the_oracle_in_long_runs(seed: int, redis: Redis):
    await run(redis, seed, commands=800)


@pytest.mark.long
async def test_the_store_keeps_the_levels_that_the_oracle_keeps(redis: Redis):
    await run(redis, 200, commands=1000, crowded=True)
