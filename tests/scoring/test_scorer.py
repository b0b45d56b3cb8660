"""Scorers on a real Redis: shared work, snapshots while logs grow, failures in the middle, and errors."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import numpy as np
import pytest
from redis.asyncio import Redis

from optimist import Evaluation, score
from optimist.estimates.estimate import Estimate
from optimist.estimation.question import Question
from optimist.experiments.goals.best import ForBest
from optimist.experiments.report import report_of
from optimist.experiments.state import PolicyState
from optimist.records import ExperimentState, Snapshot, Unavailable, codec
from optimist.scoring.cached import SMALLEST_TAIL, CachedStatistic
from optimist.scoring.scorer import Scorer
from optimist.store import EmbeddedRedis, Store, open_store
from optimist_client import tensors
from optimist_client.metrics import InceptionScore
from tests.support.logs import applied, moments_bound
from tests.support.made import Made, estimates_by, go_back, kept, scoring, scoring_at, settled, until

BIG = 100
"""Rows of a batch of which some twenty outgrow a snapshot in 4 dimensions."""


@asynccontextmanager
async def scorers(server: EmbeddedRedis, count: int = 1) -> AsyncIterator[list[Store]]:
    """So many scorers in this process, each on connections of its own."""
    async with AsyncExitStack() as stack:
        stores = [await stack.enter_async_context(open_store(server.url)) for _ in range(count)]
        for store in stores:
            await stack.enter_async_context(scoring(store))
        yield stores


def standing(made: Made, stored: ExperimentState, generator: int = 0) -> Any:
    return report_of(PolicyState(made.experiment, stored)).standings[generator]


async def error_of(made: Made) -> str | None:
    """Why generator 0 is not scored."""
    return (await made.store.state(made.name)).generators[0].primary.scoring_error


async def rewrite(redis: Redis, made: Made, generator: int, change: Callable[[int, dict[bytes, bytes]], bool]) -> None:
    """Copy a log, entry by entry: `change` alters its fields, and says whether it stays."""
    key = f"optimist:{{{made.name}}}:log:{generator}"
    entries = await redis.xrange(key)
    await redis.delete(key)
    for entry_id, fields in entries:
        if change(int(entry_id.split(b"-")[0]), fields):
            await redis.xadd(key, fields, id=entry_id)


@pytest.mark.parametrize("growth", [pytest.param(0.0, marks=pytest.mark.long), 0.2])
async def test_scorers_in_turn_reach_the_numbers_of_the_whole_log(make, server: EmbeddedRedis, growth: float):
    """`kept` holds the whole log to compare with; `trimmed` has been through as many snapshots as scorers."""
    kept = await make("kept", rescore_growth=growth, keep_log=True)
    trimmed = await make("trimmed", rescore_growth=growth)
    for turn in range(3):
        async with scorers(server):
            for made in (kept, trimmed):
                for generator in (0, 1):
                    await made.tell_many(generator, 20, BIG, seed=turn)
            states = [await settled(made) for made in (kept, trimmed)]
    for generator in (0, 1):
        of_both = [stored.generators[generator] for stored in states]
        assert all(state.primary.snapshot_seq > 0 for state in of_both)
        whole = CachedStatistic(moments_bound(), growth, paired=True)
        estimates: dict[int, str] = {}
        bodies = {}
        for entry in await kept.store.read_log("kept", generator, 0, max_entries=1000):
            estimates |= applied(whole, [entry], 1)
            bodies[entry.seq] = whole.freeze()
        assert len(bodies) == 60, "a kept log is not trimmed"
        for made, state in zip((kept, trimmed), of_both, strict=True):
            assert state.primary.estimate_seq == state.due_seq == max(estimates)
            assert state.primary.estimate == estimates[state.primary.estimate_seq]
            snapshot = await made.store.snapshot(made.name, generator, made.label)
            assert snapshot == Snapshot(state.primary.snapshot_seq, bodies[state.primary.snapshot_seq])


async def tell_in_places(made: Made, places: list[int]) -> None:
    for place in places:
        rows = np.random.default_rng(place).standard_normal((BIG, 4))
        await made.tell(0, {"features": rows}, start=BIG * place)


@pytest.mark.parametrize("warm_bytes", [0, pytest.param(None, marks=pytest.mark.long)])
async def test_scorers_that_follow_each_other_publish_the_same_history(make, server: EmbeddedRedis, warm_bytes):
    made = await make(generators=1, rescore_growth=0.05, keep_log=True, batch_size=BIG)
    published: dict[int, str] = {}
    # Two batches change places; of the third turn some are late, and one is told again in the last.
    for places in ([0, 2, 1], [*range(3, 25)], [27, 26, 25, *range(28, 45)], [50, 44]):
        async with scoring_at(server, warm_bytes):
            await tell_in_places(made, places)
            state = (await settled(made)).generators[0]
        published[state.primary.estimate_seq] = state.primary.estimate or ""
    assert state.primary.snapshot_seq > 0
    expected = await estimates_by(moments_bound(), made, paired=True)
    assert published.items() <= expected.items()
    pairing = codec.decode(Estimate, published[max(published)]).pairing
    assert pairing is not None
    assert [past.samples // BIG for past in pairing.history][:3] == [1, 3, 4]
    assert len(pairing.history) > 15
    assert np.isfinite(pairing.influence).all()


@pytest.mark.long
async def test_logs_are_trimmed_as_they_grow_and_redis_stays_small(make, server: EmbeddedRedis, redis: Redis):
    made = await make(rescore_growth=0.3)
    async with scorers(server):
        await made.tell_many(0, 60, BIG)
        await settled(made)
        early = int((await redis.info("memory"))["used_memory"])
        await made.tell_many(0, 340, BIG, seed=1)
        stored = await settled(made)
    state = stored.generators[0]
    assert (state.seq, state.samples) == (400, 400 * BIG)
    assert state.primary.log_bytes < SMALLEST_TAIL
    assert await redis.xlen("optimist:{x}:log:0") == 400 - state.primary.snapshot_seq
    # 1.1 MB were told since.
    assert int((await redis.info("memory"))["used_memory"]) - early < 300_000
    assert len(await redis.keys("optimist:{x}:snapshot:0:*")) == 1
    facts = await redis.hkeys("optimist:{x}:units")
    assert b"0:fid:snapshot" in facts
    assert b"0:fid:upload" not in facts


async def test_three_scorers_share_generators_and_make_nothing_twice(
    make, server: EmbeddedRedis, redis: Redis, monkeypatch: pytest.MonkeyPatch
):
    made = await make(generators=6, rescore_growth=0.0)
    taken: list[tuple[int, bytes]] = []
    apply = CachedStatistic.apply

    def counted(cached: CachedStatistic, entries: Sequence[Any], newest: int) -> Any:
        taken.extend((entry.seq, entry.body) for entry in entries)
        return apply(cached, entries, newest)

    monkeypatch.setattr(CachedStatistic, "apply", counted)
    async with scorers(server, 3):
        for turn in range(8):
            await asyncio.gather(*(made.tell_many(generator, 3, seed=turn) for generator in range(6)))
        await settled(made)
        claims = await redis.hgetall("optimist:{x}:claims")
    assert len(taken) == len(set(taken)) == 6 * 8 * 3
    assert len(claims) == 6
    # Each let go of what it had: nobody would have to wait for claims to end.
    assert await redis.hgetall("optimist:{x}:claims") == {}


async def test_claims_are_released_though_an_experiment_is_gone(make, server: EmbeddedRedis, redis: Redis):
    gone, made = await make("gone"), await make("x")
    async with scorers(server):
        for each in (gone, made):
            await each.tell_many(0, 2)
            await settled(each)
        await gone.store.delete_experiment("gone")
        assert await redis.hlen("optimist:{x}:claims") == 1
    assert await redis.hlen("optimist:{x}:claims") == 0


@pytest.mark.parametrize("call", ["claim", "snapshot", "read_log", "put_estimate", "quarantine", "put_snapshot"])
async def test_what_fails_once_is_done_again_without_another_tell(
    make, server: EmbeddedRedis, redis: Redis, monkeypatch: pytest.MonkeyPatch, call: str
):
    made = await make()
    await made.tell_many(0, 40, BIG)
    await rewrite(redis, made, 0, lambda seq, held: held.update({b"digest": b"no"} if seq == 4 else {}) or True)
    method, failed = getattr(Store, call), []

    async def failing(*arguments: Any, **options: Any) -> Any:
        if not failed:
            failed.append(call)
            raise Unavailable("just now")
        return await method(*arguments, **options)

    monkeypatch.setattr(Store, call, failing)
    async with scorers(server):
        stored = await settled(made)
    assert failed == [call]
    state = stored.generators[0]
    assert (state.primary.scoring_error, state.quarantined_count, state.primary.snapshot_seq > 0) == (None, 1, True)
    assert standing(made, stored).scored_samples == state.due_samples - BIG


async def test_one_damaged_experiment_keeps_no_other_from_being_swept(
    make, server: EmbeddedRedis, redis: Redis, monkeypatch: pytest.MonkeyPatch
):
    bad, made = await make("bad"), await make("x")
    await bad.tell_many(0, 2)
    await redis.set("optimist:{bad}:estimates", "not a hash")
    await made.tell_many(0, 2)  # announced to nobody
    async with scorers(server):
        await settled(made)


@pytest.mark.parametrize("fields", [{b"digest": b"0" * 64}, {b"body": b"nonsense"}, {b"rows": b"7"}])
async def test_a_damaged_entry_is_quarantined_and_named_and_all_else_scored(
    make, server: EmbeddedRedis, redis: Redis, fields: dict[bytes, bytes]
):
    made = await make(rescore_growth=0.0)
    for generator in (0, 1):
        await made.tell_many(generator, 12)
    await rewrite(redis, made, 0, lambda seq, held: held.update(fields if seq == 5 else {}) or True)
    async with scorers(server):
        stored = await settled(made)
        damaged, whole = (standing(made, stored, generator) for generator in (0, 1))
        assert damaged.warnings[-1] == "batches that cannot be read are left out: 1, as at position 5"
        assert not any("left out" in warning for warning in whole.warnings)
        assert (damaged.samples, damaged.scored_samples, whole.scored_samples) == (60, 55, 60)
        # A second scorer that goes through it again, and more tells, change nothing of that.
        await made.tell_many(0, 40, BIG, seed=1)
        stored = await settled(made)
    async with scorers(server):
        await made.tell_many(0, 1, seed=2)
        stored = await settled(made)
    assert stored.generators[0].quarantined_count == 1
    assert stored.generators[0].samples - standing(made, stored).scored_samples == 5


async def test_due_counts_stay_in_step_past_a_damaged_entry(make, server: EmbeddedRedis, redis: Redis):
    made = await make(rescore_growth=0.1)
    await made.tell_many(0, 30)
    due = {2, 9, 10, 11, 20}
    await rewrite(redis, made, 0, lambda seq, held: held.update({b"body": b""} if seq in due else {}) or True)
    async with scorers(server):
        for turn in range(1, 15):
            stored = await settled(made, but=[1])
            assert stored.generators[0].quarantined_count == 5
            await made.tell_many(0, 1 + turn % 3, seed=turn)


async def test_a_hole_in_a_log_is_said_and_the_other_generator_goes_on(make, server: EmbeddedRedis, redis: Redis):
    made = await make(rescore_growth=0.0)
    for generator in (0, 1):
        await made.tell_many(generator, 12)
    await redis.xdel("optimist:{x}:log:0", "5-0")
    async with scorers(server):
        await settled(made, but=[0])
        await until(lambda: error_of(made))
        stored = await made.store.state("x")
        warnings = standing(made, stored).warnings
        assert any("not scored: CorruptData: log of generator 0 in 'x' has 6-0 where 5-0" in line for line in warnings)
        await made.tell_many(1, 1, seed=1)
        stored = await settled(made, but=[0])
    assert stored.generators[1].primary.estimate_seq == 13


@pytest.mark.parametrize("keep_log", [False, True])
@pytest.mark.parametrize("harm", ["flipped", "gone", "of another metric"])
async def test_a_damaged_snapshot_is_never_scored_from(
    make, server: EmbeddedRedis, redis: Redis, harm: str, keep_log: bool
):
    made = await make(rescore_growth=0.0, keep_log=keep_log)
    async with scorers(server):
        for generator in (0, 1):
            await made.tell_many(generator, 40, BIG)
        before = await settled(made)
    (chunk,) = await redis.keys("optimist:{x}:snapshot:0:*")
    if harm == "flipped":
        body = bytearray(await redis.get(chunk))
        body[len(body) // 2] ^= 4
        await redis.set(chunk, bytes(body))
    elif harm == "gone":
        await redis.delete(chunk)
    else:
        body = CachedStatistic(Question(InceptionScore()).bound_for({"probabilities": 4}), 0.0).freeze()
        claim = await made.store.claim("x", 0, "somebody", 0.01, made.label)
        await made.tell_many(0, 1, seed=1)
        assert await made.store.put_snapshot("x", 0, 41, body, claim.token, label=made.label)
    for generator in (0, 1):
        await made.tell_many(generator, 2, seed=2)
    async with scorers(server):
        if keep_log:
            stored = await settled(made)
            log = await made.store.read_log("x", 0, 0, max_entries=1000)
            [(_, estimate)] = applied(CachedStatistic(moments_bound(), 0.0), log, 1000).items()
            assert stored.generators[0].primary.estimate == estimate
            assert stored.generators[0].primary.scoring_error is None
            return
        stored = await settled(made, but=[0])
        assert stored.generators[1].primary.estimate_seq == 42
        await until(lambda: error_of(made))
    stored = await made.store.state("x")
    assert standing(made, stored).warnings[-1].startswith("not scored: CorruptData: ")
    assert stored.generators[0].primary.estimate == before.generators[0].primary.estimate
    assert standing(made, stored, 1).warnings == ()


OPEN = {"name": "nystrom", "sigma": "median", "features": 40}


async def test_kernels_are_fixed_by_the_generators_that_are_active(make, server: EmbeddedRedis, redis: Redis):
    """One is paused before, one joins before and one after: the landmarks are as many as were asked for."""
    made = await make(metric="vendi", dimension=4, kernel=OPEN, truncation=30)
    await made.store.set_state("x", 1, "paused")
    async with scorers(server):
        await made.tell_many(0, 26)  # 130 samples: the half of 256
        await asyncio.sleep(1.5)
        assert await made.fitted() is None
        assert await made.store.add_generator("x", "joins") == 2
        await made.tell_many(2, 26)
        await settled(made)
        fitted = await made.fitted()
        assert fitted is not None
        assert tensors.decode(fitted)["kernel.landmarks"].shape == (40, 4)
        await made.store.add_generator("x", "late")
        await made.store.set_state("x", 1, "active")
        for generator in (1, 3):
            await made.tell_many(generator, 3)
        stored = await settled(made)
        assert await made.fitted() == fitted
    assert [state.primary.scoring_error for state in stored.generators] == [None] * 4
    assert all(state.primary.estimate_seq > 0 for state in stored.generators)
    goal = PolicyState(made.experiment, stored).goal
    assert isinstance(goal, ForBest)
    assert goal.policy.warmup == 2


async def test_kernels_are_fixed_past_a_batch_that_cannot_be_read(make, server: EmbeddedRedis, redis: Redis):
    made = await make(metric="vendi", dimension=4, kernel={"sigma": "median", "features": 20})
    for generator in (0, 1):
        await made.tell_many(generator, 26)  # 130 samples, of which 128 are needed
    await rewrite(redis, made, 1, lambda seq, held: held.update({b"body": b"?"} if seq == 3 else {}) or True)
    async with scorers(server):
        await asyncio.sleep(1.5)
        stored = await made.store.state("x")
        assert [state.primary.scoring_error for state in stored.generators] == [None, None]
        assert await made.fitted() is None, "125 samples can be read"
        await made.tell_many(1, 1, seed=1)
        stored = await settled(made)
    assert [state.quarantined_count for state in stored.generators] == [0, 1]


MEDIAN = {"name": "gaussian", "sigma": "median", "features": 32}
SCALES = {"g0": 1.0, "g1": 1e29}


@pytest.mark.filterwarnings("ignore:values over")
async def test_the_median_bandwidth_is_that_of_an_evaluation_though_a_generator_is_absurd(make, server: EmbeddedRedis):
    made = await make(metric="rke", dimension=4, kernel=MEDIAN)
    evaluation = Evaluation(list(SCALES), metric="rke", kernel=MEDIAN, max_magnitude=1e40)
    for place, (name, scale) in enumerate(SCALES.items()):
        rng = np.random.default_rng(place)
        for _ in range(4):
            batch = scale * rng.standard_normal((40, 4))
            await made.tell(place, {"features": batch})
            evaluation.tell(name, batch)
    async with scoring_at(server):
        stored = await settled(made)
    fitted = await made.fitted()
    assert fitted is not None
    sigma = float(tensors.decode(fitted)["kernel.sigma"][0])
    assert sigma == evaluation._primary.question.kernels["kernel"].sigma
    estimates = {name: json.loads(stored.generators[place].primary.estimate) for place, name in enumerate(SCALES)}
    for name, estimate in evaluation.estimates().items():
        assert estimate is not None
        assert estimates[name]["value"] == pytest.approx(estimate.value, rel=1e-12, abs=1e-12)
    assert 1.0 < sigma < 5.0
    assert np.exp(estimates["g0"]["value"]) > 1.5


async def test_batches_that_redis_lost_are_not_in_the_estimates(make, server: EmbeddedRedis, redis: Redis):
    # Estimates are due at 45 and 60 samples: nothing is read in between.
    made = await make(rescore_growth=0.25)
    await made.tell_many(0, 10)
    async with scorers(server):
        await settled(made, but=[1])
        earlier = await kept(redis)
        await made.tell_many(0, 2, seed=1)
        await settled(made, but=[1])
        await go_back(redis, earlier)
        await made.tell_many(0, 2, seed=2)
        stored = await settled(made, but=[1])
    log = await made.store.read_log("x", 0, 0)
    rows = np.concatenate([tensors.decode(entry.body)["features"] for entry in log])
    assert len(rows) == 60
    assert standing(made, stored).score == pytest.approx(
        score(rows, reference=(np.zeros(4), np.eye(4))).score, rel=1e-12
    )


class Swallowing(Store):
    """A store that swallows the cancellation of a read of its experiments, as a call to Redis may."""

    async def experiments(self) -> list[str]:
        try:
            await asyncio.sleep(60.0)
        except asyncio.CancelledError:
            return []
        raise AssertionError("never cancelled")


async def test_a_cancellation_that_is_swallowed_ends_the_scorer_after_its_turn(redis: Redis):
    before = asyncio.all_tasks()
    running = asyncio.create_task(Scorer(Swallowing(redis)).run())
    await asyncio.sleep(0.5)
    running.cancel()
    async with asyncio.timeout(10.0):
        with pytest.raises(asyncio.CancelledError):
            await running
    assert asyncio.all_tasks() == before
