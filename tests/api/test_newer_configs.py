"""An experiment whose config has a field that this version does not know is refused, and says which."""

from __future__ import annotations

import json

import pytest

from optimist.api.context import Context
from optimist.api.problems import ApiError
from optimist.api.redis_health import RedisHealth
from optimist.settings import Settings
from optimist.store import Store
from tests.support.configs import config_of, experiment_of


async def test_an_unknown_field_is_left_to_newer_processes(store: Store):
    config = config_of(name="x", generators=["a", "b"], metric="is", dimension=3)
    known = json.loads(experiment_of(config).model_dump_json())
    known["config"]["of_tomorrow"] = 1
    await store.create_experiment("x", json.dumps(known), ["a", "b"], 0.0, instance="i", labels=[""])
    settings = Settings.model_validate({})
    with pytest.raises(ApiError, match=r"config\.of_tomorrow: unknown field") as refused:
        await Context(store, settings, RedisHealth(store, settings)).experiment("x")
    assert (refused.value.problem.status, refused.value.problem.action) == (503, "retry")
