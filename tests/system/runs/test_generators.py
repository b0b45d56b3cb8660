"""Experiments that change while workers run: generators, budgets, stops, batches without a pick, instances, leases."""

from __future__ import annotations

import threading
import time
from typing import Any

import httpx
import numpy as np
import pytest

from optimist_client import ConflictError, Experiment, NotFoundError, Optimist, Pick, tensors
from optimist_client.models import Standing
from tests.support.processes import Service, scored

SHIFTS = {"good": 0.0, "bad": 1.0, "worse": 2.0}


@pytest.fixture
def experiment(client: Optimist, name: str, reference) -> Experiment:
    return client.create_experiment(name, ["a", "b"], reference=reference, seed=1, stop=False)


def rows(pick: Pick) -> np.ndarray:
    rng = np.random.default_rng(pick.seed)
    return rng.standard_normal((pick.size, 4)) + SHIFTS.get(pick.generator, 0.5)


def run(experiment: Experiment, samples: int | None = None) -> list[str]:
    """Work until the end or so many samples; the generators that were asked for."""
    asked = []
    for pick in experiment.picks(samples):
        asked.append(pick.generator)
        pick.tell(rows(pick))
    return asked


def rows_of(experiment: Experiment) -> dict[str, Standing]:
    return {standing.generator: standing for standing in scored(experiment).standings}


def ask(http: httpx.Client, name: str, **request: Any) -> dict[str, Any]:
    return http.post(f"/v1/experiments/{name}/picks", json=request).raise_for_status().json()


def append(http: httpx.Client, path: str, batch: np.ndarray, **headers: str) -> httpx.Response:
    body = tensors.encode({"features": batch})
    headers = {"content-type": tensors.MEDIA_TYPE, **{name.replace("_", "-"): value for name, value in headers.items()}}
    return http.post(f"/v1/experiments/{path}/batches", content=body, headers=headers)


@pytest.mark.long
def test_a_generator_that_joins_while_workers_run_is_warmed_up_and_can_win(client: Optimist, name: str, reference):
    experiment = client.create_experiment(name, ["bad", "worse"], reference=reference, budget=4_000, stop=False)
    workers = [threading.Thread(target=run, args=(client.experiment(name),)) for _ in range(3)]
    for worker in workers:
        worker.start()
    while experiment.report().rounds < 30:
        time.sleep(0.02)
    report = experiment.add_generator("good")
    assert [standing.generator for standing in report.standings] == ["bad", "worse", "good"]
    assert experiment.add_generator("good").standings[2].generator == "good", "again is as good as once"
    experiment.resume(stop=True)
    for worker in workers:
        worker.join(60)
        assert not worker.is_alive()
    report = experiment.report()
    assert (report.state, report.decision.best) == ("decided", "good")
    assert report.standings[2].samples >= 20
    assert report.open_picks == 0


@pytest.mark.long
def test_paused_generators_come_back_and_retired_ones_are_out_for_good(client: Optimist, name: str, reference):
    experiment = client.create_experiment(name, ["good", "bad", "worse"], reference=reference, stop=False)
    run(experiment, 100)
    pick = experiment.ask(worker="somebody", generators=["good"])
    before = rows_of(experiment)["good"].samples
    assert experiment.set_state("good", "paused").standings[0].state == "paused"
    assert set(run(experiment, 50)) <= {"bad", "worse"}
    assert experiment.ask(worker="somebody").number == pick.number, "its own pick back"
    assert pick.tell(rows(pick)).late is False
    after = rows_of(experiment)
    assert after["good"].samples == before + pick.size, "what was on its way counts"
    assert (after["good"].state, after["bad"].state) == ("paused", "active")
    assert experiment.report().decision.best == "good"
    experiment.set_state("worse", "paused")
    for state in ("paused", "retired"):
        with pytest.raises(ConflictError, match="no active generator would remain"):
            experiment.set_state("bad", state)
    for generator in ("good", "worse"):
        experiment.set_state(generator, "active")
    assert "good" in run(experiment, 50)
    told, pick = experiment.report().samples, experiment.ask()
    report = experiment.set_state("good", "retired")
    assert [standing.generator for standing in report.standings] == ["bad", "worse"]
    assert report.decision.best == "bad"
    pick.tell(rows(pick))  # whosever it was: it counts among the experiment's samples
    assert "good" not in run(experiment, 50)
    assert experiment.report().samples == told + pick.size + 50
    assert set(rows_of(experiment)) == {"bad", "worse"}
    with pytest.raises(ConflictError, match="stays retired"):
        experiment.set_state("good", "active")
    with pytest.raises(ConflictError, match="retired"):
        experiment.add_generator("good")
    experiment.resume(stop=True)
    run(experiment)
    assert experiment.report().decision.best == "bad"


def test_unknown_names_and_states_are_refused(client: Optimist, http: httpx.Client, experiment: Experiment):
    with pytest.raises(NotFoundError, match="no generator 'c'"):
        experiment.set_state("c", "paused")
    assert append(http, f"{experiment.name}/generators/c", np.ones((2, 4)), idempotency_key="1").status_code == 404
    assert append(http, "nothing/generators/a", np.ones((2, 4)), idempotency_key="1").status_code == 404
    for method, path, body in (
        ("POST", "nothing/generators", {"name": "c"}),
        ("PATCH", "nothing/generators/a", {"state": "paused"}),
        ("PATCH", "nothing", {"state": "stopped"}),
    ):
        assert http.request(method, f"/v1/experiments/{path}", json=body).status_code == 404
    for path, body in (
        ("generators/a", {}),
        ("", {"state": "decided"}),
        ("", {"budget": 0}),
        ("", {"max_wait": -1}),
        ("", {"batch_size": 3}),
    ):
        assert http.patch(f"/v1/experiments/{experiment.name}/{path}".rstrip("/"), json=body).status_code == 422


def test_names_of_generators_may_hold_anything_that_prints(client: Optimist, http: httpx.Client, name: str, reference):
    odd = ["a/b", "a/b/batches", "ü?x=1#y", "modes"]
    experiment = client.create_experiment(name, ["a"], reference=reference)
    for generator in odd:
        experiment.add_generator(generator)
    for generator in odd:
        report = experiment.set_state(generator, "paused")
        assert {row.generator for row in report.standings if row.state == "paused"} == {generator}
        experiment.set_state(generator, "active")
    for key, generator in enumerate(odd[:2]):
        reply = append(http, f"{name}/generators/{generator}", np.ones((2, 4)), idempotency_key=f"{key}")
        assert (reply.status_code, reply.json()["generator"]) == (200, generator)


def test_a_batch_without_a_pick_counts_once_for_its_key(http: httpx.Client, experiment: Experiment):
    path = f"{experiment.name}/generators/a"
    batch = np.random.default_rng(0).standard_normal((30, 4))
    first = append(http, path, batch, idempotency_key="mine")
    assert (first.status_code, first.json()["duplicate"], first.json()["pick"]) == (200, False, 0)
    again = append(http, path, batch.copy(), idempotency_key="mine")
    assert again.json() == {**first.json(), "duplicate": True}
    assert append(http, path, batch + 1, idempotency_key="mine").status_code == 409
    missing = append(http, path, batch)
    assert (missing.status_code, "idempotency-key" in missing.json()["detail"]) == (422, True)
    assert append(http, path, batch, idempotency_key="other").json()["position"] == 2
    found = rows_of(experiment)["a"]
    assert (found.samples, found.batches, found.scored_samples, experiment.report().rounds) == (60, 2, 60, 2)


def test_a_stopped_experiment_answers_asks_with_its_state_until_it_goes_on(
    http: httpx.Client, experiment: Experiment, name: str
):
    pick = experiment.ask()
    report = experiment.stop()
    assert (report.state, report.ended, report.open_picks) == ("stopped", True, 1)
    reply = ask(http, name)
    assert (reply["picks"], reply["state"], reply["ended"], reply["retry_after"]) == ([], "stopped", True, None)
    assert experiment.ask() is None
    pick.tell(rows(pick))
    assert experiment.report().samples == pick.size
    assert experiment.resume().state != "stopped"
    assert experiment.ask() is not None


def test_a_budget_can_be_extended_and_waiting_changed(client: Optimist, http: httpx.Client, name: str, reference):
    experiment = client.create_experiment(name, ["a", "b"], reference=reference, budget=20, stop=False)
    run(experiment)
    assert (experiment.report().state, experiment.report().samples) == ("out of budget", 20)
    assert experiment.resume(budget=33).budget == 33
    sizes = [pick.size for pick in experiment.picks() if pick.tell(rows(pick))]
    assert sizes == [5, 5, 3]
    assert experiment.report().state == "out of budget"
    assert http.patch(f"/v1/experiments/{name}", json={"max_wait": 0.5, "budget": 40}).json()["budget"] == 40
    assert http.patch(f"/v1/experiments/{name}", json={}).json()["budget"] == 40, "what is left out stays"
    assert http.post("/v1/experiments", json=experiment.info.config.model_dump()).status_code == 200


def test_a_decision_stands_until_it_is_reopened(client: Optimist, name: str, reference):
    experiment = client.create_experiment(name, ["good", "worse"], reference=reference, budget=4_000)
    run(experiment)
    decided = experiment.report()
    assert (decided.state, decided.decision.best) == ("decided", "good")
    assert experiment.stop().decision == decided.decision
    assert experiment.report().state == "decided"
    report = experiment.resume()
    assert (report.state, report.ended) == ("running", False)
    assert len(run(experiment, 50)) == 10, "it runs on without deciding again"
    assert experiment.resume(stop=True).state in ("running", "decided")
    assert experiment.ask() is None
    assert experiment.report().state == "decided"


def test_a_worker_gets_only_generators_it_can_sample(http: httpx.Client, experiment: Experiment, name: str):
    for _ in range(6):
        reply = ask(http, name, generators=["b", "not in this experiment"], count=2)
        assert [pick["generator"] for pick in reply["picks"]] == ["b", "b"]
        assert reply["picks"][0]["excluded"] == ["a"]
    experiment.set_state("b", "paused")
    reply = ask(http, name, generators=["b"])
    assert (reply["picks"], reply["ended"], reply["retry_after"] > 0) == ([], False, True)
    assert http.post(f"/v1/experiments/{name}/picks", json={"generators": []}).status_code == 422


def test_asks_that_wait_survive_what_changes_meanwhile(not_scoring: Service, name: str, reference):
    """Nothing is scored here, so whoever asks waits as long as it may, once each could have an estimate."""
    with Optimist(not_scoring.url, patience=20) as client:
        experiment = client.create_experiment(name, ["a", "b"], reference=reference, max_wait=1.5, warmup=1)
        for _ in range(8):
            pick = experiment.ask()
            assert pick.info.stale is False
            pick.tell(rows(pick))
        answers: list[Pick | None] = []
        waiting = threading.Thread(target=lambda: answers.append(experiment.ask(generators=["a", "b"])))
        waiting.start()
        time.sleep(0.5)
        experiment.add_generator("c")
        waiting.join(20)
        assert answers[0].info.stale is True
        # The first pick of one that has joined rests on no estimate.
        joined = experiment.ask()
        assert (joined.generator, joined.info.stale) == ("c", False)
        # Nobody waits for the estimates of those that are out of the contest.
        for generator in "ab":
            experiment.set_state(generator, "retired")
        following = experiment.ask()
        assert following.info.stale is False
        assert experiment.report().scored is True


def test_names_that_would_be_shown_as_others_are_refused(experiment: Experiment, http: httpx.Client, name: str):
    """All such letters: tests/sdk/test_wrong_configs.py."""
    at = f"/v1/experiments/{name}"
    for letter, note in (("\x9b", "\n"), ("\u202e", "a line\nand \u202e")):
        deceiving = f"good{letter}bad"
        generator = http.post(f"{at}/generators", json={"name": deceiving})
        for answer, field in (
            (generator, "name"),
            (http.patch(at, json={"tags": [deceiving]}), "tags.0"),
            (http.post(f"{at}/picks", json={"worker": deceiving}), "worker"),
            (http.post("/v1/references", params={"name": "r", "embedding": deceiving}, json={}), "embedding"),
        ):
            assert answer.status_code == 422
            assert f"{field}: expected text without control characters, line separators" in answer.json()["detail"]
        http.patch(at, json={"note": note}).raise_for_status()
    assert [one.generator for one in experiment.report().standings] == ["a", "b"]
