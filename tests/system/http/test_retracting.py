"""Retraction over HTTP, with a real scorer: after everything went wrong all is as if the batch had not been told."""

from __future__ import annotations

import time
from typing import Any

import httpx
import numpy as np
import pytest

from optimist_client import Optimist, tensors
from tests.support.processes import TENSORS, Service

ABSURD = np.full((20, 4), 9e5)


@pytest.fixture
def http(service: Service):
    with httpx.Client(base_url=f"{service.url}/v1/experiments/", verify=False) as connected:
        yield connected


def played(client: Optimist, name: str, reference: Any, **config: Any):
    return client.create_experiment(name, ["a", "b"], reference=reference, rescore_growth=0.0, **config)


def append(http: httpx.Client, name: str, generator: str, batch: np.ndarray, key: str) -> None:
    body, headers = tensors.encode({"features": batch}), TENSORS | {"idempotency-key": key}
    assert http.post(f"{name}/generators/{generator}/batches", content=body, headers=headers).status_code == 200


def scored(http: httpx.Client, name: str) -> dict[str, Any]:
    deadline = time.monotonic() + 60
    while not (report := http.get(f"{name}/report").json())["scored"]:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return report


def numbers(report: dict[str, Any]) -> list[Any]:
    return [
        [row[key] for key in ("score", "standard_error", "lower", "upper", "samples")] for row in report["standings"]
    ]


def batches(shift: float, seeds: range) -> list[np.ndarray]:
    return [np.random.default_rng(seed).normal(shift, 1.0, (20, 4)) for seed in seeds]


def test_an_absurd_batch_decides_wrongly_and_is_retracted(client: Optimist, http: httpx.Client, name: str, reference):
    absurd, never = (played(client, each, reference, batch_size=20) for each in (name, f"{name}-never"))
    bad = absurd.ask(generators=["a"])
    assert bad is not None
    bad.tell(ABSURD)
    for experiment in (absurd, never):
        for generator, shift in (("a", 0.0), ("b", 3.0)):
            for number, batch in enumerate(batches(shift, range(12))):
                append(http, experiment.name, generator, batch, f"{generator} {number}")
    wrong = scored(http, name)
    assert wrong["decision"]["best"] == "b"
    assert wrong["state"] == "decided"

    path = f"{name}/picks/{bad.number}/batch"
    reply = http.request("DELETE", path, json={"reason": "wrong checkpoint"})
    assert reply.status_code == 200
    one = {"generator": "a", "position": 1, "pick": bad.number, "samples": 20}
    assert reply.json() == {"retracted": [one], "already": False, "decision_reopened": True}
    assert http.delete(path).json() == {"retracted": [one], "already": True, "decision_reopened": True}

    right, expected = scored(http, name), scored(http, f"{name}-never")
    assert numbers(right) == numbers(expected)
    assert right["decision"]["best"] == "a"
    assert (right["samples"], right["rounds"]) == (expected["samples"] + 20, expected["rounds"] + 1)
    assert right["regret"] == expected["regret"]
    [shown] = right["retractions"]
    assert shown.pop("when") > 1.7e9
    assert shown == one | {"who": None, "reason": "wrong checkpoint", "reopened": True}
    assert "retractions" not in expected


def test_what_is_refused_says_what_is_possible(client: Optimist, http: httpx.Client, name: str, reference):
    experiment = played(client, name, reference)
    pick = experiment.ask()
    assert pick is not None
    waiting = http.delete(f"{name}/picks/{pick.number}/batch")
    assert (waiting.status_code, waiting.json()["type"]) == (409, "urn:optimist:problem:not-retractable")
    assert http.delete(f"{name}/picks/99/batch").status_code == 404
    assert http.delete(f"{name}/generators/c/batches").status_code == 404
    assert http.delete(f"{name}/generators/a/batches/7").status_code == 404
    long = http.request("DELETE", f"{name}/generators/a/batches", json={"reason": "x" * 1025})
    assert long.status_code == 422
    assert http.delete(f"{name}/generators/a/batches").json()["retracted"] == []

    batch = np.random.default_rng(0).normal(size=(pick.size, 4))
    pick.tell(batch)
    assert http.delete(f"{name}/picks/{pick.number}/batch").status_code == 200
    for rows in (batch, batch + 1):
        body = tensors.encode({"features": rows})
        told = http.post(
            f"{name}/picks/{pick.number}/batch", params={"nonce": pick.info.nonce}, content=body, headers=TENSORS
        )
        assert (told.status_code, told.json()["type"]) == (409, "urn:optimist:problem:retracted")


def test_a_whole_generator_begins_anew_and_an_archive_takes_it_along(
    client: Optimist, http: httpx.Client, name: str, reference, tmp_path
):
    kept = played(client, name, reference, keep_log=True)
    for generator, shift in (("a", 5.0), ("b", 1.0)):
        for number, batch in enumerate(batches(shift, range(4))):
            append(http, kept.name, generator, batch, f"{generator} {number}")
    reply = http.delete(f"{name}/generators/a/batches").json()
    assert reply["retracted"] == [{"generator": "a", "position": None, "pick": None, "samples": 80}]
    for number, batch in enumerate(batches(0.0, range(3))):
        append(http, kept.name, "a", batch, f"again {number}")
    http.delete(f"{name}/generators/a/batches/7")
    before = scored(http, name)
    assert before["standings"][0]["samples"] == 40
    assert before["decision"]["best"] == "a"

    kept.export(tmp_path / "file.zip")
    client.import_experiment(tmp_path / "file.zip", f"{name}-again")
    after = scored(http, f"{name}-again")
    assert numbers(after) == numbers(before)
    assert after["retractions"] == before["retractions"]
    for each in (name, f"{name}-again"):
        append(http, each, "a", batches(0.0, range(9, 10))[0], "after")
    assert numbers(scored(http, f"{name}-again")) == numbers(scored(http, name))
    assert http.delete(f"{name}-again/generators/a/batches/6").status_code == 200
    assert scored(http, f"{name}-again")["standings"][0]["samples"] == 40


def test_only_admins_retract():
    from optimist.api.middleware.keys import _role

    assert _role("DELETE", "/picks/1/batch") == _role("DELETE", "/generators/a/batches") == "admin"
    assert _role("DELETE", "/picks/1") == _role("POST", "/picks/1/batch") == "worker"
