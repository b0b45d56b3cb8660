"""Models of contexts by scorers: a function of logs and positions alone, published without delay but not too often."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import threading
import time
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from redis.asyncio import Redis

from optimist.estimation.stored import asked_prompt_of
from optimist.experiments.state import PolicyState
from optimist.records import COST, ExperimentState, LogExtent, Superseded
from optimist.references.distances import usual_distance
from optimist.routing.answers.features import contexts_to_fit
from optimist.routing.answers.model import RouteModel
from optimist.routing.goal import ForRouting, LoadedModel
from optimist.routing.learning.learner import RouteLearner, model_of
from optimist.scoring.tasks import PUBLISH_EVERY
from optimist.store import MODEL_UNIT, EmbeddedRedis, Store
from optimist_client import tensors
from optimist_client.models import Routes
from tests.support.made import Made, held_by_another, scoring, scoring_at, settled, until
from tests.support.routed import (
    ROUTES,
    WIDTH,
    estimators_of,
    has_model,
    is_exact,
    moments,
    prompts,
    table_of_now,
    tell_routed,
)


async def tell(made: Made, count: int, seed: int = 0) -> None:
    for generator in range(len(made.config.generators)):
        await tell_routed(made, generator, prompts(count, generator, seed))


def made_of(state: ExperimentState) -> dict[int, LogExtent]:
    """What the newest model was made of."""
    assert state.model is not None
    return dict(state.model.parts)


@pytest.mark.long
async def test_the_model_is_made_when_it_is_due_and_is_that_of_the_logs(make, server: EmbeddedRedis):
    made = await make(generators=2, keep_log=True, **{**ROUTES, "context_bandwidth": "median"})
    names = set()
    async with scoring_at(server):
        for seed in range(3):
            await tell(made, 32, seed)
            await has_model(made)
            state = await made.store.state("x")
            assert state.model is not None
            assert await is_exact(made)
            names.add(state.model.made)
    assert len(names) == 3
    found = await made.store.artefact("x", made.model)
    assert found is not None
    kinds = np.array([np.zeros(WIDTH), np.full(WIDTH, 3.0)], dtype=np.float32)
    means, _ = RouteModel.unpack(found.payload).predict(kinds)
    assert means.argmax(axis=1).tolist() == [0, 1], "each is the better one on its own kind of prompt"


@pytest.mark.long
@pytest.mark.parametrize(("held", "what"), [(True, "position"), (False, "position"), (True, "until")])
async def test_told_rows_are_in_the_sums_once_and_retracted_ones_are_not(
    make, server: EmbeddedRedis, held: bool, what: str
):
    """With statistics that are locked, and with copies; one batch is retracted, or all up to one."""
    made = await make(generators=2, keep_log=True, **ROUTES)
    async with contextlib.AsyncExitStack() as stack:
        if not held:
            await tell(made, 3)
            async with scoring_at(server):  # without any estimate, no model is due
                await has_model(made)
            await stack.enter_async_context(held_by_another(made))
        scorer = await stack.enter_async_context(scoring_at(server))
        await tell(made, 20, seed=1)
        await has_model(made)
        await made.store.retract("x", generator=0, **{what: 5})
        assert (await made.store.state("x")).model is None, "made of what counts no longer"
        assert await made.store.artefact("x", made.model) is None
        await tell(made, 10, seed=2)
        await has_model(made)
        assert await is_exact(made)
        assert bool(scorer._tasks.models["x"].copies) == (not held)
    parts = made_of(await made.store.state("x"))
    estimators = await estimators_of(made, parts)
    for ordinal, part in parts.items():
        sums = moments(estimators[ordinal])
        log = await made.store.read_log("x", ordinal, 0, max_entries=1000)
        gone = () if ordinal else (5,) if what == "position" else range(1, 6)
        rows = [one for one in log if not one.is_retraction and one.seq <= part.seq and one.seq not in gone]
        assert sums.samples == len(rows) == part.samples


async def test_it_is_made_at_the_usual_priority(make, server: EmbeddedRedis, monkeypatch: pytest.MonkeyPatch):
    """At a low one, a scorer beside three busy processes on two cores made no model in half a minute."""
    made, priorities = await make(generators=2, **ROUTES), list[int]()

    def noted(learner: RouteLearner, estimators: Any) -> bytes:
        priorities.append(os.getpriority(os.PRIO_PROCESS, threading.get_native_id()))
        return model_of(estimators, learner.policy).pack()

    monkeypatch.setattr(RouteLearner, "model", noted)
    async with scoring_at(server):
        await tell(made, 40, 0)
        await has_model(made)
    assert set(priorities) == {os.getpriority(os.PRIO_PROCESS, os.getpid())}


@pytest.mark.long
async def test_it_is_published_every_two_seconds_at_most_and_the_last_growth_too(
    make, server: EmbeddedRedis, monkeypatch: pytest.MonkeyPatch
):
    made = await make(generators=2, keep_log=True, **{**ROUTES, "rescore_growth": 0.0})
    published: list[float] = []
    put = Store.put_artefact

    async def noted(store: Store, *arguments: Any, **options: Any) -> bool:
        if arguments[1] == made.model:
            published.append(time.monotonic())
        return await put(store, *arguments, **options)

    monkeypatch.setattr(Store, "put_artefact", noted)
    async with scoring_at(server):
        for seed in itertools.count():
            await tell(made, 2, seed)
            await asyncio.sleep(0.05)
            if len(published) == 3:
                break
        last = [g.seq for g in (await made.store.state("x")).generators]
        await has_model(made)
        assert [part.seq for part in made_of(await made.store.state("x")).values()] == last
        assert await is_exact(made)
    assert min(np.diff(published)) >= PUBLISH_EVERY - 0.01


async def test_the_table_is_made_when_somebody_asks_or_samples_have_grown_by_a_quarter(make, server: EmbeddedRedis):
    made = await make(generators=3, costs={"g0": 1.0, "g1": 2.0, "g2": 4.0}, price=0.01, **ROUTES)
    async with scoring_at(server):
        await tell(made, 40)

        async def come() -> bool:
            found = await made.store.artefact("x", made.table)
            return found is not None and sum(part.samples for part in found.parts.values()) == 120

        await until(come)
        await tell_routed(made, 1, prompts(3, 1, seed=1))
        parts, text = await table_of_now(made)
        table = Routes.model_validate_json(text)
        assert table.samples == 123
        assert table.positions == [40, 43, 40] == [part.seq for part in parts.values()]
        assert [share.samples for share in table.shares] == [40, 43, 40]
        points = await made.store.artefact_curve("x", made.table)
        assert [point.samples for point in points] == [120]
        await tell(made, 10, seed=2)
        _, text = await table_of_now(made)
        points = await made.store.artefact_curve("x", made.table)
        assert points[-1].point == ForRouting.table_point(Routes.model_validate_json(text))
        # Of the same samples, with other costs.
        await made.store.control("x", {f"{COST}g0": "9.0"})
        await made.store.want("x", made.table)

        async def is_of_new_costs() -> bool:
            found = await made.store.artefact("x", made.table)
            assert found is not None
            return Routes.model_validate_json(found.payload).costs == [9.0, 2.0, 4.0]

        await until(is_of_new_costs)


async def test_a_router_with_a_ceiling_has_its_price_in_the_table(make, server: EmbeddedRedis):
    made = await make(generators=2, costs={"g0": 1.0, "g1": 4.0}, ceiling=1.5, **ROUTES)
    async with scoring_at(server):
        await tell(made, 60)
        await has_model(made)
        assert await is_exact(made), "the sampled prompts, too, are those of the logs"
        parts, text = await table_of_now(made)
        pace = Routes.model_validate_json(text).pace
    assert pace is not None
    assert (pace.ceiling, pace.at_least, pace.spent) == (1.5, None, 2.5)
    # As much as the dispatcher asks for the next pick.
    assert pace.price > 0.0
    state = PolicyState(made.experiment, await made.store.state("x"))
    found = await made.store.artefact("x", made.model)
    assert found is not None
    assert state.stored.model is not None
    assert state.stored.model.parts == parts
    assert isinstance(state.goal, ForRouting)
    goal = replace(state.goal, loaded=LoadedModel.from_stored(state.stored.model, RouteModel.unpack(found.payload)))
    assert goal.overspent(state) == 120 * (2.5 - 1.5)
    assert goal.price(state.arms, goal.overspent(state))[0] == pace.price


@pytest.mark.long
async def test_a_generator_that_cannot_be_read_is_left_out_and_noted(make, server: EmbeddedRedis, redis: Redis):
    made = await make(generators=3, keep_log=True, **ROUTES)
    async with scoring_at(server) as scorer:
        await tell(made, 10)
        await has_model(made)
        await redis.xdel("optimist:{x}:log:1", "2-0")
        for record in scorer._tasks.every:
            record.evict()
        await tell(made, 10, seed=1)

        async def without() -> bool:
            state = await made.store.state("x")
            return state.model is not None and list(state.model.parts) == [0, 2] and not state.is_model_due

        await until(without)
        state = await made.store.state("x")
        assert state.model_error is None
        assert "log of generator 1" in (state.generators[1].primary.scoring_error or "")
        assert await is_exact(made)
        # The others go on.
        await tell_routed(made, 0, prompts(20, 0, seed=2))
        await has_model(made)
        assert list(made_of(await made.store.state("x"))) == [0, 2]
        assert scorer._tasks.models["x"].problem == ""


async def test_a_table_that_cannot_be_made_is_noted_and_delays_no_model(
    make, server: EmbeddedRedis, monkeypatch: pytest.MonkeyPatch
):
    made = await make(generators=2, keep_log=True, **ROUTES)

    def fails(*_: Any, **__: Any) -> Routes:
        raise StopIteration  # which no future can hold

    monkeypatch.setattr(ForRouting, "table", fails)
    async with scoring_at(server):
        await tell(made, 10)

        async def noted() -> str | None:
            return (await made.store.state("x")).model_error

        await until(noted)
        assert await is_exact(made)
        monkeypatch.undo()
        await tell(made, 1, seed=1)
        await table_of_now(made)
        assert (await made.store.state("x")).model_error is None


async def test_copies_count_as_memory_and_are_dropped_first_where_there_is_little(make, server: EmbeddedRedis):
    made, other = [await make(name, generators=2, keep_log=True, **ROUTES) for name in ("x", "other")]
    async with scoring_at(server):
        for each in (made, other):
            await tell(each, 5)
            await has_model(each)
    async with held_by_another(made), held_by_another(other), scoring_at(server, warm_bytes=0) as scorer:
        for each in (made, other):
            await tell(each, 5, seed=1)
            await has_model(each)
            assert await is_exact(each)
        routes = [scorer._tasks.models[name] for name in ("x", "other")]
        assert [record.bytes for record in routes].count(0) >= 1, "the newest ones stay at most"
        assert any(record.seconds for record in routes)


async def test_a_model_under_a_claim_that_was_taken_over_is_not_published(
    make, server: EmbeddedRedis, redis: Redis, monkeypatch: pytest.MonkeyPatch
):
    made = await make(generators=2, keep_log=True, **ROUTES)
    refused: list[str] = []
    put = Store.put_artefact

    async def late(store: Store, *arguments: Any, **options: Any) -> bool:
        if not refused:
            await redis.hdel("optimist:{x}:claims", MODEL_UNIT)
            assert await made.store.claim("x", MODEL_UNIT, "another", 0.5, made.label) is not None
        try:
            return await put(store, *arguments, **options)
        except Superseded as error:
            refused.append(str(error))
            raise

    monkeypatch.setattr(Store, "put_artefact", late)
    async with scoring_at(server):
        await tell(made, 10)
        await has_model(made)
        assert await is_exact(made)
    assert len(refused) == 1


async def test_the_first_contexts_of_all_generators_fix_the_bandwidth_and_a_retraction_fixes_it_anew(make):
    made: Made = await make(metric="mean", goal="route", context=WIDTH, context_features=8)
    needed = contexts_to_fit("median", 2)
    told = np.random.default_rng(1).standard_normal((2, needed + 2, WIDTH))
    told[:, 0] *= 30.0
    singles = told.astype(np.float32)

    async def fitted() -> float:
        found = tensors.decode(await until(made.fitted))
        assert found["context.directions"].shape == (WIDTH, WIDTH)
        return float(found["context.sigma"][0])

    async with scoring(made.store):
        for generator, place in itertools.product(range(2), range(needed + 2)):
            if (generator, place) == (1, needed - 1):
                assert await made.fitted() is None
            await tell_routed(made, generator, [(singles[generator, place], float(place))])
        assert await fitted() == usual_distance(np.concatenate(singles[:, :needed]))
        state = await settled(made)
        assert all(each.primary.estimate for each in state.generators)
        await made.store.retract(made.name, generator=0, position=1, fits_kernels=True)
        expected = usual_distance(np.concatenate([singles[0, 1 : needed + 1], singles[1, :needed]]))

        async def is_fixed_anew() -> bool:
            return await made.fitted() is not None and await fitted() == expected

        await until(is_fixed_anew)
        await settled(made)
    log = await made.store.read_log(made.name, 1, 0)
    assert [asked_prompt_of(each).prompt for each in log] == [f"prompt {row[0]:.3f}" for row in singles[1]]
