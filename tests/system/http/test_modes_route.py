"""Modes that cannot be made, or not yet: said at once, and a scorer is not troubled with them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import httpx
import numpy as np
import pytest
from redis import Redis

from optimist.store import running_url
from optimist_client import Experiment, FixError, Optimist
from tests.support.processes import Service, append_batch, until

CONFIG = {"metric": "rke", "dimension": 2, "kernel": {"sigma": 1.0, "features": 8}}


def append(service: Service, experiment: Experiment, generator: str, rows: int, key: str = "key") -> httpx.Response:
    features = np.random.default_rng(rows).standard_normal((rows, 2))
    return append_batch(service.url, experiment.name, generator, {"features": features}, key)


def test_samples_that_no_pick_asked_for_are_called_by_their_place_in_the_log(
    service: Service, client: Optimist, name: str
):
    experiment = client.create_experiment(name, ["a", "b"], **CONFIG)
    for key in ("x", "y"):
        assert append(service, experiment, "a", 3, key).json()["duplicate"] is False
    shown = {sample.id for mode in experiment.modes("a", count=20).modes for sample in mode.samples}
    assert shown == {f"@{seq}:{row}" for seq in (1, 2) for row in range(3)}


def test_before_the_kernel_is_fixed_it_is_said_what_that_takes(service: Service, client: Optimist, name: str):
    config = {**CONFIG, "kernel": {"sigma": "median", "features": 8}}
    experiment = client.create_experiment(name, ["a", "b"], **config)
    append(service, experiment, "a", 100)
    with pytest.raises(FixError, match=r"not fixed yet: it takes 28 more samples of 'a', 128 more samples of 'b'$"):
        experiment.modes("a")
    append(service, experiment, "b", 128)
    with pytest.raises(FixError, match=r"it takes 28 more samples of 'a'$"):
        experiment.modes("b")
    append(service, experiment, "a", 28, "another")
    assert experiment.modes("b").samples == 128


def test_who_waits_for_modes_of_an_experiment_that_is_made_again_is_told_so(not_scoring: Service, name: str):
    url = running_url(not_scoring.directory)
    with (
        Optimist(not_scoring.url) as client,
        Redis.from_url(url) as redis,
        redis.pubsub() as listening,
        ThreadPoolExecutor(1) as pool,
    ):
        append(not_scoring, client.create_experiment(name, ["a", "b"], **CONFIG), "b", 5)
        listening.subscribe("optimist:wanted")
        waiting = pool.submit(httpx.get, f"{not_scoring.url}/v1/experiments/{name}/generators/b/modes", timeout=60)
        until(lambda: (listening.get_message() or {}).get("type") == "message")
        client.delete_experiment(name)
        append(not_scoring, client.create_experiment(name, ["a"], **CONFIG), "a", 5)
        assert waiting.result().status_code == 404
        assert "Traceback" not in not_scoring.log()
