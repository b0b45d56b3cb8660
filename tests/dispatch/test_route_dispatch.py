"""The dispatcher with the goal "route": each pick is for a context, by the newest model, and nothing is waited for."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from optimist.dispatch import models
from optimist.dispatch.dispatcher import DRAINING, Dispatcher
from optimist.experiments.assignment import PickLimits
from optimist.experiments.goals.asked import AskedContext
from optimist.experiments.report import report_of
from optimist.experiments.state import PolicyState
from optimist.records import COST, AskedPrompt, Contents, PickBatch
from optimist.routing.answers.policy import RoutePolicy
from optimist.store import Store
from optimist_client.models import AskReply, AskRequest, Experiment, Pick
from tests.support.configs import config_of, experiment_of
from tests.support.made import create
from tests.support.published_routes import WIDTH, model, put_model

LONG = 50.0
"""Seconds for which no ask waits in a test."""
AB = {0: 0.0, 1: 0.2}


def contexts(count: int = 1, seed: int = 0) -> list[list[float]]:
    return np.random.default_rng(seed).standard_normal((count, WIDTH)).astype(np.float32).tolist()


class World:
    """An experiment in the store, its dispatcher, and a scorer's part played by hand."""

    def __init__(self, store: Store, experiment: Experiment, pick_limits: PickLimits | None = None) -> None:
        self.store = store
        self.experiment = experiment
        self.dispatcher = Dispatcher(store, experiment, pick_limits or PickLimits(1000, 1000, 1000))

    def replica(self) -> World:
        """The same with another dispatcher."""
        return World(self.store, self.experiment)

    async def state(self) -> PolicyState:
        return PolicyState(self.experiment, await self.store.state("x"))

    async def ask(self, rows: list[list[float]] | None = None, **fields: object) -> AskReply:
        rows = contexts() if rows is None else rows
        request = AskRequest.model_validate({"worker": "w", "contexts": rows, **fields})
        asked = [*map(AskedContext, np.array(rows, dtype=np.float32), request.prompts or [""] * len(rows))]
        return await asyncio.wait_for(self.dispatcher.ask(request, "", asked), LONG)

    async def tell(self, *picks: Pick, rows: int | None = None) -> None:
        for pick in picks:
            batch = PickBatch(pick.number, pick.nonce, Contents(f"digest {pick.number}", rows or pick.size, b"body"))
            await self.dispatcher.tell(batch)

    async def warm_up(self) -> list[Pick]:
        """Three told picks of each generator, after which a model is due."""
        picks = (await self.ask(contexts(3 * len(self.experiment.config.generators)))).picks
        await self.tell(*picks)
        return picks

    async def put(self, means: dict[int, float] | bytes = b"", **shape: float) -> str:
        """Publish a model of the logs as they are. Returns its name."""
        name = await put_model(self.store, "x", means if isinstance(means, bytes) else model(means, **shape))
        self.dispatcher.wake()
        return name


async def made(store: Store, pick_limits: PickLimits | None = None, **config: object) -> World:
    given = {"metric": "mean", "goal": "route", "context": WIDTH, "context_features": 8, "context_bandwidth": 1.0}
    given |= {"name": "x", "generators": ["a", "b"], "max_wait": LONG, **config}
    experiment = experiment_of(config_of(**given))
    await create(store, experiment)
    return World(store, experiment, pick_limits)


def drawn(
    picks: list[Pick], rows: list[list[float]], means: dict[int, float], **shape: float
) -> list[tuple[str, float]]:
    """The generators that these picks should have by the model alone, each with its probability."""
    policy, found = RoutePolicy(seed=5), []
    for pick, row in zip(picks, rows, strict=True):
        value, width = model(means, **shape).predict(np.array([row], dtype=np.float32))
        chances = policy.chances(value[0], width[0])
        chosen = policy.pick(chances, pick.number)
        found.append(("ab"[chosen], float(chances[chosen])))
    return found


async def test_generators_take_turns_and_are_then_equally_likely_until_there_is_a_model(store: Store):
    world = await made(store)
    assert (await world.state()).phase == "warming up"
    first = await world.warm_up()
    assert "".join(pick.generator for pick in first) == "ababab"
    assert {(pick.probability, pick.model, pick.stale, *pick.positions) for pick in first} == {
        (None, None, False, 0, 0)
    }
    reply = await world.ask(contexts(40))
    assert {(pick.probability, pick.model, *pick.positions) for pick in reply.picks} == {(0.5, None, 0, 0)}
    assert min(Counter(pick.generator for pick in reply.picks).values()) > 8
    assert (reply.state, reply.decision.decided, reply.retry_after) == ("running", False, None)
    assert "go on until" in reply.decision.reason
    report = report_of(await world.state(), 1)
    assert (report.goal, report.hint, report.regret, report.contrasts) == ("route", None, None, [])


async def test_the_median_bandwidth_makes_the_warm_up_longer(store: Store):
    world = await made(store, context_bandwidth="median")
    picks = (await world.ask(contexts(65))).picks
    assert [pick.probability for pick in picks] == [None] * 64 + [0.5]
    assert not (await world.state()).can_be_scored
    await world.tell(*picks)
    assert (await world.state()).can_be_scored


async def test_a_pick_is_a_pure_function_of_model_context_and_number(store: Store):
    world = await made(store, seed=5)
    await world.warm_up()
    name = await world.put(AB)
    rows = contexts(60, seed=1)
    picks = [pick for part in (rows[:1], rows[1:3], rows[3:]) for pick in (await world.ask(part)).picks]
    assert {(pick.model, *pick.positions, pick.stale) for pick in picks} == {(name, 3, 3, False)}
    assert [(pick.generator, pick.probability) for pick in picks] == drawn(picks, rows, AB)
    assert len({pick.generator for pick in picks}) == 2
    assert all(0.01 <= (pick.probability or 0.0) <= 0.99 for pick in picks)
    # The dispatcher of another replica chooses the same.
    there = (await world.replica().ask(rows[:5])).picks
    assert [(pick.generator, pick.probability) for pick in there] == drawn(there, rows[:5], AB)


async def test_only_generators_that_the_worker_can_sample_have_a_chance(store: Store):
    world = await made(store, generators=["a", "b", "c"])
    await world.warm_up()
    await world.put({0: 0.0, 1: 0.1, 2: 9.0}, slope=0.1)
    free = (await world.ask(contexts(20))).picks
    assert Counter(pick.generator for pick in free).most_common(1)[0][0] == "c"
    picks = (await world.ask(contexts(20), generators=["a", "b"])).picks
    assert {pick.generator for pick in picks} == {"a", "b"}
    assert all(pick.excluded == ["c"] and 0.01 <= (pick.probability or 0.0) <= 0.99 for pick in picks)
    [alone] = (await world.ask(generators=["b"])).picks
    assert (alone.generator, alone.probability) == ("b", 1.0)


async def test_only_the_same_request_gets_its_picks_again(store: Store):
    world = await made(store)
    rows = contexts(3)
    first = (await world.ask(rows, request_id="one")).picks
    assert [pick.number for pick in (await world.ask(rows, request_id="one")).picks] == [1, 2, 3]
    assert [pick.number for pick in (await world.ask(rows, request_id="two")).picks] == [4, 5, 6]
    # Through another replica, too.
    assert (await world.replica().ask(rows, request_id="one")).picks == first


async def test_limits_leave_the_first_contexts_their_picks(store: Store):
    world = await made(store, PickLimits(1000, 4, 1000), budget=6)
    reply = await world.ask(contexts(5))
    assert (len(reply.picks), reply.retry_after, reply.ended) == (4, DRAINING, False)
    assert (await world.ask(contexts(5))).picks == []
    await world.tell(*reply.picks)
    last = await world.ask(contexts(5))
    assert (len(last.picks), last.retry_after) == (2, DRAINING)
    await world.tell(*last.picks)
    assert (await world.ask()).ended


async def test_what_is_told_stands_in_the_log_with_its_context(store: Store):
    world = await made(store, tries=3)
    [row] = contexts()
    [pick] = (await world.ask([row], prompts=["a red dog"])).picks
    assert (pick.size, pick.prompts, pick.start) == (3, ["a red dog"] * 3, None)
    await world.tell(pick, rows=2)
    [entry] = await store.read_log("x", 0, 0)
    kept = AskedPrompt.unpack(entry.context)
    assert (kept.context.tolist(), kept.probability, kept.prompt, entry.rows) == (row, None, "a red dog", 2)
    # Tries that were not needed make no later pick smaller.
    assert [pick.size for pick in (await world.ask(contexts(4))).picks] == [3, 3, 3, 3]


@pytest.mark.parametrize("policy", ["ucb", "greedy", "rff-ucb", "best-single", "uniform"])
async def test_policies_without_chance_record_no_probability(store: Store, policy: str):
    world = await made(store, policy=policy)
    await world.warm_up()
    name = await world.put(AB)
    picks = (await world.ask(contexts(20))).picks
    expected = (0.5, None) if policy == "uniform" else (None, name)
    assert {(pick.probability, pick.model) for pick in picks} == {expected}
    chosen = Counter(pick.generator for pick in picks)
    assert chosen == {"b": 20} if policy == "best-single" else len(chosen) == 2


async def test_the_price_moves_picks_to_what_costs_less(store: Store):
    world = await made(store, price=2.0, costs={"a": 1.0, "b": 1.0})
    await world.warm_up()
    await world.put({0: 0.0, 1: 5.0}, slope=0.1)
    before = (await world.ask(contexts(20))).picks
    assert Counter(pick.generator for pick in before)["b"] >= 18
    assert before[0].costs == [1.0, 1.0]
    await store.control("x", {f"{COST}b": "9.0"})
    world.dispatcher.wake()
    after = (await world.ask(contexts(20))).picks
    assert Counter(pick.generator for pick in after)["a"] >= 18
    assert after[0].costs == [1.0, 9.0]


COSTS = {"a": 1.0, "b": 9.0}


async def test_a_ceiling_is_kept_by_a_price_of_what_was_spent(store: Store):
    world = await made(store, ceiling=3.0, costs=COSTS, seed=5)
    first = await world.warm_up()
    assert {pick.price for pick in first} == {None}
    await world.put({0: 0.0, 1: 5.0}, slope=1.0)
    # "b" is better on most prompts. The warm-up cost 5 a prompt, and open picks count as what they will cost.
    before = (await world.ask(contexts(30))).picks
    assert (before[0].price or 0.0) > 0.0
    prices = [pick.price or 0.0 for pick in before]
    for pick, (price, following) in zip(before[:-1], pairwise(prices), strict=True):
        assert following >= price if COSTS[pick.generator] > 3.0 else following <= price
    assert len(set(prices)) > 2
    assert {pick.costs == [1.0, 9.0] for pick in before} == {True}
    # Over many prompts the mean is the ceiling, but for what is made up for within the next prompts.
    picks = list(before)
    for seed in range(10):
        picks += (await world.ask(contexts(60, seed=seed))).picks
    await world.tell(*picks)
    state = await world.state()
    assert abs(state.cost / state.stored.told - 3.0) < 0.15
    assert state.goal.overspent(state) == pytest.approx(state.cost - 3.0 * 636)


async def test_the_price_is_the_same_in_every_process_and_after_a_retraction(store: Store):
    world = await made(store, ceiling=3.0, costs=COSTS, seed=5, keep_log=True)
    first = await world.warm_up()
    await world.put(AB)
    await world.tell(*(await world.ask(contexts(40))).picks)
    rows = contexts(20, seed=2)

    async def chosen() -> list[tuple[str, float | None, float | None]]:
        picks = (await world.replica().ask(rows)).picks
        for pick in picks:
            await store.give_up("x", pick.number, "again", nonce=pick.nonce)
        return [(pick.generator, pick.probability, pick.price) for pick in picks]

    async def prices() -> list[float | None]:
        # Only the first is of the same open picks: the numbers of picks draw other generators.
        return [(await chosen())[0][2] for _ in range(2)]

    before, again = await prices()
    assert before == again
    assert before is not None
    # What was retracted has been paid for.
    await store.retract("x", pick=first[1].number)
    await world.put(AB)
    assert await prices() == [before, before]
    # A cheaper "b" has cost less all along.
    await store.control("x", {f"{COST}b": "1.5"})
    assert await prices() == [0.0, 0.0]


async def test_at_least_a_share_is_kept_as_cheaply_as_can_be(store: Store):
    found = {}
    for share in (1.0, 0.9, 0.1):
        await store.delete_experiment("x")
        world = await made(store, metric={"name": "win-rate"}, at_least=share, costs=COSTS, seed=5)
        await world.warm_up()
        await world.put({0: 0.6, 1: 0.8}, slope=0.01, width=0.001)
        picks = (await world.ask(contexts(100))).picks
        found[share] = Counter(pick.generator for pick in picks)["b"]
        assert len({pick.price for pick in picks}) == 1
    assert found[1.0] > 90
    assert 30 < found[0.9] < 80
    assert found[0.1] < 10


async def test_picks_are_stale_once_a_model_has_been_due_for_long(store: Store, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(models, "EVERY", 0.0)
    world = await made(store, max_wait=0.2)
    await world.warm_up()

    async def until_stale(is_stale: bool) -> Pick:
        for _ in range(2000):
            if (pick := (await world.ask()).picks[0]).stale == is_stale:
                return pick
            await asyncio.sleep(0.02)
        raise AssertionError("in vain")

    assert not (await world.ask()).picks[0].stale
    assert (await until_stale(True)).model is None
    name = await world.put(AB)
    assert (await until_stale(False)).model == name
    await world.tell(*(await world.ask(contexts(2))).picks)
    assert (await until_stale(True)).model == name, "the last model goes on"


async def test_a_model_that_cannot_be_read_leaves_the_one_before(store: Store):
    world = await made(store)
    await world.warm_up()
    name = await world.put(AB)
    [pick] = (await world.ask()).picks
    await world.tell(pick)
    await world.put(b"not a model")
    assert (await world.state()).stored.model != pick.model
    [after] = (await world.ask()).picks
    assert (after.model, after.positions) == (name, [3, 3])


async def test_a_model_of_retracted_batches_is_used_no_more(store: Store):
    world = await made(store, keep_log=True)
    first = await world.warm_up()
    await world.tell(*(await world.ask(contexts(4))).picks)
    await world.put(AB)
    assert (await world.ask()).picks[0].model is not None
    await store.retract("x", pick=first[0].number)
    world.dispatcher.wake()
    picks = (await world.ask(contexts(5))).picks
    assert {(pick.model, pick.probability, *pick.positions) for pick in picks} == {(None, 0.5, 0, 0)}
    name = await world.put(AB)
    await store.set_state("x", 1, "paused")
    world.dispatcher.wake()
    assert {(pick.generator, pick.model) for pick in (await world.ask(contexts(3))).picks} == {("a", name)}


async def test_a_new_generator_has_its_warm_up_and_waits_for_the_next_model(store: Store):
    world = await made(store)
    await world.warm_up()
    name = await world.put(AB)
    await store.add_generator("x", "c", limit=10)
    world.dispatcher.wake()
    first = (await world.ask(contexts(3))).picks
    assert [(pick.generator, pick.probability) for pick in first] == [("c", None)] * 3
    picks = (await world.ask(contexts(20))).picks
    assert {(pick.generator, pick.model) for pick in picks} == {("a", name), ("b", name)}
    assert picks[0].positions == [3, 3, 0]


async def test_a_generator_whose_picks_are_given_up_does_not_get_all_of_them(store: Store):
    world, got = await made(store), Counter[str]()
    for row in contexts(60):
        (pick,) = (await world.ask([row])).picks
        got[pick.generator] += 1
        if pick.generator == "b":
            await store.give_up("x", pick.number, "broken", nonce=pick.nonce)
            world.dispatcher.wake()
        else:
            await world.tell(pick)
    assert got["a"] > 15  # three in the warm-up, and then about every second one


async def test_it_knows_what_reading_the_state_shows(store: Store):
    world = await made(store)
    await world.warm_up()
    for turn in range(6):
        if turn == 3:
            await world.put(AB)
        await world.tell(*(await world.ask(contexts(2))).picks)
        known = world.dispatcher._state
        assert known is not None
        read = (await world.state()).stored
        one, other = (
            replace(
                state,
                open_picks=[],
                generators=[replace(g, units={"": replace(g.primary, log_bytes=0)}) for g in state.generators],
            )
            for state in (known.stored, read)
        )
        assert one == other
        assert known.arms == (await world.state()).arms
