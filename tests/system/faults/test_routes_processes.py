"""Prompts are routed while scorers and replicas of the API are killed: nothing told is lost or counted twice, and
every model is the one that the logs say, to the last bit."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from optimist.records import LogExtent
from optimist.routing.answers.model import RouteModel
from optimist.routing.learning.learner import model_of
from optimist.store import SCORED, EmbeddedRedis, Store
from optimist_client.models import Experiment
from tests.support.configs import config_of
from tests.support.made import Made, until
from tests.support.processes import Service, scorer, serving
from tests.support.routed import ROUTES, estimators_of, has_model, moments, prompts

pytestmark = [pytest.mark.faults, pytest.mark.long]

Published = dict[str, tuple[dict[int, LogExtent], bytes]]
"""Models by name: of which parts, and their bytes."""
Ledger = defaultdict[int, list[float]]
"""The scores that were acknowledged, by generator."""


@asynccontextmanager
async def watched(made: Made) -> AsyncIterator[Published]:
    """Every model that is published meanwhile, but those that are replaced as they are read."""
    found: Published = {}

    async def read() -> None:
        async with made.store.announcements(SCORED) as heard:
            async for _ in heard:
                state, model = await made.store.state(made.name), await made.store.artefact(made.name, made.model)
                if state.model is not None and model is not None and state.model.made == model.made:
                    found[model.made] = dict(state.model.parts), model.payload

    reading = asyncio.create_task(read())
    yield found
    reading.cancel()
    await asyncio.wait([reading])


async def check(made: Made, published: Published, ledger: Ledger) -> None:
    """Whether each model is that of the logs, and the last one has the sums of all that was told, once each."""
    await has_model(made)

    async def seen() -> bool:
        state = await made.store.state(made.name)
        return state.model is not None and state.model.made in published

    await until(seen)
    for parts, model in list(published.values())[-6:]:
        assert model_of(await estimators_of(made, parts), made.config.policy).pack() == model
    state = await made.store.state(made.name)
    assert state.model is not None
    parts, model = published[state.model.made]
    assert {g: part.samples for g, part in parts.items()} == {g: len(scores) for g, scores in ledger.items()}
    assert RouteModel.unpack(model).samples == tuple(len(ledger[g]) for g in sorted(ledger))
    for generator, estimator in (await estimators_of(made, parts)).items():
        sums = moments(estimator)
        assert sums.samples == len(ledger[generator])
        assert np.isclose(sums.sum, sum(ledger[generator]), rtol=1e-12)


class Workers:
    """Workers that route prompts over HTTP, by any of some replicas, and keep a ledger of what was acknowledged."""

    def __init__(self, services: Sequence[Service]) -> None:
        self.urls = [service.url for service in services]
        self.ledger: Ledger = defaultdict(list)
        self.picks: list[dict[str, Any]] = []
        self.are_done = False
        self._contexts = iter(prompts(100_000, 0, seed=7))
        self._http = httpx.AsyncClient(timeout=20.0)

    async def __aenter__(self) -> Workers:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.aclose()

    async def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """The answer of any replica: while one does not answer, the same is sent to the next one."""
        for url in itertools.cycle(self.urls):
            with contextlib.suppress(httpx.TransportError):
                answer = await self._http.post(f"{url}{path}", json=body)
                if answer.status_code < 500:
                    assert answer.status_code < 300, answer.text
                    return answer.json()
            await asyncio.sleep(0.05)
        raise AssertionError

    async def ask(self, request: str) -> list[dict[str, Any]]:
        contexts = [next(self._contexts)[0].tolist() for _ in range(3)]
        asked = {"worker": "w", "request_id": request, "contexts": contexts, "prompts": ["a", "b", "c"]}
        picks = (await self.post("/v1/experiments/x/picks", asked))["picks"]
        assert len(picks) == 3
        self.picks += picks
        return picks

    async def work(self, name: str, pause: float) -> None:
        numbers = itertools.count()
        while not self.are_done:
            await asyncio.sleep(pause)
            for pick in await self.ask(f"{name}-{next(numbers)}"):
                await self.tell(pick)

    async def tell(self, pick: dict[str, Any]) -> None:
        score = float(np.random.default_rng(pick["seed"]).random() < 0.5)
        path = f"/v1/experiments/x/picks/{pick['number']}/batch?nonce={pick['nonce']}"
        told = await self.post(path, {"values": [[score]]})
        assert told["generator"] == pick["generator"]
        self.ledger[int(pick["generator"][1:])].append(score)

    @property
    def told(self) -> int:
        """Scores that were acknowledged."""
        return sum(map(len, self.ledger.values()))


async def test_whoever_is_killed_every_reward_counts_once_and_asks_go_on_by_the_last_model(
    store: Store, server: EmbeddedRedis, tmp_path: Path
):
    options = ["--no-scoring", f"--redis-url={server.url}"]
    with serving(tmp_path / "one", *options) as one, serving(tmp_path / "two", *options) as two:
        config = {**ROUTES, "rescore_growth": 0.0, "max_wait": 1.0, "keep_log": True}
        wanted = config_of(name="x", generators=["g0", "g1", "g2"], **config)
        async with Workers([one, two]) as workers:
            created = await workers.post("/v1/experiments", wanted.model_dump(mode="json", exclude_unset=True))
            made = Made(store, Experiment.model_validate(created))
            tasks = [asyncio.create_task(workers.work(f"worker-{number}", 1.6)) for number in range(16)]

            async def more(told: int) -> bool:
                assert not any(task.done() for task in tasks), [task for task in tasks if task.done()]
                return workers.told >= told

            async with watched(made) as published:
                with scorer(server.url, tmp_path) as first, scorer(server.url, tmp_path) as second:

                    async def routed() -> bool:
                        return bool(workers.picks) and workers.picks[-1].get("model") is not None

                    await until(routed)
                    first.kill()
                    before = len(published)

                    async def goes_on() -> bool:
                        return len(published) >= before + 2

                    await until(goes_on)
                    one.kill()  # workers go on with the other replica
                    before = workers.told
                    await until(lambda: more(before + 60))
                    second.kill()
                # No scorer is left: answers go on by the last model, and say so.
                before = workers.told
                await until(lambda: more(before + 60))

                async def is_stale() -> bool:
                    return workers.picks[-1]["stale"]

                await until(is_stale)
                state = await made.store.state("x")
                assert state.model is not None
                assert workers.picks[-1].get("model") == state.model.made
                assert workers.picks[-1]["probability"] > 0.0
                with scorer(server.url, tmp_path):
                    old = state.model.made

                    async def is_new() -> bool:
                        return not workers.picks[-1]["stale"] and workers.picks[-1].get("model") != old

                    await until(is_new)
                    workers.are_done = True
                    await asyncio.gather(*tasks)
                    await check(made, published, workers.ledger)
            numbers = [pick["number"] for pick in workers.picks]
            assert len(numbers) == len(set(numbers)) == workers.told == (await made.store.state("x")).told
