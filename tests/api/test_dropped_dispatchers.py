"""Dispatchers that nobody calls are dropped; the next call makes them anew."""

from __future__ import annotations

from pathlib import Path

import pytest

from optimist.api import context as context_module
from optimist.api.context import Context
from optimist.api.redis_health import RedisHealth
from optimist.settings import Settings
from optimist.store import EmbeddedRedis, open_store, start_embedded
from optimist_client.config import RULES
from optimist_client.models import AskRequest
from tests.support.configs import config_of, experiment_of


@pytest.fixture
def server(tmp_path: Path):
    with start_embedded(tmp_path) as running:
        yield running


async def test_a_dispatcher_that_rests_is_dropped(server: EmbeddedRedis, monkeypatch: pytest.MonkeyPatch):
    async with open_store(server.url) as store:
        context = Context(store, Settings(), RedisHealth(store, Settings())).in_namespace("default")
        made = []
        for name in ("x", "y"):
            config = config_of(**{"name": name, "generators": ["a"], "metric": "mean"})
            made.append(experiment_of(config, created=0.0, instance=name, rules=RULES))
            names = [name, made[-1].model_dump_json(), ["a"], 0.04]
            await context.store.create_experiment(*names, instance=name, batch_size=config.batch_size, labels=["mean"])
        x, y = made
        first, other = context.dispatcher(x), context.dispatcher(y)
        assert context.dispatcher(x) is first
        pick = (await first.ask(AskRequest(worker="one"))).picks[0]
        monkeypatch.setattr(context_module, "RESTED", 0.0)
        assert context.dispatcher(y) is other, "the one that is called stays"
        monkeypatch.undo()
        anew = context.dispatcher(x)
        assert anew is not first
        assert (await anew.ask(AskRequest(worker="one", request_id=pick.request_id))).picks == [pick]
