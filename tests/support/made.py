"""Experiments as the API makes them, told batches that no pick asked for, and waiting until scorers are done."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray
from redis.asyncio import Redis

from optimist.estimation.clustered import ClusterKind
from optimist.metrics.bound import Bound
from optimist.records import Artefact, Contents, ExperimentState, Unit, UnitState
from optimist.scoring import Scorer
from optimist.scoring.cached import SMALLEST_TAIL, CachedStatistic
from optimist.scoring.scorer import CLAIM
from optimist.store import DEFAULT_NAMESPACE, EmbeddedRedis, Store, open_store
from optimist.store.experiments import traits_of
from optimist_client import tensors
from optimist_client.models import Experiment
from tests.support.configs import config_of, experiment_of
from tests.support.exchanges import claimed
from tests.support.logs import applied, entry


class Made:
    """An experiment of a store, whose generators are told batches that no pick asked for."""

    def __init__(self, store: Store, experiment: Experiment) -> None:
        self.store = store
        self.experiment = experiment
        self.config = experiment.config
        self.name = self.config.name
        self.label = self.config.metric.shown_label
        """Of the metric that decides."""
        self._keys = itertools.count()

    @property
    def mixture(self) -> Artefact:
        """The mixture by the metric that decides."""
        return Artefact("mixture", self.label)

    @property
    def model(self) -> Artefact:
        return Artefact("model", self.label)

    @property
    def table(self) -> Artefact:
        return Artefact("table", self.label)

    async def fitted(self) -> bytes | None:
        """The kernels of the metric that decides."""
        return await self.store.fitted(self.name, self.label)

    async def tell(self, generator: int, arrays: dict[str, NDArray[Any]], start: int | None = None) -> int:
        """Append a batch, without indices unless it has a start; its position in the log."""
        good = entry(1, arrays)
        key = f"key {next(self._keys)}"
        contents = Contents(good.digest, good.rows, good.body)
        return (await self.store.append(self.name, generator, key, contents, start=start)).seq

    async def tell_many(self, generator: int, batches: int, rows: int = 5, seed: int = 0) -> None:
        """Append normal batches, the same for one seed."""
        rng = np.random.default_rng((seed, generator))
        for _ in range(batches):
            await self.tell(generator, {"features": rng.standard_normal((rows, self.experiment.columns["features"]))})


async def create(store: Store, experiment: Experiment, text: str = "{}", **other: Any) -> None:
    """Create an experiment in the store as the API does."""
    config = experiment.config
    traits: Any = {**traits_of(experiment), **other}
    await store.create_experiment(config.name, text, config.generators, config.rescore_growth, **traits)


def making(store: Store) -> Callable[..., Awaitable[Made]]:
    """A function that makes an experiment: FID in 4 dimensions unless the config says otherwise.

    columns: of all arrays, where references have another dimension.
    """

    async def made(
        name: str = "x",
        generators: int = 2,
        columns: dict[str, int] | None = None,
        namespace: str = DEFAULT_NAMESPACE,
        **config: Any,
    ) -> Made:
        its = store.in_namespace(namespace)
        if config.get("metric", "fid") == "fid":
            moments = tensors.encode({"mean": np.zeros(4), "covariance": np.eye(4)})
            await its.references.put("normal", "{}", moments)
        names = [f"g{number}" for number in range(generators)]
        wanted = config_of(name=name, generators=names, **config)
        pinned: dict[str, Any] = {"instance": f"{name}-instance"}
        pinned |= {} if columns is None else {"columns": columns}
        record = experiment_of(wanted, **pinned)
        await create(its, record, record.model_dump_json())
        return Made(its, record)

    return made


async def owner_of(redis: Redis, unit: str) -> bytes | None:
    """Who has the claim of a unit of the experiment "x"; None: nobody has."""
    token: bytes | None = await redis.hget("optimist:{x}:claims", unit)  # type: ignore[misc]
    return token and token.rpartition(b":")[2]


async def kept(redis: Redis) -> dict[bytes, bytes]:
    """All keys of the experiment "x" as they are."""
    return {key: await redis.dump(key) for key in await redis.keys("optimist:{x}:*")}  # type: ignore[misc]


async def go_back(redis: Redis, earlier: dict[bytes, bytes]) -> None:
    """As after a crash with fsync every second: the end is gone, and its positions are given to other batches."""
    async with redis.pipeline(transaction=True) as pipeline:
        for key, value in earlier.items():
            pipeline.restore(key, 0, value, replace=True)
        await pipeline.execute()


async def units_of(made: Made) -> dict[Unit, UnitState]:
    """The state of every generator by every metric."""
    stored = await made.store.state(made.name, all_metrics=True)
    return {(g.ordinal, label): unit for g in stored.generators for label, unit in g.units.items()}


async def estimates_by(
    bound: Bound, made: Made, generator: int = 0, *, paired: bool = False, clusters: ClusterKind | None = None
) -> dict[int, str]:
    """The estimates of a whole log by position, as they are stored."""
    whole = CachedStatistic(bound, made.config.rescore_growth, paired=paired, clusters=clusters)
    return applied(whole, await made.store.read_log(made.name, generator, 0, max_entries=1000), 1)


@asynccontextmanager
async def scoring(store: Store, warm_bytes: int | None = None, threads: int = 2) -> AsyncIterator[Scorer]:
    """A scorer beside what else the event loop does."""
    scorer = Scorer(store, threads, warm_bytes=warm_bytes)
    task = asyncio.create_task(scorer.run())
    try:
        yield scorer
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


@asynccontextmanager
async def scoring_at(server: EmbeddedRedis, warm_bytes: int | None = None) -> AsyncIterator[Scorer]:
    """The same, on connections of its own."""
    async with open_store(server.url) as store, scoring(store, warm_bytes) as scorer:
        yield scorer


async def until(condition: Callable[[], Awaitable[Any]], seconds: float = 120.0) -> Any:
    """What a condition comes to, once that counts as true. It is looked at more and more seldom."""
    begun, pause = time.monotonic(), 0.01
    while not (found := await condition()):
        assert time.monotonic() - begun < seconds, "waited too long"
        await asyncio.sleep(pause)
        pause = min(1.3 * pause, 0.1)
    return found


async def quiet(scorer: Scorer) -> None:
    """When it works at nothing, and nothing waits."""

    async def done() -> bool:
        return all(record.state == "idle" for record in scorer._tasks.every)

    await until(done)


async def scored(made: Made, *without: str) -> ExperimentState:
    """When all estimates that are due are made, but those by some metrics; logs may still wait for a snapshot."""

    async def done() -> bool:
        found = (await made.store.state(made.name, all_metrics=True)).generators
        behind = {label for g in found for label, unit in g.units.items() if unit.estimate_seq < g.due_seq}
        return not behind - {*without}

    await until(done)
    return await made.store.state(made.name)


async def settled(made: Made, but: Sequence[int] = ()) -> ExperimentState:
    """When all estimates that are due are made, but those of some generators, and logs have shrunk."""

    async def done() -> bool:
        states = [state for state in (await made.store.state(made.name)).generators if state.ordinal not in but]
        return all(
            state.primary.estimate_seq >= state.due_seq and state.primary.log_bytes < SMALLEST_TAIL for state in states
        )

    await until(done)
    return await made.store.state(made.name)


@asynccontextmanager
async def held_by_another(made: Made) -> AsyncIterator[None]:
    """While this lasts, somebody has claims on all generators, and does nothing."""

    async def renew() -> None:
        while True:
            units = [(generator.ordinal, made.label) for generator in (await made.store.state(made.name)).generators]
            await made.store.claims(made.name, units, "somebody", CLAIM)
            first.set()
            await asyncio.sleep(CLAIM / 8)

    first = asyncio.Event()
    renewing = asyncio.create_task(renew())
    try:
        await first.wait()
        yield
    finally:
        renewing.cancel()
        await asyncio.wait([renewing])


async def put_estimate(
    store: Store, ordinal: int, position: int, value: float, samples: int, *, error: float = 0.1, label: str = "is"
) -> bool:
    """Publish an estimate as a scorer does; whether it was taken."""
    errors = {"standard_error": error, "stopping_error": error, "scale": "log", "lower_is_better": False}
    ends = {"lower": value - 1.0, "upper": value + 1.0, "optimistic": value + 1.0, "warnings": []}
    text = json.dumps({"value": value, "plug_in": value, "samples": samples, **errors, **ends})
    claim = await claimed(store, "x", ordinal, "scorer", 60, label)
    return await store.put_estimate("x", ordinal, position, text, claim, label=label)
