"""What an API process keeps and reads: its cache, dispatchers, configs, and how it watches Redis."""

from __future__ import annotations

import asyncio
import contextlib
import json

import pytest

from optimist.api import app_state as context_module
from optimist.api.app_state import AppState
from optimist.api.problems import ApiError
from optimist.api.redis_health import RedisHealth
from optimist.cache import Cache
from optimist.settings import Settings
from optimist.store import Store, Usage, connect
from optimist_client.models import AskRequest
from tests.support.configs import config_of, experiment_of


def test_the_oldest_are_forgotten_by_weight():
    known = Cache[str, str](10, len)
    for text in ("aaaa", "bbbb", "cc"):
        assert known.put(text[0], text) == text
    known.put("a", "aaa")
    assert [known.get(key) for key in "abc"] == ["aaa", "bbbb", "cc"]
    known.put("d", "dd")
    assert [known.get(key) for key in "abcd"] == ["aaa", None, "cc", "dd"], "the one that was put first"
    known.put("e", "e" * 20)
    assert [known.get(key) for key in "acde"] == [None, None, None, "e" * 20], "one is kept whatever it weighs"
    assert (known.pop("e"), known.pop("e")) == ("e" * 20, None)
    known.put("f", "f" * 10)
    assert known.get("f") == "f" * 10, "what is gone weighs nothing"


async def test_a_dispatcher_that_rests_is_dropped(store: Store, monkeypatch: pytest.MonkeyPatch):
    context = AppState(store, Settings(), RedisHealth(store, Settings())).in_namespace("default")
    made = []
    for name in ("x", "y"):
        config = config_of(name=name, generators=["a"], metric="mean")
        made.append(experiment_of(config, instance=name))
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


async def test_a_field_of_a_config_that_is_not_known_is_left_to_newer_processes(store: Store):
    config = config_of(name="x", generators=["a", "b"], metric="is", dimension=3)
    known = json.loads(experiment_of(config).model_dump_json())
    known["config"]["of_tomorrow"] = 1
    await store.create_experiment("x", json.dumps(known), ["a", "b"], 0.0, instance="i", labels=[""])
    settings = Settings.model_validate({})
    with pytest.raises(ApiError, match=r"config\.of_tomorrow: unknown field") as refused:
        await AppState(store, settings, RedisHealth(store, settings)).experiment("x")
    assert (refused.value.problem.status, refused.value.problem.action) == (503, "retry")


class Swallowing(Store):
    """Its first call ends well though it was cancelled meanwhile, as redis-py's may."""

    async def usage(self) -> Usage:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(60.0)
        return Usage()


async def test_a_cancellation_that_is_swallowed_ends_the_monitoring():
    redis = connect("redis://127.0.0.1:1")
    redis_health = RedisHealth(Swallowing(redis), Settings(redis_url="redis://127.0.0.1:1"))
    async with asyncio.timeout(10.0):
        async with redis_health.monitoring():
            await asyncio.sleep(0.1)
    await redis.aclose()
