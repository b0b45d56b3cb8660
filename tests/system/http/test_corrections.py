"""Batches that are retracted or accepted, one or several at once, and what the report would then be, by a trial."""

from __future__ import annotations

import httpx
import numpy as np
import pytest

from optimist_client import Experiment, Optimist
from optimist_client.models import Report
from tests.support.processes import Service, append_batch, scored

NAMES = ["good", "b/ad"]
WORKER = 'gpu "02" \\ ü'
WRONG = {("b/ad", 2), ("b/ad", 3)}


def made(client: Optimist, name: str, **more: object) -> Experiment:
    """Told by two workers, of which one brings some batches on the scale of pixels."""
    how: dict[str, object] = {"reference": (np.zeros(8), np.eye(8)), "batch_size": 10, "seed": 1, "grow": False}
    experiment = client.create_experiment(name, NAMES, **(how | more))
    for position in range(1, 9):
        for generator in NAMES:
            is_wrong = (generator, position) in WRONG
            pick = experiment.ask(worker=WORKER if is_wrong else "gpu-01", generators=[generator])
            rows = np.random.default_rng(pick.seed).standard_normal((pick.size, 8))
            pick.tell((255.0 if is_wrong else 1.0) * (rows + 0.3 * (generator == "b/ad")))
    return experiment


def correct(
    service: Service, name: str, expected: int = 200, *, trial: bool = False, **wanted: object
) -> httpx.Response:
    url = f"{service.url}/v1/experiments/{name}/corrections"
    reply = httpx.post(url, params={"trial": trial}, json=wanted, timeout=60)
    assert reply.status_code == expected, reply.text
    return reply


def batches(report: Report) -> list[dict[str, object]]:
    return [{"generator": one.generator, "position": one.position} for one in report.anomalies]


def said(report: Report) -> object:
    """What a report says of scores and of the decision."""
    return report.answer, report.standings, report.decision, report.contrasts, report.watched


def test_a_trial_says_exactly_what_follows_and_changes_nothing(client: Optimist, name: str, service: Service):
    experiment = made(client, name, stop=False)
    before = scored(experiment)
    assert {(one.generator, one.position) for one in before.anomalies} == WRONG
    assert {one.worker for one in before.anomalies} == {WORKER}
    tried = Report.model_validate_json(correct(service, name, trial=True, retract=batches(before), reason="r").content)
    assert tried.experiment == name
    assert tried.scored
    assert said(scored(experiment)) == said(before) != said(tried)
    assert (experiment.report().retractions, len(tried.retractions)) == ([], 2)
    assert [one for one in client.experiments() if name not in one and len(one) == 32] == []
    correct(service, name, retract=batches(before), reason="the wrong loader")
    after = scored(experiment)
    assert said(after) == said(tried)
    assert [one.reason for one in after.retractions] == ["the wrong loader"] * 2
    assert after.anomalies == []


def test_a_trial_of_acceptances_says_what_the_decision_would_be(client: Optimist, name: str, service: Service):
    experiment = made(client, name, stop=False)
    experiment.resume(stop=True)
    before = scored(experiment)
    assert before.decision.unless.startswith("unless batches 2 and 3 of b/ad are wrong")
    tried = Report.model_validate_json(correct(service, name, trial=True, accept=batches(before)).content)
    assert (tried.decision.unless, tried.answer) == ("", before.answer.replace(f", {before.decision.unless}", ""))
    assert scored(experiment).answer == before.answer
    correct(service, name, accept=batches(before))
    assert scored(experiment).answer == tried.answer


@pytest.mark.parametrize("trial", [True, False])
def test_what_cannot_be_retracted_is_refused(client: Optimist, name: str, service: Service, trial: bool):
    experiment = made(client, name, stop=False)
    before = scored(experiment)
    unknown = {"generator": "good", "position": 99}
    reply = correct(service, name, 404, trial=trial, retract=[unknown])
    assert reply.json()["detail"] == "generator good has no batch at position 99"
    correct(service, name, 404, trial=trial, retract=[{"generator": "nobody", "position": 1}])
    correct(service, name, 422, trial=trial, retract=[{"generator": "good", "position": 0}])
    correct(service, name, 404, trial=trial, accept=[unknown])
    assert said(scored(experiment)) == said(before)


def append(service: Service, name: str, generator: str, shift: float, seeds: range) -> None:
    for seed in seeds:
        batch = np.random.default_rng(seed).normal(shift, 1.0, (20, 4))
        append_batch(service.url, name, generator, {"features": batch}).raise_for_status()


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
