"""Metrics that add up to what clients did, logs with ids, and a readiness that means it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import httpx
import numpy as np
import pytest
import yaml
from prometheus_client import REGISTRY
from redis import Redis

import optimist.insight.metrics
from optimist.store import running_url
from optimist_client import Optimist, tensors
from tests.support.places import ROOT
from tests.support.processes import Service, batch_path, scored, scraped, serving, until

MONITORING = ROOT / "deploy" / "monitoring"
REFERENCE = (np.zeros(4), np.eye(4))


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    options = ("--log-format=json", "--log-requests")
    with serving(tmp_path_factory.mktemp("insight"), *options) as service:
        yield service


@pytest.mark.long
def test_counters_add_up_to_what_clients_did(fresh: Service):
    with Optimist(fresh.url) as client, httpx.Client(base_url=fresh.url) as http:
        experiment = client.create_experiment("counted", ["a", "b"], reference=REFERENCE, stop=False)
        short = client.create_experiment("short", ["a"], reference=REFERENCE, lease=1.0)
        late = short.ask()
        for worker in ("w", "x", "y"):
            pick = experiment.ask(worker=worker)
            body = tensors.encode({"features": np.random.default_rng(pick.seed).standard_normal((pick.size, 4))})
            path = batch_path(pick)
            for _ in range(2):  # the second is a duplicate
                http.post(path, content=body, headers={"content-type": tensors.MEDIA_TYPE}).raise_for_status()
            wrong = http.post(path, json={"features": [[1.0, 2.0]]})
            assert wrong.status_code == 422
        assert http.get("/v1/experiments/nobody").status_code == 404
        assert http.get("/nowhere").status_code == 404
        http.post(
            "/v1/experiments/counted/generators/a/batches",
            json={"features": [[0.0] * 4] * 7},
            headers={"idempotency-key": "k"},
        ).raise_for_status()
        until(lambda: short.report().open_picks == 0)
        late.tell(np.zeros((late.size, 4)))
        scored(experiment)
        scored(short)
        reports = [experiment.report(), short.report()]
        until(lambda: scraped(fresh.url)("optimist_log_entries") == 5)
    total = scraped(fresh.url)
    assert total("optimist_tells_total", kind="pick") == 4
    assert total("optimist_tells_total", kind="append") == 1
    assert total("optimist_tells_total") == sum(report.rounds for report in reports)
    assert total("optimist_samples_total") == sum(report.samples for report in reports)
    assert total("optimist_tells_late_total") == 1
    assert total("optimist_tells_duplicate_total") == 3
    assert total("optimist_asks_total") == total("optimist_picks_total") == 4
    assert total("optimist_refused_total", reason="invalid") == 3
    assert total("optimist_refused_total", reason="not-found") == 6, "two, and what the SDK looks up first"
    tell = "/v1/experiments/{name}/picks/{number}/batch"
    assert total("optimist_requests_total", route=tell, status="200") == 7
    assert total("optimist_requests_total", route=tell, status="422") == 3
    assert total("optimist_request_seconds_count", route=tell) == 10
    assert total("optimist_requests_total", route="other", status="404") == 1
    assert total("optimist_scoring_seconds_count", metric="fid") >= 2
    assert (total("optimist_experiments"), total("optimist_generators")) == (2, 3)
    assert total("optimist_log_bytes") > 0
    assert total("optimist_redis_memory_bytes") > 0
    assert total("optimist_redis_latency_seconds") > 0


def test_no_label_names_what_is_a_tenants(fresh: Service):
    with Optimist(fresh.url) as client:
        client.create_experiment("secret-name", ["secret-generator"], metric="is", dimension=3)
        client.experiment("secret-name").ask(worker="secret-worker").tell(np.eye(3))
    assert "secret" not in httpx.get(f"{fresh.url}/metrics").text


def test_requests_are_logged_with_their_ids(fresh: Service):
    given = httpx.get(f"{fresh.url}/v1/references", headers={"x-request-id": "mine-1"})
    assert given.headers["x-request-id"] == "mine-1"
    made = httpx.get(f"{fresh.url}/v1/references/nobody", headers={"x-request-id": "not\tmine"})
    assert len(made.headers["x-request-id"]) == 32

    def logged() -> dict[str, dict]:
        lines = [json.loads(line) for line in fresh.log().splitlines() if line.startswith("{")]
        return {line["request_id"]: line for line in lines if line["logger"] == "optimist.requests"}

    until(lambda: {"mine-1", made.headers["x-request-id"]} <= logged().keys())
    mine = logged()["mine-1"]
    assert (mine["method"], mine["path"], mine["status"]) == ("GET", "/v1/references", 200)
    assert logged()[made.headers["x-request-id"]]["status"] == 404


def test_why_an_ask_got_no_pick_is_logged(fresh: Service):
    with Optimist(fresh.url) as client:
        client.create_experiment("full", ["a"], metric="is", dimension=3, batch_size=4, budget=4)
    asked = [httpx.post(f"{fresh.url}/v1/experiments/full/picks", json={"worker": worker}) for worker in "uv"]
    assert asked[1].json()["waited_for"] == "samples"
    given = {asked[0].headers["x-request-id"]: None, asked[1].headers["x-request-id"]: "samples"}

    def logged() -> dict[str, str | None]:
        lines = [json.loads(line) for line in fresh.log().splitlines() if line.startswith("{")]
        return {line["request_id"]: line.get("waited_for") for line in lines if line.get("request_id") in given}

    until(lambda: logged() == given)


def test_ready_means_that_redis_takes_writes(fresh: Service):
    url = running_url(fresh.directory)
    assert url is not None
    with Redis.from_url(url) as redis:
        assert httpx.get(f"{fresh.url}/readyz").status_code == 200
        redis.config_set("maxmemory", "1")
        until(lambda: httpx.get(f"{fresh.url}/readyz").status_code == 503)
        assert httpx.get(f"{fresh.url}/healthz").status_code == 200
        redis.config_set("maxmemory", "0")
        until(lambda: httpx.get(f"{fresh.url}/readyz").status_code == 200)


def names_of_metrics() -> set[str]:
    assert optimist.insight.metrics
    found = set()
    for family in REGISTRY.collect():
        kinds = {"counter": ["_total"], "histogram": ["_bucket", "_sum", "_count"]}.get(family.type, [""])
        found |= {family.name + kind for kind in kinds}
    return found


def words(expression: str) -> set[str]:
    return set(re.findall(r"\boptimist_\w+", expression))


def test_dashboard_and_alerts_name_metrics_that_exist():
    board = json.loads((MONITORING / "grafana-dashboard.json").read_text())
    asked = {word for panel in board["panels"] for target in panel.get("targets", []) for word in words(target["expr"])}
    alerts = yaml.safe_load((MONITORING / "alerts.yaml").read_text())
    rules = [rule for group in alerts["groups"] for rule in group["rules"]]
    assert all({"alert", "expr", "labels", "annotations"} <= rule.keys() for rule in rules)
    asked |= {word for rule in rules for word in words(rule["expr"])}
    assert len(asked) > 20
    assert asked <= names_of_metrics()
