"""The dispatcher with the goal "mixture": asks wait for a due mixture, picks name it, a decision rests on it."""

from __future__ import annotations

import asyncio

import pytest

from optimist.dispatch.dispatcher import Dispatcher
from optimist.dispatch.states import with_decision_latched
from optimist.experiments.assignment import PickLimits
from optimist.experiments.report import report_of
from optimist.experiments.state import PolicyState
from optimist.records import Artefact, Contents, PickBatch
from optimist.store import WANTED, Store
from optimist_client.models import AskReply, AskRequest, Experiment, Pick
from tests.support.configs import config_of, experiment_of
from tests.support.made import create
from tests.support.mixed import put_mixture

LONG = 50.0
"""Seconds for which no ask waits in a test."""


class World:
    """An experiment in the store, its dispatcher, and a scorer's part played by hand."""

    def __init__(self, store: Store, experiment: Experiment) -> None:
        self.store = store
        self.experiment = experiment
        self.appended = 0
        self.dispatcher = Dispatcher(store, experiment, PickLimits(1000, 1000, 1000))

    async def state(self) -> PolicyState:
        return PolicyState(self.experiment, await self.store.state("x"))

    async def ask(self, worker: str = "w", **fields: object) -> AskReply:
        return await asyncio.wait_for(self.dispatcher.ask(AskRequest(worker=worker, **fields)), LONG)

    async def tell(self, pick: Pick) -> None:
        contents = Contents(f"digest {pick.number}", pick.size, b"body")
        await self.dispatcher.tell(PickBatch(pick.number, pick.nonce, contents))

    async def append(self, *generators: int) -> None:
        """Twenty samples of each, that no pick asked for."""
        for generator in generators:
            self.appended += 1
            contents = Contents(f"more {self.appended}", 20, b"body")
            await self.store.append("x", generator, f"key {self.appended}", contents)

    async def round(self, worker: str = "w") -> Pick:
        pick = (await self.ask(worker)).picks[0]
        await self.tell(pick)
        return pick

    async def warm_up(self) -> None:
        """The first four samples of each generator; the last of them make the first mixture due."""
        for _ in range(2 * len(self.experiment.config.generators)):
            await self.round()

    async def put(self, slack: float = 0.5, **weights: float) -> str:
        """The mixture of the logs as they are. Returns its name."""
        return await put_mixture(self.store, "x", slack, **weights)


async def made(store: Store, **config: object) -> World:
    given = {"metric": "rke", "dimension": 2, "kernel": {"sigma": 1.0, "features": 8}, "goal": "mixture"}
    given |= {"name": "x", "generators": ["a", "b"], "max_wait": LONG, "batch_size": 2, "tolerance": 0.1, **config}
    experiment = experiment_of(config_of(**given))
    await create(store, experiment)
    return World(store, experiment)


async def test_an_ask_waits_for_the_mixture_and_its_pick_names_it(store: Store):
    world = await made(store)
    first = [await world.round() for _ in range(4)]
    assert [(pick.generator, pick.mixture, *pick.positions) for pick in first[:2]] == [(g, None, 0, 0) for g in "ab"]
    assert (await world.state()).phase == "warming up"
    async with store.announcements(WANTED) as heard:
        assert await anext(heard) is None
        waiting = asyncio.create_task(world.ask())
        announced = await asyncio.wait_for(anext(heard), LONG)
    assert announced is not None
    assert (announced.experiment, announced.wanted) == ("x", Artefact("mixture", "rke"))
    assert not waiting.done()
    name = await world.put(a=0.7, b=0.3)
    world.dispatcher.wake()
    reply = await waiting
    [pick] = reply.picks
    assert (pick.mixture, pick.positions, pick.stale, pick.told) == (name, [2, 2], False, 4)
    assert reply.waited_for == "mixture"
    assert (reply.state, reply.decision.weights, reply.decision.best) == ("running", {"a": 0.7, "b": 0.3}, "a")


async def test_no_ask_waits_until_the_samples_have_grown_by_a_quarter(store: Store):
    world = await made(store, batch_size=1)
    for _ in range(8):  # four samples of each, the least
        await world.tell((await world.ask()).picks[0])
    name = await world.put(a=0.5, b=0.5)
    world.dispatcher.wake()
    for _ in range(2):
        pick = (await world.ask()).picks[0]
        assert (pick.mixture, pick.stale) == (name, False)
        await world.tell(pick)
    assert (await world.state()).stored.is_mixture_due
    assert not (await world.state()).is_scored
    waiting = asyncio.create_task(world.ask())
    done, _ = await asyncio.wait([waiting], timeout=0.5)
    assert not done
    another = await world.put(a=0.5, b=0.5)
    world.dispatcher.wake()
    assert (await waiting).picks[0].mixture == another != name


async def test_without_a_scorer_picks_are_stale(store: Store):
    world = await made(store, max_wait=0.2)
    await world.warm_up()
    picks = [await world.round() for _ in range(4)]
    assert [(pick.mixture, pick.stale) for pick in picks] == [(None, True)] * 4
    assert sorted(pick.generator for pick in picks) == ["a", "a", "b", "b"]
    name = await world.put(a=0.5, b=0.5)
    world.dispatcher.wake()
    assert (await world.round()).mixture == name


async def test_later_tells_make_nobody_wait_longer(store: Store):
    world = await made(store)
    await world.warm_up()
    waiting = asyncio.create_task(world.ask())
    done, _ = await asyncio.wait([waiting], timeout=0.5)
    assert not done
    name = await world.put(a=1.0, b=0.0)
    await world.append(0)
    assert (await world.state()).stored.is_mixture_due, "outgrown before anybody saw it"
    world.dispatcher.wake()
    [pick] = (await waiting).picks
    assert (pick.mixture, pick.stale) == (name, False)


async def test_it_knows_what_reading_the_state_shows(store: Store):
    world = await made(store, max_wait=0.0)
    for turn in range(12):
        pick = (await world.ask()).picks[0]
        _, following = await world.dispatcher.tell(
            PickBatch(pick.number, pick.nonce, Contents(f"digest {turn}", 2, b"body")), AskRequest(worker="w")
        )
        assert following is not None
        await following
        if turn in (5, 8):
            await world.put(a=0.5, b=0.5)
            world.dispatcher.wake()
            await world.ask("another", count=1)
        known = world.dispatcher._state
        assert known is not None
        read = await world.state()
        assert known.stored.mixture == read.stored.mixture
        assert known.stored.is_mixture_due == read.stored.is_mixture_due
        assert known.goal == read.goal


async def test_a_decision_rests_on_the_mixture_and_a_retraction_reopens_it(store: Store):
    world = await made(store)
    await world.append(0, 1, 0, 1)
    await world.put(slack=0.5, a=0.7, b=0.3)
    assert not (await world.state()).would_stop
    await world.append(0, 1)
    await world.put(slack=0.05, a=0.6, b=0.4)
    world.dispatcher.wake()
    reply = await world.ask()
    assert (reply.picks, reply.ended, reply.state, reply.decision.decided) == ([], True, "decided", True)
    assert reply.decision.weights == {"a": 0.6, "b": 0.4}
    assert "no other mixture is better than this one by more than 5.13%" in reply.decision.reason
    # What comes later changes no answer, and its retraction neither.
    await world.append(0)
    await store.retract("x", generator=0, position=4)
    assert (await world.state()).is_decided
    await store.retract("x", generator=1, position=1)
    state = await world.state()
    assert (state.is_decided, state.stored.mixture, state.stored.is_mixture_due) == (False, None, True)


async def test_a_mixture_that_came_meanwhile_decides(store: Store):
    world = await made(store)
    await world.append(0, 1, 0, 1)
    await world.put(slack=0.05, a=0.7, b=0.3)
    seen = await world.state()
    assert seen.would_stop
    await world.append(0)
    await world.put(slack=0.5, a=0.5, b=0.5)
    assert not (await with_decision_latched(store, seen)).is_decided


async def test_paused_retired_and_added_generators(store: Store):
    world = await made(store, generators=["a", "b", "c"], max_wait=0.0)
    await world.warm_up()
    await world.put(a=0.4, b=0.4, c=0.2)
    await store.set_state("x", 0, "paused")
    world.dispatcher.wake()
    picked = {(await world.round()).generator for _ in range(6)}
    assert "a" not in picked
    assert (await world.state()).phase == "running"
    await world.put(a=0.4, b=0.4, c=0.2)
    await store.set_state("x", 1, "retired")
    assert (await world.state()).stored.is_mixture_due
    await store.add_generator("x", "d")
    world.dispatcher.wake()
    # The new one has its warm-up first. Until then no mixture can be made, and nobody waits for one.
    assert not (await world.state()).stored.is_mixture_due
    added = [await world.round() for _ in range(2)]
    assert [pick.generator for pick in added] == ["d", "d"]
    assert (await world.state()).stored.is_mixture_due
    assert (await world.state()).phase == "warming up"
    await world.put(a=0.4, c=0.3, d=0.3)
    state = await world.state()
    assert (state.phase, state.stored.is_mixture_due) == ("running", False)
    shown = report_of(state).mixture
    assert shown is not None
    assert [one.generator for one in shown.weights] == ["a", "c", "d"]
    assert (shown.positions[1], min(shown.positions[:1] + shown.positions[2:])) == (0, 2)


@pytest.mark.parametrize(("policy", "growth"), [("ogd", 0.25), ("mixture-greedy", 0.0)])
async def test_published_policies_want_a_mixture_after_every_batch(store: Store, policy: str, growth: float):
    world = await made(store, policy=policy)
    assert world.experiment.mixture_growth == growth
    await world.warm_up()
    await world.put(a=0.5, b=0.5)
    assert not (await world.state()).stored.is_mixture_due
    world.dispatcher.wake()
    await world.round()
    assert (await world.state()).stored.is_mixture_due
