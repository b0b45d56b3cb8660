"""Watched metrics: each is scored as the only metric of an experiment with the same log is, and none is in the way."""

from __future__ import annotations

import asyncio
import itertools
import json
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from redis.asyncio import Redis

from optimist.records import Artefact, StoredArtefact, Unit
from optimist.scoring import Scorer, fairness
from optimist.scoring.cached import CachedStatistic
from optimist.store import EmbeddedRedis, Store, open_store
from optimist_client import tensors
from optimist_client.metrics import FID, RKE, Gaussian, InceptionScore, Mean, Metric, Nystrom, Vendi
from optimist_client.models import Modes
from tests.support.made import Made, scored, scoring_at, units_of, until

COLUMNS = {"features": 4, "probabilities": 11, "second": 3, "score": 1}
WATCHED: list[Metric] = [
    InceptionScore(dimension=11),
    RKE(dimension=4, kernel=Gaussian(sigma=2.0, features=15)),
    Vendi(dimension=4, kernel=Gaussian(sigma="median", features=15)),
    Vendi(label="nystrom", dimension=4, kernel=Nystrom(sigma="median", features=20), order=3.0),
    FID(reads="second", reference="second"),
    RKE(reads="second", dimension=3, kernel=Gaussian(sigma=1.0, features=20)),
    Mean(reads="score", higher_is_better=True),
]
LABELS = [metric.shown_label for metric in WATCHED]
TOLD = 24
"""Batches that are told before the service ends once."""
ROWS = 60


@pytest.fixture
async def second(store: Store) -> None:
    """A reference of the second embedding."""
    body = tensors.encode({"mean": np.ones(3), "covariance": 2.0 * np.eye(3)})
    await store.references.put("second", "{}", body)


def arrays(generator: int, place: int, rows: int = ROWS) -> dict[str, NDArray[Any]]:
    """The batch of a place in the generators' common sequence."""
    common = np.random.default_rng(place).standard_normal((rows, 15))
    weights = np.exp(common[:, 4:] * (1 + generator / 10))
    return {
        "features": common[:, :4] * (1 + generator / 5),
        "probabilities": weights / weights.sum(axis=1, keepdims=True),
        "second": common[:, 2:5] + generator / 3,
        "score": common[:, :1] + generator,
    }


def read_by(made: Made, batch: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    names = {name: None for metric in made.config.metrics.values() for name in metric.array_names.values()}
    return {name: batch[name] for name in names}


async def tell(made: Made, places: list[int], generators: tuple[int, ...] = (0, 1)) -> None:
    for place in places:
        for generator in generators:
            await made.tell(generator, read_by(made, arrays(generator, place)), start=ROWS * place)


def columns_of(metric: Metric) -> dict[str, int]:
    return {name: COLUMNS[name] for name in metric.array_names.values()}


async def watching(make, growth: float, name: str = "all", **config: Any) -> Made:
    given = {"batch_size": ROWS, "columns": COLUMNS, "watch": WATCHED, **config}
    return await make(name, rescore_growth=growth, **given)


async def by_itself(make, growth: float, labels: Sequence[str] = LABELS) -> dict[str, Made]:
    """An experiment by each of the metrics alone, by its label."""
    common = {"rescore_growth": growth, "batch_size": ROWS}
    return {
        label: await make(label, metric=metric, columns=columns_of(metric), **common)
        for label, metric in zip(LABELS, WATCHED, strict=True)
        if label in labels
    } | {"fid": await make("fid", **common)}


async def estimates(made: Made, label: str | None = None) -> list[tuple[int, str | None]]:
    """Position and text of the newest estimate of each generator by a metric, None for the one that decides."""
    state = await made.store.state(made.name, all_metrics=True)
    found = [generator.units[label or made.label] for generator in state.generators]
    return [(unit.estimate_seq, unit.estimate) for unit in found]


@pytest.mark.long
async def test_each_equals_an_experiment_by_it_alone_to_the_last_bit(make, second, server: EmbeddedRedis):
    together, alone = await watching(make, 0.1), await by_itself(make, 0.1)
    # The kernels are fixed by the 128 first samples of each. Two places change order, and one is told twice.
    for places, warm_bytes in (([0, 2, 1, 3], None), ([4, 5, 6, 7, 7], 0), ([8], None)):
        async with scoring_at(server, warm_bytes):
            for made in (together, *alone.values()):
                await tell(made, places)
            for made in (together, *alone.values()):
                await scored(made)
        for label, made in alone.items():
            found = await estimates(together, label)
            assert found == await estimates(made), label
            assert all(text for _, text in found)
    assert len({text for label in alone for _, text in await estimates(together, label)}) == 2 * len(alone)


@pytest.mark.long
async def test_snapshots_of_all_sizes_and_a_log_trimmed_to_the_oldest_of_them(
    make, second, server: EmbeddedRedis, redis: Redis
):
    """A metric's snapshot is due when the log behind it is as large as its own statistic: 20 kB here, or 200 kB."""
    together, alone = await watching(make, 0.3), await by_itself(make, 0.3, ["is", "fid-second", "rke-second"])

    async def snapshots() -> list[int]:
        units = await units_of(together)
        return [units[0, label].snapshot_seq for label in ("fid", *LABELS)]

    async def are_made(wanted: Callable[[list[int]], bool]) -> bool:
        return wanted(await snapshots())

    async def is_trimmed() -> bool:
        return await redis.xlen("optimist:{all}:log:0") == 2 * TOLD - min(await snapshots())

    for turn, warm_bytes in enumerate((None, 0)):
        async with scoring_at(server, warm_bytes):
            for made in (together, *alone.values()):
                await tell(made, [*range(TOLD * turn, TOLD * (turn + 1))])
            for made in (together, *alone.values()):
                await scored(made)
            if turn == 0:
                await until(lambda: are_made(lambda found: found[0] > 0 and found[1] > 0))
                assert min(await snapshots()) == 0
                assert await redis.xlen("optimist:{all}:log:0") == TOLD, "one of them needs it"
            else:
                await until(lambda: are_made(lambda found: min(found) > TOLD))
                await until(is_trimmed)
    for label, made in alone.items():
        assert await estimates(together, label) == await estimates(made), label


async def test_those_that_decide_are_scored_first(make, second, server: EmbeddedRedis, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(fairness, "PATIENCE", math.inf)
    settings = {"rescore_growth": 0.0, "columns": {"features": 4, "probabilities": 11}}
    made, other = await make("all", watch=WATCHED[:2], **settings), await make("other", generators=3)
    order: list[str] = []
    put = Store.put_estimate

    async def noted(*arguments: Any, label: str = "", **options: Any) -> bool:
        order.append(label)
        return await put(*arguments, label=label, **options)

    monkeypatch.setattr(Store, "put_estimate", noted)
    for generator in range(3):
        await other.tell_many(generator, 2)
    await tell(made, [0, 1, 2])
    async with open_store(server.url) as store:
        scorer = Scorer(store, threads=1)
        torch.set_num_threads(1)
        task = asyncio.create_task(scorer.run())
        await asyncio.gather(scored(made), scored(other))
        task.cancel()
        await asyncio.wait([task])
    first = order.index(next(label for label in order if label != "fid"))
    assert order[:first].count("fid") == order.count("fid") == 5
    assert set(order[first:]) == set(LABELS[:2])


@pytest.mark.long
async def test_retracted_batches_count_by_no_metric(make, second, server: EmbeddedRedis):
    """The estimates are those of an experiment that was never told them; the later one goes first."""
    watch = [WATCHED[place] for place in (0, 2, 5, 6)]
    together = await watching(make, 0.0, keep_log=True, watch=watch)
    never = await watching(make, 0.0, "never", watch=watch)
    async with scoring_at(server):
        await tell(together, [0, 1, 2, 3])
        await tell(never, [0, 1, 2, 3])
        await scored(together)
        for place in (9, 10):
            batch = {**arrays(1, place), "score": np.full((ROWS, 1), 9.0)}
            await together.tell(0, read_by(together, batch), start=place * ROWS)
        await scored(together)
        for position in (6, 5):
            await together.store.retract("all", generator=0, position=position)
        await tell(together, [4])
        await tell(never, [4])
        for made in (together, never):
            await scored(made)
    for label in together.config.metrics:
        texts = [[json.loads(text or "") for _, text in await estimates(made, label)] for made in (together, never)]
        assert texts[0] == texts[1], label


async def test_metrics_that_cannot_be_scored_say_why_and_the_others_go_on(
    make, second, server: EmbeddedRedis, redis: Redis, monkeypatch: pytest.MonkeyPatch
):
    together = await watching(make, 0.0)
    apply = CachedStatistic.apply
    wrong = {"fid-second": "reference 'second' is gone", "is": "ArithmeticError: not finite"}

    def fails(cached: CachedStatistic, *arguments: Any) -> Any:
        if cached._bound.metric.name == "is":
            raise ArithmeticError("not finite")
        return apply(cached, *arguments)

    async def errors() -> dict[Unit, str]:
        return {unit: state.scoring_error for unit, state in (await units_of(together)).items() if state.scoring_error}

    async def all_are_said() -> bool:
        return (await errors()).keys() >= set(itertools.product((0, 1), wrong))

    monkeypatch.setattr(CachedStatistic, "apply", fails)
    await redis.rename("optimist:reference:second", "elsewhere")
    await tell(together, [0, 1, 2])
    async with scoring_at(server):
        await scored(together, *wrong)
        await until(all_are_said)
        assert sorted(await errors()) == sorted(itertools.product((0, 1), wrong))
        assert all(wrong[label] in error for (_, label), error in (await errors()).items())
        monkeypatch.undo()
        await redis.rename("elsewhere", "optimist:reference:second")
        await tell(together, [3])
        await scored(together)
    assert await errors() == {}


async def modes_of(made: Made, label: str) -> StoredArtefact | None:
    """The modes of generator 0, which are asked for."""
    artefact = Artefact("modes", label, 0)
    await made.store.want(made.name, artefact)
    return await made.store.artefact(made.name, artefact)


@pytest.mark.long
async def test_modes_of_a_watched_metric(make, second, server: EmbeddedRedis):
    labels = ("rke-second", "vendi")
    together, alone = await watching(make, 0.0), await by_itself(make, 0.0, labels)
    for made in (together, *alone.values()):
        await tell(made, [0, 1, 2])
    async with scoring_at(server):
        for label in labels:
            found: list[StoredArtefact] = []
            for made in (together, alone[label]):
                await scored(made)
                found.append(await until(lambda made=made, label=label: modes_of(made, label)))
            assert found[0] == found[1]
            assert Modes.model_validate_json(found[0].payload).modes
