"""Scorer processes: one is paused until another has taken over, which is killed then; and whom one of them serves."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import numpy as np
import pytest
from redis.asyncio import Redis

from optimist.estimation.artefacts import mixture_of
from optimist.estimation.question import Question
from optimist.records import codec
from optimist.scoring.cached import CachedStatistic
from optimist.store import EmbeddedRedis
from optimist_client.metrics import RKE, Gaussian, Vendi
from tests.support.logs import applied, entry, moments_bound
from tests.support.made import Made, owner_of, settled, units_of, until
from tests.support.processes import scorer

pytestmark = pytest.mark.faults


def batches(count: int, rows: int, seed: int) -> list[np.ndarray]:
    """What `Made.tell_many` tells of generator 0."""
    rng = np.random.default_rng((seed, 0))
    return [rng.standard_normal((rows, 4)) for _ in range(count)]


@pytest.mark.long
async def test_a_process_paused_through_takeover_snapshot_and_trim_publishes_nothing_and_goes_on(
    make, server: EmbeddedRedis, redis: Redis, tmp_path: Path
):
    made = await make(generators=1, rescore_growth=0.0)
    with scorer(server.url, tmp_path) as paused:
        await made.tell_many(0, 10, 100)
        await settled(made)
        await made.tell_many(0, 10, 100, seed=1)
        paused.send_signal(signal.SIGSTOP)  # perhaps with an estimate in hand
        owner = await owner_of(redis, "0:fid")
        with scorer(server.url, tmp_path) as other:
            await made.tell_many(0, 40, 100, seed=2)
            before = await settled(made)
            claim = await owner_of(redis, "0:fid")
            assert claim != owner
            assert before.generators[0].primary.snapshot_seq > 20
            paused.send_signal(signal.SIGCONT)
            await asyncio.sleep(2.5)  # it renews claims, and sweeps, once a second
            assert await made.store.state("x") == before
            other.kill()
            # Its own statistic ends where the log no longer is: the snapshot leads on, once the claim has run out.
            await made.tell_many(0, 3, seed=3)
            stored = await settled(made)
        assert await owner_of(redis, "0:fid") == owner
    told = [*batches(10, 100, 0), *batches(10, 100, 1), *batches(40, 100, 2), *batches(3, 5, 3)]
    log = [entry(seq, {"features": rows}) for seq, rows in enumerate(told, start=1)]
    [estimate] = applied(CachedStatistic(moments_bound(), 0.0), log, len(log)).values()
    assert stored.generators[0].primary.estimate == estimate


@pytest.mark.long
async def test_expensive_watched_metrics_of_one_namespace_leave_another_one_its_share(
    make, server: EmbeddedRedis, tmp_path: Path
):
    """Each has as many of them; those of `noisy` take more than ten times as long. Turn by turn all of them would be
    scored by the time that those of `quiet` are."""
    count, primary = 8, RKE(dimension=64, kernel=Gaussian(sigma=8.0, features=4))
    common = {"generators": count, "columns": {"features": 64}, "metric": primary, "rescore_growth": 0.0}
    made = {
        name: await make(name, namespace=name, watch=[Vendi(dimension=64, kernel=kernel)], **common)
        for name, kernel in (("noisy", Gaussian(8.0, features=224)), ("quiet", Gaussian(8.0, features=4)))
    }
    for generator in range(count):
        await made["noisy"].tell_many(generator, 1, 500)
        await made["quiet"].tell_many(generator, 1, 20)

    async def scored() -> dict[str, list[float]]:
        """When each estimate by the watched metrics was published, by Redis' clock."""
        found = {name: await units_of(one) for name, one in made.items()}
        return {
            name: sorted(
                float(one.made.split()[2]) for (_, label), one in units.items() if one.made and label == "vendi"
            )
            for name, units in found.items()
        }

    async def done() -> bool:
        found = await scored()
        return all(len(times) == count for times in found.values())

    with scorer(server.url, tmp_path):
        await until(done, 400.0)
    times = await scored()
    assert sum(time < times["quiet"][-1] for time in times["noisy"]) <= count // 2


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
