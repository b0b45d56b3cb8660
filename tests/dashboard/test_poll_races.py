"""Polls that meet what happens meanwhile: an experiment that is deleted, or made again under its name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from optimist.api.polls import Polls
from optimist.dispatch.state import PolicyState
from optimist.store import NotFound, Store, StoreError
from optimist_client.models import Experiment, ExperimentConfig, Overview, Report


async def make(store: Store, generators: list[str], instance: str) -> None:
    """An experiment "x" with three batches of its last generator."""
    config = ExperimentConfig(name="x", generators=generators, metric="is", dimension=3)
    experiment = Experiment(config=config, dimension=3, created=1.0, instance=instance)
    await store.create_experiment("x", experiment.model_dump_json(), generators, 0.0, instance=instance)
    for number in range(3):
        await store.append("x", len(generators) - 1, f"key {number}", "digest", 5, b"body")


def polls_of(store: Store) -> Polls:
    async def experiment(name: str) -> Experiment:
        text = await store.config(name)
        if text is None:
            raise NotFound(name)
        return Experiment.model_validate_json(text)

    async def state(experiment: Experiment) -> PolicyState:
        return PolicyState(experiment, await store.state(experiment.config.name))

    async def watched(experiment: Experiment) -> None:
        return None

    async def mixture(state: PolicyState) -> None:
        return None

    async def routes(state: PolicyState) -> None:
        return None

    async def labelled(names: Sequence[str]) -> list[Experiment]:
        return [await experiment(name) for name in names]

    return Polls(store, experiment, state, watched, mixture, routes, labelled)


@pytest.mark.parametrize("again", [False, True], ids=["deleted", "made-again"])
@pytest.mark.parametrize("moment", ["state", "history", "curves"])
async def test_an_experiment_that_changes_under_a_poll_is_not_mixed(
    store: Store, monkeypatch: pytest.MonkeyPatch, moment: str, again: bool
):
    polls = polls_of(store)
    await make(store, ["a"], "one")
    method, replaced = getattr(store, moment), False

    async def replacing(*arguments: Any) -> Any:
        nonlocal replaced
        if not replaced:
            replaced = True
            await store.delete_experiment("x")
            if again:
                await make(store, ["a", "b", "c"], "two")
        return await method(*arguments)

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
    assert progress is not None
    assert [(one.generator, one.batches[-1]) for one in progress.generators] == [("a", 0), ("b", 0), ("c", 3)]


async def test_nor_does_the_overview_mix_them(store: Store, monkeypatch: pytest.MonkeyPatch):
    await make(store, ["a"], "one")
    state = store.state

    async def replacing(*arguments: Any) -> Any:
        await store.delete_experiment("x")
        await make(store, ["a", "b", "c"], "two")
        return await state(*arguments)

    monkeypatch.setattr(store, "state", replacing)
    body = await polls_of(store).overview(50, 0)
    assert Overview.model_validate_json(body.text).experiments == []
