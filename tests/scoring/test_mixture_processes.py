"""Scorer processes: the one that makes a mixture is killed, and another one makes the same to the last bit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from redis.asyncio import Redis

from optimist.estimation.artefacts import mixture_of
from optimist.estimation.question import Question
from optimist.records import codec
from optimist.scoring.cached import CachedStatistic
from optimist.store import EmbeddedRedis
from optimist_client.metrics import RKE, Gaussian
from tests.support.made import Made, owner_of, until
from tests.support.processes import scorer

pytestmark = pytest.mark.faults

RULE = {"metric": RKE(dimension=4, kernel=Gaussian(sigma=2.0, features=15)), "goal": "mixture", "policy": "ogd"}


async def tell(made: Made, places: range) -> None:
    for place in places:
        for generator in range(3):
            rows = np.random.default_rng((place, generator)).standard_normal((20, 4)) * (1 + generator % 2)
            await made.tell(generator, {"features": rows}, start=20 * place)


@pytest.mark.long
async def test_a_killed_scorer_is_taken_over_and_the_weights_are_those_of_the_logs(
    make, server: EmbeddedRedis, redis: Redis, tmp_path: Path
):
    made = await make(generators=3, keep_log=True, batch_size=20, rescore_growth=0.0, **RULE)

    async def has_made() -> bool:
        state = await made.store.state("x")
        return state.mixture is not None and not state.is_mixture_due

    async def owner() -> bytes | None:
        return await owner_of(redis, "mixture:" + made.label)

    with scorer(server.url, tmp_path) as one:
        await tell(made, range(4))
        await until(has_made)
        first = await owner()
        with scorer(server.url, tmp_path):
            await tell(made, range(4, 8))
            one.kill()  # as it makes one, or is about to
            await tell(made, range(8, 12))
            await until(has_made)
            assert await owner() != first
    stored = (await made.store.state("x")).mixture
    assert stored is not None
    estimators = {}
    for ordinal, part in stored.parts.items():
        cached = CachedStatistic(Question(RULE["metric"]).bound_for({"features": 4}), 0.0, paired=True)
        cached.apply([e for e in await made.store.read_log("x", ordinal, 0, max_entries=99) if e.seq <= part.seq])
        estimators[f"g{ordinal}"] = cached.estimator
    assert stored.payload.decode() == codec.encode(mixture_of(estimators))
