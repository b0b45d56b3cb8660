"""The asyncio client against the real service: the loop, cancellation, lost replies, files."""

from __future__ import annotations

import asyncio
import contextlib
import os
from pathlib import Path

import numpy as np
import pytest

from optimist_client import (
    AsyncExperiment,
    AsyncOptimist,
    FixError,
    GeneratorError,
    NotFoundError,
    RetryError,
    UnreachableError,
)
from tests.support.processes import Service, losing_replies

NAMES = ["a", "b", "c"]


def samples(generator: str, size: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((size, 4)) + {"a": 1.0, "b": 0.0, "c": 2.0}[generator]


def drawing(generator: str):
    async def draw(size: int, seed: int) -> np.ndarray:
        await asyncio.sleep(0)
        return samples(generator, size, seed)

    return draw


GENERATORS = {generator: drawing(generator) for generator in NAMES}


async def test_the_loop_names_the_best_generator(service: Service, name: str, reference):
    async with AsyncOptimist(service.url) as client:
        experiment = await client.create_experiment(name, NAMES, reference=reference, budget=5_000)
        assert isinstance(experiment, AsyncExperiment)
        async for pick in experiment.picks():
            reply = await pick.tell(samples(pick.generator, pick.size, pick.seed))
            assert reply.pick == pick.number
        report = await experiment.report()
        assert (report.state, report.decision.best, report.open_picks) == ("decided", "b", 0)
        assert await experiment.ask() is None
        assert name in await client.experiments()
        await client.delete_experiment(name)
        with pytest.raises(NotFoundError):
            await client.experiment(name)


async def test_a_loop_that_is_closed_gives_its_pick_back(service: Service, name: str, reference):
    async with AsyncOptimist(service.url) as client:
        experiment = await client.create_experiment(name, NAMES, reference=reference)
        async with contextlib.aclosing(experiment.picks()) as picks:
            async for pick in picks:
                assert pick.number == 1
                break
        assert (await experiment.report()).open_picks == 0


async def test_a_run_through_lost_replies_counts_every_batch_once(service: Service, name: str, reference):
    """Asynchronous generators, embedders in threads, and a proxy that loses every third reply."""
    async with AsyncOptimist(service.url) as client:
        experiment = await client.create_experiment(name, NAMES, reference=reference, stop=False, budget=150)
        with losing_replies(service.url, every=3) as url:
            async with AsyncOptimist(url) as unlucky:
                opened = await unlucky.experiment(name)
                report = await opened.run(GENERATORS, embed=lambda rows: rows.copy(), workers=4)
        assert (report.samples, report.rounds, report.open_picks) == (150, 30, 0)
        assert (await experiment.report()).samples == 150


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


async def test_a_generator_that_raises_is_named_and_its_pick_given_back(service: Service, name: str, reference):
    async def broken(size: int, seed: int) -> np.ndarray:
        raise RuntimeError("no such checkpoint")

    async with AsyncOptimist(service.url) as client:
        experiment = await client.create_experiment(name, NAMES, reference=reference)
        with pytest.raises(GeneratorError, match="'b': generating raised RuntimeError: no such checkpoint"):
            await experiment.run({**GENERATORS, "b": broken}, workers=2)
        report = await experiment.report()
        assert report.open_picks == 0
        assert {row.generator: row.samples for row in report.standings}["b"] == 0


async def test_files_travel_both_ways(service: Service, name: str, reference, tmp_path: Path):
    np.savez(tmp_path / "real.npz", mu=reference[0], sigma=reference[1])
    async with AsyncOptimist(service.url) as client:
        experiment = await client.create_experiment(name, NAMES, reference=tmp_path / "real.npz")
        await experiment.run(GENERATORS, max_samples=50)
        await experiment.export(tmp_path / "archive")
        again = await client.import_experiment(tmp_path / "archive", f"{name}-again")
        assert (await again.report()).standings == (await experiment.report()).standings
        whole = (tmp_path / "archive").read_bytes()
        await client.delete_experiment(again.name)
        with pytest.raises(NotFoundError):
            await again.export(tmp_path / "archive")
        assert (tmp_path / "archive").read_bytes() == whole
        assert sorted(os.listdir(tmp_path)) == ["archive", "real.npz"]
        assert (await client.create_reference(f"{name}-file", file=tmp_path / "real.npz")).dimension == 4


async def test_errors_say_what_to_do(service: Service):
    async with AsyncOptimist("http://127.0.0.1:9", patience=0.2) as nowhere:
        with pytest.raises(UnreachableError, match=r"127\.0\.0\.1:9/? within 0.2 s") as failure:
            await nowhere.references()
        assert isinstance(failure.value, RetryError)
        assert failure.value.action == "retry"
    client = AsyncOptimist(service.url)
    await client.close()
    with pytest.raises(FixError, match="closed"):
        await client.references()
