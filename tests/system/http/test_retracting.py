"""Retraction over HTTP, with a real scorer: after everything went wrong all is as if the batch had not been told."""

from __future__ import annotations

from typing import Any

import httpx
import numpy as np

from optimist_client import Experiment, Optimist
from optimist_client.models import Report
from tests.support.processes import Service, append_batch, scored


def played(client: Optimist, name: str, reference: Any, **config: Any) -> Experiment:
    return client.create_experiment(name, ["a", "b"], reference=reference, rescore_growth=0.0, **config)


def append(service: Service, name: str, generator: str, shift: float, seeds: range) -> None:
    for seed in seeds:
        batch = np.random.default_rng(seed).normal(shift, 1.0, (20, 4))
        append_batch(service.url, name, generator, {"features": batch}).raise_for_status()


def numbers(report: Report) -> list[Any]:
    return [(row.score, row.standard_error, row.lower, row.upper, row.samples) for row in report.standings]


def test_an_absurd_batch_decides_wrongly_and_is_retracted(client: Optimist, service: Service, name: str, reference):
    absurd, never = (played(client, each, reference, batch_size=20) for each in (name, f"{name}-never"))
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


def test_a_whole_generator_begins_anew_and_an_archive_takes_it_along(
    client: Optimist, service: Service, name: str, reference, tmp_path
):
    kept = played(client, name, reference, keep_log=True)
    append(service, name, "a", 5.0, range(4))
    append(service, name, "b", 1.0, range(4))
    reply = httpx.delete(f"{service.url}/v1/experiments/{name}/generators/a/batches").json()
    assert reply["retracted"] == [{"generator": "a", "position": None, "pick": None, "samples": 80}]
    append(service, name, "a", 0.0, range(3))
    kept.retract(generator="a", position=7)
    before = scored(kept)
    assert (before.standings[0].samples, before.decision.best) == (40, "a")

    kept.export(tmp_path / "file.zip")
    again = client.import_experiment(tmp_path / "file.zip", f"{name}-again")
    after = scored(again)
    assert (numbers(after), after.retractions) == (numbers(before), before.retractions)
    for experiment in (kept, again):
        append(service, experiment.name, "a", 0.0, range(9, 10))
    assert numbers(scored(again)) == numbers(scored(kept))
    again.retract(generator="a", position=6)
    assert scored(again).standings[0].samples == 40
