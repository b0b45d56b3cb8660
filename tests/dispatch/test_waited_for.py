"""An ask says what it waited for, or why it got no pick. Mixtures and answers: in the tests of these."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from prometheus_client import REGISTRY

from optimist.dispatch.dispatcher import Dispatcher
from optimist.experiments.assignment import PickLimits
from optimist.records import Contents
from optimist.store import Store
from optimist_client.models import AskReply, AskRequest, WaitReason
from tests.support.configs import config_of, experiment_of
from tests.support.made import create, put_estimate

FREE = PickLimits(1000, 1000, 1000)


async def made(store: Store, most: PickLimits = FREE, **config: Any) -> Dispatcher:
    given = {"generators": ["a", "b"], "metric": "is", "dimension": 10, "batch_size": 4, "max_wait": 0.0}
    experiment = experiment_of(config_of(name="x", **{**given, **config}))
    await create(store, experiment)
    return Dispatcher(store, experiment, most)


async def ask(dispatcher: Dispatcher, **wanted: Any) -> AskReply:
    return await dispatcher.ask(AskRequest(**wanted), "key")


@pytest.mark.parametrize(
    ("reason", "most", "config"),
    [
        ("experiment-picks", PickLimits(2, 1000, 1000), {}),
        ("key-picks", PickLimits(1000, 1000, 2), {}),
        ("samples", FREE, {"budget": 8}),
        ("cost", FREE, {"costs": {"a": 1.0, "b": 1.0}, "max_cost": 8.0}),
    ],
)
async def test_open_picks_leave_no_room(store: Store, reason: str, most: PickLimits, config: dict[str, Any]):
    dispatcher = await made(store, most, **config)
    before = REGISTRY.get_sample_value("optimist_ask_waits_total", {"reason": reason}) or 0.0
    assert [(await ask(dispatcher, worker=worker)).waited_for for worker in "uv"] == [None, None]
    for _ in range(2):  # by a state just read, and by the kept one
        reply = await ask(dispatcher, worker="w")
        assert (reply.picks, reply.waited_for, reply.retry_after) == ([], WaitReason(reason), 0.5)
    assert REGISTRY.get_sample_value("optimist_ask_waits_total", {"reason": reason}) == before + 2
    assert '"waited_for":' not in (await ask(dispatcher, worker="u")).model_dump_json(), "its own pick again"


async def test_a_worker_has_as_many_open_picks_as_it_may(store: Store):
    reply = await ask(await made(store, PickLimits(1000, 2, 1000)), worker="w", count=3)
    assert (len(reply.picks), reply.waited_for) == (2, WaitReason.WORKER_PICKS)


async def test_none_of_the_named_generators_is_active(store: Store):
    dispatcher = await made(store)
    await store.set_state("x", 0, "paused")
    assert (await ask(dispatcher, generators=["a"])).waited_for == WaitReason.GENERATORS


async def test_every_prompt_of_a_list_is_in_a_pick(store: Store):
    config = {"metric": {"name": "mean", "repeatable": True}, "dimension": None, "prompts": ["one", "two"]}
    dispatcher = await made(store, **config, prompts_are="list")
    assert (await ask(dispatcher, worker="u", generators=["a"])).waited_for is None
    assert (await ask(dispatcher, worker="v", generators=["a"])).waited_for == WaitReason.PROMPTS


async def test_another_process_opens_picks(store: Store):
    dispatcher = await made(store)
    assert (await store.exchange("x", wants_state=True, who="another")).state is not None
    reply = await ask(dispatcher)
    assert (len(reply.picks), reply.waited_for) == (1, WaitReason.PROCESSES)


async def test_estimates_are_waited_for(store: Store):
    """Until `max_wait` is over."""
    dispatcher = await made(store, rescore_growth=0.0, max_wait=0.01)
    for generator in range(2):
        for number in range(5):
            await store.append("x", generator, f"{number}", Contents(f"{number}", 4, b"body"))
    [pick] = (reply := await ask(dispatcher)).picks
    assert (pick.stale, reply.waited_for) == (True, WaitReason.ESTIMATES)


async def test_another_process_that_opens_picks_hides_no_longer_wait(store: Store):
    dispatcher = await made(store, rescore_growth=0.0, max_wait=60.0)
    for generator in range(2):
        for number in range(5):
            await store.append("x", generator, f"{number}", Contents(f"{number}", 4, b"body"))
    asked = asyncio.create_task(ask(dispatcher))
    done, _ = await asyncio.wait([asked], timeout=0.5)
    assert not done
    for generator in range(2):
        assert await put_estimate(store, generator, 5, 1.0, samples=20)
    assert (await store.exchange("x", wants_state=True, who="another")).state is not None
    dispatcher.wake()
    reply = await asked
    assert (len(reply.picks), reply.waited_for) == (1, WaitReason.ESTIMATES)


def test_every_reason_says_why_and_when_the_ask_is_answered():
    assert all(reason.about.endswith(".") and reason.ends for reason in WaitReason)
