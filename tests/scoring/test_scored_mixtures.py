"""Mixtures by scorers: a function of logs and positions alone, whoever makes it from whatever it holds."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from redis.asyncio import Redis

from optimist import Evaluation
from optimist.estimates.mixture import Mixture
from optimist.estimation.artefacts import mixture_of
from optimist.estimation.question import Question
from optimist.estimation.stored import metric_of
from optimist.experiments.curves import curve_point
from optimist.records import Artefact, StoredArtefact, Unavailable, codec
from optimist.scoring import Scorer, statistic_set
from optimist.scoring.cached import CachedStatistic
from optimist.scoring.mixture_job import MixtureJob
from optimist.scoring.score_job import ScoreJob
from optimist.store import EmbeddedRedis, Store, open_store
from optimist_client.metrics import RKE, Gaussian
from tests.support.made import (
    Made,
    go_back,
    held_by_another,
    kept,
    owner_of,
    quiet,
    scored,
    scoring,
    scoring_at,
    until,
)

KERNEL = Gaussian(sigma=2.0, features=15)
SETTINGS: dict[str, Any] = {"metric": RKE(dimension=4, kernel=KERNEL), "rescore_growth": 0.1}
ROWS = 100


def rows(generator: int, place: int, count: int = ROWS) -> np.ndarray:
    """The batch of a place in the generators' common sequence: two parts of what there is, which overlap."""
    made = np.random.default_rng(place).standard_normal((count, 4))
    return made * [2.0, 1.0, 0.5, 0.5] if generator % 2 else made * [0.5, 0.5, 2.0, 1.0] + generator / 3


async def tell(made: Made, places: Sequence[int], generators: Sequence[int] = (0, 1, 2)) -> None:
    for place in places:
        for generator in generators:
            await made.tell(generator, {"features": rows(generator, place)}, start=ROWS * place)


async def wanted(made: Made, label: str | None = None) -> StoredArtefact:
    """The mixture of the logs as they are now, which is asked for as the API does."""
    state = await made.store.state(made.name)
    expected = {generator.ordinal: generator.seq for generator in state.mixable}
    mixture, asked = Artefact("mixture", label or made.label), itertools.count()

    async def come() -> StoredArtefact | None:
        if next(asked) % 25 == 0:
            await made.store.want(made.name, mixture)
        found = await made.store.artefact(made.name, mixture)
        return found if found and {g: part.seq for g, part in found.parts.items()} == expected else None

    return await until(come)


async def stored_mixture(made: Made) -> StoredArtefact | None:
    return (await made.store.state(made.name)).mixture


async def in_memory(
    made: Made, stored: StoredArtefact, label: str | None = None, *, published: bool = False
) -> Mixture:
    """The mixture of the whole logs up to the positions of a stored one, by one process that has them all."""
    question = Question(metric_of(made.experiment, label))
    estimators = {}
    for ordinal, part in stored.parts.items():
        cached = CachedStatistic(question.bound_for({"features": 4}), made.config.rescore_growth, paired=True)
        log = await made.store.read_log(made.name, ordinal, 0, max_entries=1000)
        cached.apply([entry for entry in log if entry.seq <= part.seq], part.seq)
        assert (cached.seq, cached.estimator.samples) == part
        estimators[made.config.generators[ordinal]] = cached.estimator
    return mixture_of(estimators, published)


async def is_exact(made: Made, stored: StoredArtefact, label: str | None = None) -> bool:
    return stored.payload.decode() == codec.encode(await in_memory(made, stored, label))


async def test_it_is_made_when_somebody_asks_and_equals_that_of_an_evaluation(make, server: EmbeddedRedis):
    made = await make(generators=3, keep_log=True, batch_size=ROWS, **SETTINGS)
    evaluation = Evaluation(made.config.generators, metric=RKE(kernel=KERNEL), rescore_growth=0.1, policy="ucb")
    async with scoring_at(server):
        for places in ([0, 1, 2], [*range(3, 12)]):
            await tell(made, places)
            for place in places:
                for generator in range(3):
                    evaluation.tell(f"g{generator}", rows(generator, place), start=ROWS * place)
            if places[0] == 0:
                await scored(made)
                assert await made.store.artefact("x", made.mixture) is None, "nobody asks for it"
            assert await stored_mixture(made) is None, "it is no goal"
            found = await wanted(made)
            assert await is_exact(made, found)
            mixture, shown = codec.decode(Mixture, found.payload), evaluation.mixture()
            assert [one.weight for one in shown.weights] == list(mixture.weights)
            numbers = mixture.score, mixture.gain, mixture.gain_error
            assert (shown.score, shown.gain, shown.gain_standard_error) == numbers
    points = await made.store.artefact_curve("x", made.mixture)
    assert [point.samples for point in points] == [9 * ROWS, 36 * ROWS]
    assert points[-1].point == curve_point(mixture, made.config.delta)


@pytest.mark.long
@pytest.mark.parametrize("policy", ["ogd", "mixture-greedy"])
async def test_it_is_made_when_it_is_due_where_it_is_the_goal(make, server: EmbeddedRedis, policy: str):
    settings = {**SETTINGS, "rescore_growth": 0.0, "goal": "mixture", "policy": policy}
    made = await make(generators=3, batch_size=ROWS, keep_log=True, **settings)
    names: list[str] = []
    async with scoring_at(server) as scorer:
        for places in ([0], [1], [2], [3], [4]):
            await tell(made, places)

            async def done() -> bool:
                state = await made.store.state("x")
                return state.mixture is not None and not state.is_mixture_due

            await until(done)
            await quiet(scorer)
            mixture = await until(lambda: stored_mixture(made))
            names.append(mixture.made)
            exact = await in_memory(made, mixture, published=policy != "ogd")
            assert mixture.payload.decode() == codec.encode(exact)
        # A generator that joins is waited for, then taken up.
        await made.store.add_generator("x", "g3")
        assert not (await made.store.state("x")).is_mixture_ready
        made.config.generators.append("g3")
        await tell(made, [0], [3])
        await until(done)
        assert list(((await made.store.state("x")).mixture or mixture).parts) == [0, 1, 2, 3]
        assert scorer._tasks.mixtures["x", made.label].decides
    assert len(set(names)) == 5


@pytest.mark.long
async def test_two_scorers_one_of_which_ends_as_it_works_make_the_same_to_the_last_bit(
    make, server: EmbeddedRedis, redis: Redis, monkeypatch: pytest.MonkeyPatch
):
    made, alone = [await make(name, generators=3, keep_log=True, batch_size=ROWS, **SETTINGS) for name in ("x", "one")]
    publishing: list[Scorer] = []
    reached = asyncio.Event()
    put = Store.put_artefact

    async def held_up(store: Store, name: str, *arguments: Any, **options: Any) -> bool:
        if name == "x" and not reached.is_set():
            publishing.extend(scorer for scorer in both if scorer._store is store)
            reached.set()
            await asyncio.sleep(600)
        return await put(store, name, *arguments, **options)

    monkeypatch.setattr(Store, "put_artefact", held_up)
    async with open_store(server.url) as one, open_store(server.url) as other:
        both = [Scorer(store) for store in (one, other)]
        tasks = [asyncio.create_task(scorer.run()) for scorer in both]
        for name in (made, alone):
            await tell(name, range(8))
            await scored(name)
        holders = await redis.hgetall("optimist:{x}:claims")
        asking = asyncio.create_task(wanted(made))
        await reached.wait()
        at_work = both.index(publishing[0])
        tasks[at_work].cancel()
        await asyncio.wait([tasks[at_work]])
        found = await asking
        assert holders
        expected = await wanted(alone)
        assert found == expected
        assert await is_exact(made, found)
        # The other one, alone, makes it of generators that it did not hold: of copies that it keeps for the next time.
        assert await owner_of(redis, "mixture:" + made.label) == both[1 - at_work]._owner.encode()
        tasks[1 - at_work].cancel()
        await asyncio.wait(tasks)


@pytest.mark.long
@pytest.mark.parametrize("warm_bytes", [0, None])
async def test_copies_go_on_from_snapshots_and_logs_of_another_scorer(
    make, server: EmbeddedRedis, monkeypatch: pytest.MonkeyPatch, warm_bytes: int | None
):
    """The generators are held by a scorer that makes no mixture; its snapshots trim the logs."""
    settings = {"generators": 3, "batch_size": ROWS, **SETTINGS}
    made, kept = await make("x", **settings), await make("kept", keep_log=True, **settings)
    async with scoring_at(server) as holder:
        hear = holder._tasks.hear
        monkeypatch.setattr(holder._tasks, "hear", lambda heard: [] if heard.wanted is not None else hear(heard))
        for each in (made, kept):
            await tell(each, range(2))
            await scored(each)
        async with scoring_at(server, warm_bytes) as scorer:
            for places in (range(2, 4), range(4, 66), range(66, 68)):
                for each in (made, kept):
                    await tell(each, places)
                    await scored(each)
                assert not any(record.is_held for record in scorer._tasks.values())
                found, expected = await wanted(made), await wanted(kept)
                assert found == expected
                assert await is_exact(kept, expected)
                await quiet(scorer)
                mixtures = [scorer._tasks.mixtures[name, made.label] for name in ("x", "kept")]
                if warm_bytes is None:
                    assert [sorted(mixture.copies) for mixture in mixtures] == [[0, 1, 2]] * 2
                    assert all(mixture.bytes > 3 * 30 * 30 * 8 for mixture in mixtures)
                else:
                    assert [mixture.bytes for mixture in mixtures].count(0) >= 1, "the newest ones stay at most"
    assert (await made.store.state("x")).generators[0].primary.snapshot_seq > 0


async def test_no_generator_has_a_turn_while_its_statistic_is_read(make, server: EmbeddedRedis, monkeypatch):
    made = await make(generators=3, keep_log=True, batch_size=ROWS, **SETTINGS)
    reading: list[str] = []
    clashes: list[str] = []
    begun, go_on = asyncio.Event(), asyncio.Event()
    acquire, run = statistic_set.StatisticLock.acquire, ScoreJob.run

    async def noted(self: statistic_set.StatisticLock, name: str, ordinal: int, *rest: Any) -> CachedStatistic | None:
        found = await acquire(self, name, ordinal, *rest)
        reading.append(f"{ordinal}")
        if len(reading) == 3:
            begun.set()
            await go_on.wait()
        return found

    async def checked(self: ScoreJob) -> None:
        ordinal = f"{self.task.ordinal}"
        clashes.extend([ordinal] if ordinal in reading and not go_on.is_set() else [])
        await run(self)

    monkeypatch.setattr(statistic_set.StatisticLock, "acquire", noted)
    monkeypatch.setattr(ScoreJob, "run", checked)
    async with scoring_at(server):
        await tell(made, range(4))
        await scored(made)
        positions = {g.ordinal: g.seq for g in (await made.store.state("x")).generators}
        await made.store.want("x", made.mixture)
        await begun.wait()
        await tell(made, range(4, 12))  # estimates are due meanwhile
        await asyncio.sleep(1.5)  # a sweep goes by
        assert clashes == []
        go_on.set()
        found = await until(lambda: made.store.artefact("x", made.mixture))
        assert {g: part.seq for g, part in found.parts.items()} == positions
        assert await is_exact(made, found)
        await scored(made)


@pytest.mark.long
@pytest.mark.parametrize("threads", [[1], [2, 1]])
async def test_every_mixture_is_exact_while_batches_come(
    make, redis: Redis, monkeypatch: pytest.MonkeyPatch, threads: list[int]
):
    """One scorer with one thread; and two scorers, which share the generators."""
    made = await make(generators=3, keep_log=True, batch_size=ROWS, goal="mixture", policy="ogd", **SETTINGS)
    stored: list[StoredArtefact] = []
    put = Store.put_artefact

    async def noted(store: Store, *arguments: Any, **options: Any) -> bool:
        stands = await put(store, *arguments, **options)
        found = (await made.store.state("x")).mixture
        stored.extend([found] if stands and found is not None else [])
        return stands

    async def has_made() -> bool:
        return not (await made.store.state("x")).is_mixture_due

    monkeypatch.setattr(Store, "put_artefact", noted)
    rng = np.random.default_rng(0)
    async with contextlib.AsyncExitStack() as stack:
        for count in threads:
            await stack.enter_async_context(scoring(Store(redis), threads=count))
        places = itertools.count()
        for _ in range(2):
            while await has_made():
                await tell(made, [next(places)], rng.permutation(3)[: rng.integers(1, 4)].tolist())
            # It is due, and batches still come.
            while not await has_made():
                await made.store.want("x", made.mixture)
                await tell(made, [next(places)], [int(rng.integers(3))])
                await asyncio.sleep(rng.uniform(0.1, 0.5))
        await scored(made)
    assert len(stored) >= 2
    for mixture in stored:
        assert await is_exact(made, mixture)


@pytest.mark.parametrize("held", [True, False])
async def test_a_retracted_batch_is_in_no_mixture(make, server: EmbeddedRedis, redis: Redis, held: bool):
    """It is as if the batch had never been told; with statistics that are locked, and with copies."""
    made, never = [await make(name, generators=2, keep_log=True, **SETTINGS) for name in ("x", "never")]
    async with contextlib.AsyncExitStack() as stack:
        if not held:
            await stack.enter_async_context(held_by_another(made))
        scorer = await stack.enter_async_context(scoring_at(server))
        for each in (made, never):
            for generator in (0, 1):
                await each.tell_many(generator, 5, ROWS)
        if held:
            await scored(made)
        position = await made.tell(0, {"features": np.full((7, 4), 3.0)})
        before = await wanted(made)
        await made.store.retract("x", generator=0, position=position)
        assert await made.store.artefact("x", made.mixture) is None
        for each in (made, never):
            await each.tell_many(0, 2, ROWS, seed=9)
        after, expected = await wanted(made), await wanted(never)
        assert json.loads(after.payload) == json.loads(expected.payload) != json.loads(before.payload)
        assert bool(scorer._tasks.mixtures["x", made.label].copies) == (not held)


async def test_a_generator_that_cannot_be_read_is_named_and_the_mixture_made_without_it(
    make, server: EmbeddedRedis, redis: Redis
):
    made = await make(generators=3, keep_log=True, batch_size=ROWS, goal="mixture", policy="ogd", **SETTINGS)
    async with scoring_at(server) as scorer:
        await tell(made, range(2))
        first = await wanted(made)
        await redis.xdel("optimist:{x}:log:1", "2-0")
        for record in scorer._tasks.every:
            record.evict()
        await tell(made, range(2, 8))

        async def said() -> str | None:
            await made.store.want("x", made.mixture)
            return (await made.store.state("x")).mixture_error

        assert "CorruptData: log of generator 1" in await until(said)
        assert await made.store.artefact("x", made.mixture) == first, "the last one that could be made stands"
        await made.store.set_state("x", 1, "retired")

        async def without() -> bool:
            await made.store.want("x", made.mixture)
            found = await made.store.artefact("x", made.mixture)
            return found is not None and list(found.parts) == [0, 2]

        await until(without)
        state = await made.store.state("x")
        assert (state.mixture_error, state.is_mixture_ready) == (None, False)


async def test_what_fails_once_is_done_again(make, server: EmbeddedRedis, monkeypatch: pytest.MonkeyPatch):
    made = await make(generators=3, keep_log=True, batch_size=ROWS, goal="mixture", policy="ogd", **SETTINGS)
    failed: list[str] = []
    for call in ("artefact", "put_artefact"):
        method = getattr(Store, call)

        async def failing(*arguments: Any, call: str = call, method: Any = method, **options: Any) -> Any:
            if call not in failed:
                failed.append(call)
                raise Unavailable("just now")
            return await method(*arguments, **options)

        monkeypatch.setattr(Store, call, failing)
    async with scoring_at(server):
        await tell(made, range(2))
        await until(lambda: stored_mixture(made))
    assert failed == ["artefact", "put_artefact"]


@pytest.mark.parametrize("held", [True, False])
async def test_batches_that_redis_lost_are_in_no_mixture(make, server: EmbeddedRedis, redis: Redis, held: bool):
    made = await make(generators=2, keep_log=True, **SETTINGS)
    async with contextlib.AsyncExitStack() as stack:
        if not held:
            await stack.enter_async_context(held_by_another(made))
        await stack.enter_async_context(scoring_at(server))
        for generator in (0, 1):
            await made.tell_many(generator, 4, ROWS)
        await wanted(made)
        earlier = await kept(redis)
        await made.tell_many(0, 2, ROWS, seed=1)
        lost = await wanted(made)
        await go_back(redis, earlier)
        await made.tell_many(0, 2, ROWS, seed=2)
        found = await wanted(made)
        assert found.parts == lost.parts
        assert found.payload != lost.payload
        assert await is_exact(made, found)


async def test_mixtures_of_watched_metrics_are_those_of_experiments_by_them_alone(make, server: EmbeddedRedis):
    watched = RKE(label="wide", dimension=4, kernel=Gaussian(sigma=5.0, features=15))
    both = await make("x", generators=2, watch=[watched], keep_log=True, **SETTINGS)
    alone = await make("alone", generators=2, keep_log=True, **(SETTINGS | {"metric": watched}))
    async with scoring_at(server):
        for made in (both, alone):
            for generator in (0, 1):
                await made.tell_many(generator, 6, ROWS)
        found, expected = await wanted(both, "wide"), await wanted(alone)
        assert (found.parts, found.payload) == (expected.parts, expected.payload)
        assert await both.store.artefact("x", both.mixture) is None
        assert (await wanted(both)).payload != found.payload


async def test_an_experiment_that_is_deleted_as_its_mixture_is_made_leaves_nothing(
    make, server: EmbeddedRedis, redis: Redis, monkeypatch: pytest.MonkeyPatch
):
    made = await make(generators=2, **SETTINGS)
    make_of = MixtureJob._make

    async def deleted(self: MixtureJob, *arguments: Any) -> None:
        await made.store.delete_experiment("x")
        await make_of(self, *arguments)

    async with scoring_at(server) as scorer:
        for generator in (0, 1):
            await made.tell_many(generator, 4, ROWS)
        await scored(made)
        monkeypatch.setattr(MixtureJob, "_make", deleted)
        await made.store.want("x", made.mixture)

        async def gone() -> bool:
            return not await redis.keys("optimist:{x}:*")

        await until(gone)
        await quiet(scorer)
        await asyncio.sleep(1.5)  # it sweeps once a second
        assert not await redis.keys("optimist:{x}:*")
        assert scorer.is_alive
