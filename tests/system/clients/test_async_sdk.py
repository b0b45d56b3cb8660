"""The asyncio client against the real service: every operation, a run, cancellation, lost replies, errors."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import numpy as np
import pytest

from optimist_client import (
    AsyncOptimist,
    FixError,
    NotFoundError,
    Optimist,
    Report,
)
from tests.support.processes import Service, losing_replies, scored

NAMES = ["a", "b", "c"]


async def draw(size: int, seed: int) -> np.ndarray:
    await asyncio.sleep(0)
    return np.random.default_rng(seed).standard_normal((size, 4))


async def test_every_operation_may_be_awaited(service: Service, client: Optimist, name: str, reference, tmp_path: Path):
    """What they do is shown by the tests of the blocking client, which has the same ones."""
    async with AsyncOptimist(service.url) as awaited:
        config = {"batch_size": 20, "policy": "uniform", "stop": False, "previews": 4, "keep_log": True}
        experiment = await awaited.create_experiment(name, NAMES, reference=reference, tags=[name], **config)
        async for pick in experiment.picks(max_samples=190):
            rows = await draw(pick.size, pick.seed)
            await pick.tell(rows, previews=np.zeros((20, 300, 300, 3), np.uint8), records=["one"] * 20)
        await experiment.annotate(note="later")
        (found,) = await awaited.list_experiments(tag=name)
        assert (found.name, found.note, (await found.open()).info.instance) == (name, "later", experiment.info.instance)
        assert {one.width for one in await experiment.previews()} == {256}
        assert isinstance(await experiment.preview((await experiment.previews())[0].id), bytes)
        assert [one.record async for one in experiment.records()] == ["one"] * 180
        await asyncio.to_thread(scored, client.experiment(name))
        assert (await experiment.contrast("a", "b")).against == "b"
        assert await experiment.anomalies() == []
        assert not (await experiment.accept(pick=1)).already
        assert [one.pick for one in (await experiment.retract(pick=1)).retracted] == [1]
        (late, later) = await experiment.ask_all(count=2)
        await later.give_up("an example")
        await experiment.tell_all([(late, await draw(20, late.seed))])
        assert (await experiment.stop()).state == "stopped"
        assert await experiment.ask() is None
        assert name in await awaited.experiments()
        await experiment.export(tmp_path / "archive")
        again = await awaited.import_experiment(tmp_path / "archive", f"{name}-again")
        assert (await again.report()).standings == (await experiment.report()).standings
        whole = (tmp_path / "archive").read_bytes()
        await awaited.delete_experiment(name)
        with pytest.raises(NotFoundError):
            await experiment.export(tmp_path / "archive")
        assert (tmp_path / "archive").read_bytes() == whole
        assert os.listdir(tmp_path) == ["archive"]


@pytest.mark.long
async def test_a_run_through_lost_replies_counts_every_batch_once(service: Service, name: str, reference):
    """Asynchronous generators, callbacks, embedders in threads, and a proxy that loses every third reply."""
    seen: list[str] = []

    async def count(report: Report) -> None:
        await asyncio.sleep(0)
        seen.append(report.experiment)

    async with AsyncOptimist(service.url) as client:
        experiment = await client.create_experiment(name, NAMES, reference=reference, stop=False, budget=150)
        with losing_replies(service.url, every=3) as url:
            async with AsyncOptimist(url) as unlucky:
                opened = await unlucky.experiment(name)
                report = await opened.run(
                    dict.fromkeys(NAMES, draw), embed=lambda rows: rows.copy(), workers=4, callbacks=[count]
                )
        assert (report.samples, report.rounds, report.open_picks) == (150, 30, 0)
        assert (await experiment.report()).samples == 150
    assert seen[1:] == seen[:-1] != []


async def test_a_run_that_is_cancelled_gives_its_picks_back(service: Service, name: str, reference):
    inside = asyncio.Semaphore(0)

    async def generate(size: int, seed: int) -> np.ndarray:
        inside.release()
        await asyncio.Event().wait()
        raise AssertionError("unreachable")

    async with AsyncOptimist(service.url) as client:
        experiment = await client.create_experiment(name, NAMES, reference=reference)
        running = asyncio.create_task(experiment.run(dict.fromkeys(NAMES, generate), workers=3))
        for _ in range(3):
            await asyncio.wait_for(inside.acquire(), 60)
        assert (await experiment.report()).open_picks == 3
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert (await experiment.report()).open_picks == 0


async def test_a_client_that_is_closed_says_so(service: Service):
    client = AsyncOptimist(service.url)
    await client.close()
    with pytest.raises(FixError, match="closed"):
        await client.references()
