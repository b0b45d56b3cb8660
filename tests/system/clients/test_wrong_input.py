"""Wrong input is refused by the SDK or by the service with what was expected, and changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import numpy as np
import pytest
from redis import Redis

from optimist.archive.contents import TOLD
from optimist.store import running_url
from optimist.store.keys import experiment_key
from optimist_client import Experiment, FixError, Optimist, Pick
from tests.support.processes import Service

CONFIG: dict[str, Any] = {"metric": "is", "dimension": 2, "batch_size": 3}
ROWS = np.full((3, 2), 0.5)


@pytest.fixture
def experiment(client: Optimist, name: str) -> Experiment:
    return client.create_experiment(name, ["a", "b"], **CONFIG)


@pytest.fixture
def pick(experiment: Experiment) -> Pick:
    return experiment.ask()


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda pick: pick.tell(ROWS[:, :1]), r"expected shape \(n, 2\), got \(3, 1\)"),
        (lambda pick: pick.tell(np.full((3, 2), 0.7)), "expected"),
        (lambda pick: pick.tell(np.full((3, 2), -0.5)), "expected"),
        (lambda pick: pick.tell([["x", "y"]]), "expected"),
        (lambda pick: pick.tell({"other": ROWS}), "expected"),
        (lambda pick: pick.tell(ROWS, ids=["a"]), "expected"),
        (lambda pick: pick.tell(ROWS, ids=["a\0", "b", "c"]), "expected"),
    ],
)
def test_batches(pick: Pick, experiment: Experiment, call: Callable[[Pick], object], said: str):
    before = experiment.report()
    with pytest.raises(FixError, match=said):
        call(pick)
    assert experiment.report() == before
    pick.tell(ROWS)
    assert experiment.report().samples == 3


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda experiment: experiment.add_generator("a\u200b"), "name: expected text without .* invisible"),
        (lambda experiment: experiment.add_generator(""), "name: expected text of at least 1 character"),
        (lambda experiment: experiment.set_state("c", "paused"), "generator"),
        (lambda experiment: experiment.set_state("a", "asleep"), "expected"),
        (lambda experiment: experiment.retract(generator="a", position=7), "has no batch at position 7"),
        (lambda experiment: experiment.retract(pick=99), "pick 99 was never made"),
        (lambda experiment: experiment.accept(generator="c"), "has no generator 'c'"),
    ],
)
def test_changes(experiment: Experiment, call: Callable[[Experiment], object], said: str):
    before = experiment.report()
    with pytest.raises(FixError, match=said):
        call(experiment)
    assert experiment.report() == before


def test_names_with_invisible_characters(service: Service, name: str):
    body = {"name": name, "generators": ["a", "a\u3164"], "metric": {"name": "is", "dimension": 2}}
    answer = httpx.post(f"{service.url}/v1/experiments", json=body)
    assert answer.status_code == 422
    assert "invisible characters" in answer.json()["detail"]
    assert httpx.get(f"{service.url}/v1/experiments/{name}").status_code == 404


def test_exports_of_too_many_told_runs(service: Service, experiment: Experiment):
    url, path = running_url(service.directory), f"{service.url}/v1/experiments/{experiment.name}/export"
    with Redis.from_url(url) as redis:
        told = f"{experiment_key(experiment.name, 'told')}:0"
        redis.zadd(told, {f"{2 * run} {2 * run + 1}": 2 * run + 1 for run in range(TOLD)})
        assert httpx.get(path).status_code == 200
        redis.zadd(told, {f"{2 * TOLD} {2 * TOLD + 1}": 2 * TOLD + 1})
        answer = httpx.get(path)
        redis.delete(told)
    assert answer.status_code == 422
    assert "'a': expected at most 16,384 runs of indices that were told" in answer.json()["detail"]
    assert answer.json()["action"] == "fix"
