"""Retraction over HTTP, with a real scorer: after everything went wrong all is as if the batch had not been told."""

from __future__ import annotations

from typing import Any

import httpx
import numpy as np

from optimist_client import Optimist
from optimist_client.models import Report
from tests.support.processes import Service, append_batch, scored


def append(service: Service, name: str, generator: str, shift: float, seeds: range) -> None:
    for seed in seeds:
        batch = np.random.default_rng(seed).normal(shift, 1.0, (20, 4))
        append_batch(service.url, name, generator, {"features": batch}).raise_for_status()


def numbers(report: Report) -> list[Any]:
    return [(row.score, row.standard_error, row.lower, row.upper, row.samples) for row in report.standings]


def test_an_absurd_batch_decides_wrongly_and_is_retracted(client: Optimist, service: Service, name: str, reference):
    absurd, never = (
        client.create_experiment(each, ["a", "b"], reference=reference, rescore_growth=0.0, batch_size=20)
        for each in (name, f"{name}-never")
    )
    bad = absurd.ask(generators=["a"])
    bad.tell(np.full((20, 4), 9e5))
    for experiment in (absurd, never):
        append(service, experiment.name, "a", 0.0, range(12))
        append(service, experiment.name, "b", 3.0, range(12))
    wrong = scored(absurd)
    assert (wrong.state, wrong.decision.best) == ("decided", "b")

    url = f"{service.url}/v1/experiments/{name}/picks/{bad.number}/batch"
    one = {"generator": "a", "position": 1, "pick": bad.number, "samples": 20}
    reply = httpx.request("DELETE", url, json={"reason": "wrong checkpoint"})
    assert reply.json() == {"retracted": [one], "already": False, "decision_reopened": True}
    assert httpx.delete(url).json() == {"retracted": [one], "already": True, "decision_reopened": True}

    right, expected = scored(absurd), scored(never)
    assert numbers(right) == numbers(expected)
    assert right.decision.best == "a"
    assert (right.samples, right.rounds, right.regret) == (expected.samples + 20, expected.rounds + 1, expected.regret)
    [shown] = httpx.get(f"{service.url}/v1/experiments/{name}/report").json()["retractions"]
    assert shown.pop("when") > 1.7e9
    assert shown == one | {"who": None, "reason": "wrong checkpoint", "reopened": True}
    assert "retractions" not in httpx.get(f"{service.url}/v1/experiments/{name}-never/report").json()

    reply = httpx.delete(f"{service.url}/v1/experiments/{name}/generators/b/batches").json()
    assert reply["retracted"] == [{"generator": "b", "position": None, "pick": None, "samples": 240}]
    append(service, name, "b", 0.0, range(3))
    absurd.retract(generator="b", position=14)
    assert scored(absurd).standings[1].samples == 40
