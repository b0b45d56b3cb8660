"""Polls that meet what happens meanwhile: an experiment that changes, is deleted, or made again under its name."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from optimist.api.app_state import AppState
from optimist.api.pages import TaggedBody
from optimist.api.polls import BODIES, Polls
from optimist.api.redis_health import RedisHealth
from optimist.records import AskGroup, Contents, NewPick, NotFound, Opened, Opening, StoreError
from optimist.settings import Settings
from optimist.store import Store
from optimist_client.models import ExperimentPage, Pick, Report
from tests.support.configs import config_of, experiment_of


async def make(store: Store, generators: list[str], instance: str) -> None:
    """An experiment "x" with three batches of its last generator."""
    config = config_of(name="x", generators=generators, metric="is", dimension=3)
    experiment = experiment_of(config, created=1.0, instance=instance)
    text = experiment.model_dump_json()
    await store.create_experiment("x", text, generators, 0.0, instance=instance, labels=["is"])
    for number in range(3):
        await store.append("x", len(generators) - 1, f"key {number}", Contents("digest", 5, b"body"))


def polls_of(store: Store) -> Polls:
    return AppState(store, Settings(), RedisHealth(store, Settings())).polls


@pytest.mark.parametrize("again", [False, True], ids=["deleted", "made-again"])
@pytest.mark.parametrize("moment", ["state", "history", "curves"])
async def test_an_experiment_that_changes_under_a_poll_is_not_mixed(
    store: Store, monkeypatch: pytest.MonkeyPatch, moment: str, again: bool
):
    polls = polls_of(store)
    await make(store, ["a"], "one")
    method, replaced = getattr(store, moment), False

    async def replacing(*arguments: Any, **options: Any) -> Any:
        nonlocal replaced
        if not replaced:
            replaced = True
            await store.delete_experiment("x")
            if again:
                await make(store, ["a", "b", "c"], "two")
        return await method(*arguments, **options)

    monkeypatch.setattr(store, moment, replacing)
    try:  # what the API answers with a problem, or what was there before
        found = Report.model_validate_json((await polls.report("x", 0)).text).progress
    except StoreError:
        found = None
    assert replaced
    assert found is None or (found.instance, found.samples) == ("one", [5, 10, 15])
    polls.changed("x")
    if not again:
        with pytest.raises(NotFound):
            await polls.report("x", 0)
        return
    progress = Report.model_validate_json((await polls.report("x", 0)).text).progress
    assert [(one.generator, one.batches[-1]) for one in progress.generators] == [("a", 0), ("b", 0), ("c", 3)]


async def test_nor_does_the_list_mix_them(store: Store, monkeypatch: pytest.MonkeyPatch):
    await make(store, ["a"], "one")
    state = store.state

    async def replacing(*arguments: Any, **options: Any) -> Any:
        await store.delete_experiment("x")
        await make(store, ["a", "b", "c"], "two")
        return await state(*arguments)

    monkeypatch.setattr(store, "state", replacing)
    body = await polls_of(store).page(50)
    assert ExperimentPage.model_validate_json(body.text).experiments == []


async def test_a_report_is_made_again_only_after_a_change(store: Store):
    polls = polls_of(store)
    await make(store, ["a", "b"], "one")

    async def polled() -> tuple[TaggedBody, Report]:
        polls.changed("x")  # as after a second
        body = await polls.report("x", 0)
        return body, Report.model_validate_json(body.text)

    first, _ = await polled()
    assert (await polled())[0] is first
    await store.control("x", {"stopped": "1"})
    report = (await polled())[1]
    assert report.state == "stopped"
    await store.append("x", 0, "another", Contents("digest", 5, b"body"))
    told, report = await polled()
    assert (report.samples, (await polled())[0] is told) == (20, True)
    # A lease that ends changes nothing in Redis.
    await store.control("x", {"stopped": ""})
    await open_pick(store, told=4, lease=0.5)
    report = (await polled())[1]
    assert report.open_picks == 1
    assert report.progress is not None
    deadline = report.progress.picks[0].deadline
    await store.renew_leases("x", [1], 1.0)
    renewed, report = await polled()
    assert report.progress is not None
    assert report.progress.picks[0].deadline > deadline
    assert (await polled())[0] is renewed, "while it is leased"
    await asyncio.sleep(1.1)
    assert (await polled())[1].open_picks == 0


async def open_pick(store: Store, told: int, lease: float) -> None:
    """Open the first pick of experiment "x", of its first generator."""
    state = await store.state("x")
    counts = {"positions": [0, 0], "batches": [1, 3], "pending_samples": [0, 0], "pending_batches": [0, 0]}
    told_of = {"experiment": "x", "instance": "one", "number": 1, "generator": "a", "size": 5, "seed": 1, "told": told}
    record = Pick(
        **told_of, **counts, opened=1.0, stale=False, worker=None, request_id="r", nonce="aa"
    ).model_dump_json()
    opening = Opening([AskGroup("r", [NewPick(0, record, nonce="aa")])], lease, state.rounds, state.last)
    assert isinstance((await store.exchange("x", opening=opening)).opened, Opened)


async def test_readers_get_the_same_report_until_something_changes(store: Store):
    polls = polls_of(store)
    await make(store, ["a", "b"], "one")
    first, *others = await asyncio.gather(*(polls.now("x") for _ in range(20)))
    assert all(one is first for one in others)
    await open_pick(store, told=3, lease=60.0)
    leased = await polls.now("x")
    assert leased.report.open_picks == 1
    assert await polls.now("x") is leased, "as long as its pick is leased"
    assert Report.model_validate_json((await polls.report("x", 0)).text).open_picks == 1
    assert await polls.now("x") is leased, "polls with charts have the same"
    # Whoever asks after a change gets what is made after it, also while one from before is being made.
    before = asyncio.create_task(polls.now("x"))
    await asyncio.sleep(0)
    await store.append("x", 0, "another", Contents("digest", 5, b"body"))
    assert (await polls.now("x")).report.samples == 20
    await before


async def test_many_cursors_of_one_report_are_not_all_kept(store: Store):
    polls = polls_of(store)
    await make(store, ["a"], "one")
    for number in range(2 * BODIES):
        await store.append("x", 0, f"more {number}", Contents("digest", 5, b"body"))
    bodies = [await polls.report("x", after) for after in range(BODIES + 1)]
    assert await polls.report("x", BODIES) is bodies[-1]
    assert await polls.report("x", 0) is not bodies[0]
