"""The HTTP service as a raw client meets it: what it takes, what it refuses, and that refusals store nothing.

Bodies that are wrong in very many places are refused with one short message, not with one for each place.
"""

from __future__ import annotations

import httpx
import numpy as np
import pytest
from redis import Redis

from optimist.archive.contents import TOLD
from optimist.store import running_url
from optimist.store.keys import experiment_key
from optimist_client import Optimist, tensors
from optimist_client.references import moments_of
from tests.support.configs import on_wire
from tests.support.processes import Service, append_batch, batch_path, serving

BATCH = np.random.default_rng(0).standard_normal((5, 4))


@pytest.fixture
def experiment(client: Optimist, name: str, reference):
    return client.create_experiment(name, ["a", "b"], reference=reference, seed=1)


def post(http: httpx.Client, path: str, **arrays: np.ndarray) -> httpx.Response:
    return http.post(path, content=tensors.encode(arrays), headers={"content-type": tensors.MEDIA_TYPE})


def counts(experiment) -> tuple[int, int, int]:
    report = experiment.report()
    return report.samples, report.rounds, report.open_picks


def test_the_same_numbers_in_another_encoding_are_the_same_tell(http: httpx.Client, experiment):
    path = batch_path(experiment.ask())
    halves = BATCH.astype(np.float16)
    assert post(http, path, features=halves).json()["duplicate"] is False
    assert post(http, path, features=halves.astype(np.float64)).json()["duplicate"] is True
    assert http.post(path, json={"features": halves.tolist()}).json()["duplicate"] is True
    assert counts(experiment) == (5, 1, 0)


@pytest.mark.parametrize("rows", [5, 60_000])
def test_scores_may_be_flat(client: Optimist, service: Service, name: str, rows: int):
    experiment = client.create_experiment(name, ["a"], metric="mean")
    append_batch(service.url, name, "a", {"values": np.full(rows, 0.5)}).raise_for_status()
    assert experiment.report().samples == rows


def test_other_numbers_for_a_settled_pick_are_refused(http: httpx.Client, experiment):
    path = batch_path(experiment.ask())
    assert post(http, path, features=BATCH).status_code == 200
    problem = post(http, path, features=BATCH + 1)
    assert problem.status_code == 409
    assert problem.headers["content-type"] == "application/problem+json"
    assert problem.json()["action"] == "fix"
    assert counts(experiment) == (5, 1, 0)


@pytest.mark.parametrize(
    ("arrays", "expected"),
    [
        ({"features": np.full((5, 4), np.nan)}, "finite"),
        ({"features": np.full((5, 4), np.inf)}, "finite"),
        ({"features": np.full((5, 4), np.inf, np.float16)}, "inf in row 0, column 0"),
        ({"features": np.full((5, 4), np.nan, np.float16)}, "finite"),
        ({"features": np.full((5, 4), 1e40)}, "1e+30"),
        ({"features": np.zeros((5, 3))}, "(n, 4)"),
        ({"features": np.zeros((0, 4))}, "at least one row"),
        ({"features": np.zeros((70_000, 4), np.float16)}, "at most 65536 rows"),
        ({"feature": np.zeros((5, 4))}, "features"),
        ({"features": np.zeros((5, 4)), "prompts": np.zeros((5, 4))}, "features"),
        ({}, "features"),
    ],
)
def test_a_bad_batch_is_refused_and_changes_nothing(http: httpx.Client, experiment, arrays, expected):
    pick = experiment.ask()
    problem = post(http, batch_path(pick), **arrays)
    assert problem.status_code == 422
    assert expected in problem.json()["detail"]
    assert counts(experiment) == (0, 0, 1)
    assert pick.tell(BATCH).samples == 5


@pytest.mark.parametrize(
    ("body", "media_type", "status"),
    [
        (tensors.encode({"features": BATCH})[:-1], tensors.MEDIA_TYPE, 422),
        (b"{", "application/json", 422),
        (b"[1, 2]", "application/json", 422),
        (b'{"features": [[1, 2, 3, 4], [1]]}', "application/json", 422),
        (b'{"features": [["1", "2", "3", "4"]]}', "application/json", 422),
        (b'{"features": [[1, 2, 3, NaN]]}', "application/json", 422),
        (b"[" * 100_000, "application/json", 422),
        (b'{"features": \xff}', "application/json", 400),
        (b"1,2,3,4", "text/csv", 415),
    ],
)
def test_an_unreadable_body_is_refused(http: httpx.Client, experiment, body: bytes, media_type: str, status: int):
    path = batch_path(experiment.ask())
    problem = http.post(path, content=body, headers={"content-type": media_type})
    assert problem.status_code == status
    assert problem.json()["detail"]
    assert counts(experiment) == (0, 0, 1)


def test_a_body_over_the_limit_is_refused_however_it_is_sent(tmp_path, reference):
    limit = {"OPTIMIST_MAX_BODY": "2000"}
    with serving(tmp_path, "--no-scoring", environment=limit) as service, Optimist(service.url) as client:
        experiment = client.create_experiment("x", ["a"], reference=reference)
        path = service.url + batch_path(experiment.ask())
        body = tensors.encode({"features": np.zeros((100, 4))})
        for content in (body, iter([body[:1000], body[1000:]])):  # the second is chunked: no length is announced
            problem = httpx.post(path, content=content, headers={"content-type": tensors.MEDIA_TYPE})
            assert problem.status_code == 413
            assert "at most 2000 bytes" in problem.json()["detail"]
        big = httpx.post(f"{service.url}/v1/experiments", json={"name": "y" * 3000})
        assert big.status_code == 413
        assert counts(experiment) == (0, 0, 1)


def test_unknown_names_are_not_found(http: httpx.Client, experiment):
    base = f"/v1/experiments/{experiment.name}/picks"
    for number in (99, 0, -1):
        assert post(http, f"{base}/{number}/batch?nonce=aa", features=BATCH).status_code == 410
    assert http.delete(f"{base}/99").status_code == 404
    assert http.get("/v1/experiments/nobody").status_code == 404
    assert http.post("/v1/experiments/nobody/picks").status_code == 404
    assert http.get("/v1/experiments/nobody/report").status_code == 404
    assert http.get("/v1/references/nobody").status_code == 404
    assert http.get("/v1/nothing").status_code == 404
    assert post(http, f"{base}/x/batch?nonce=aa", features=BATCH).status_code == 422
    assert http.get("/v1/experiments/%7Bbad%7D").status_code == 422
    assert counts(experiment) == (0, 0, 0)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"generators": ["a", "."]}, "'.' cannot be used in a URL"),
        ({"generators": ["..", "a"]}, "'..' cannot be used in a URL"),
        ({"bound": "theorem", "policy": "top-two"}, "needs standard errors"),
        ({"bound": "theorem", "policy": "ucb", "bound_options": {"M": 1}}, "sigma2"),
        ({"bound_options": {"sigma2": 1}}, "takes none"),
        ({"delta": 0}, "delta"),
        ({"reference": "missing"}, "missing"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_a_bad_config_is_refused(http: httpx.Client, client: Optimist, name: str, reference, change, expected: str):
    client.create_reference("standard-normal", mean=reference[0], covariance=reference[1])
    config = {"name": name, "generators": ["a", "b"], "reference": "standard-normal", **change}
    problem = http.post("/v1/experiments", json=on_wire(**config))
    assert problem.status_code in (404, 422)
    assert expected in problem.json()["detail"]
    assert name not in client.experiments()


def test_a_generator_that_no_route_would_reach_is_not_added(http: httpx.Client, experiment):
    path = f"/v1/experiments/{experiment.name}/generators"
    for generator in (".", ".."):
        problem = http.post(path, json={"name": generator})
        assert problem.status_code == 422
        assert "cannot be used in a URL" in problem.json()["detail"]
    for generator in ("...", ".a", "a/..b"):
        experiment.add_generator(generator)
        paused = experiment.set_state(generator, "paused").standings[-1]
        assert (paused.generator, paused.state) == (generator, "paused")


@pytest.mark.parametrize(
    ("arrays", "expected"),
    [
        ({"mean": np.zeros(3), "covariance": np.eye(4)}, "(3, 3)"),
        ({"mean": np.full(2, np.nan), "covariance": np.eye(2)}, "finite"),
        ({"mean": np.zeros(2)}, "covariance"),
        ({"features": np.zeros((1, 4))}, "at least 2"),
        ({"features": np.full((3, 4), np.inf)}, "finite"),
    ],
)
def test_a_bad_reference_is_refused(http: httpx.Client, name: str, arrays, expected: str):
    problem = post(http, f"/v1/references?name={name}", **arrays)
    assert problem.status_code == 422
    assert expected in problem.json()["detail"]
    assert http.get(f"/v1/references/{name}").status_code == 404


def test_features_make_the_reference_that_their_moments_make(http: httpx.Client, name: str):
    features = np.random.default_rng(1).standard_normal((50, 3))
    info = post(http, f"/v1/references?name={name}", features=features).json()
    assert (info["dimension"], info["samples"]) == (3, 50)
    moments = moments_of(features)
    assert post(http, f"/v1/references?name={name}-2", **moments.arrays).json()["digest"] == info["digest"]


def test_the_report_has_an_etag_that_changes_with_it(http: httpx.Client, experiment):
    path = f"/v1/experiments/{experiment.name}/report"
    etag = http.get(path).headers["etag"]
    for known in (etag, f"W/{etag}", f'"other", {etag}', "*"):
        assert http.get(path, headers={"if-none-match": known}).status_code == 304
    experiment.ask().tell(BATCH)
    assert http.get(path, headers={"if-none-match": etag}).status_code == 200


def test_an_ask_of_a_raw_client_needs_no_body(http: httpx.Client, experiment):
    path = f"/v1/experiments/{experiment.name}/picks"
    first, second = http.post(path).json(), http.post(path, json={}).json()
    assert [first["picks"][0]["number"], second["picks"][0]["number"]] == [1, 2]
    assert http.post(path, json={"count": 3, "worker": "w"}).json()["picks"][2]["number"] == 5
    assert http.post(path, json={"count": 0}).status_code == 422


def test_a_repeated_ask_gets_the_picks_it_had_though_more_could_be_opened(http: httpx.Client, client, name, reference):
    client.create_experiment(name, ["a"], reference=reference, budget=15)
    path = f"/v1/experiments/{name}/picks"
    first = http.post(path, json={"request_id": "other"}).json()["picks"][0]
    request = {"request_id": "R", "count": 3}
    had = http.post(path, json=request).json()["picks"]
    assert [pick["number"] for pick in had] == [2, 3]
    assert http.delete(f"{path}/{first['number']}").status_code == 204
    assert http.post(path, json=request).json()["picks"] == had
    assert http.post(path, json={"request_id": "new"}).json()["picks"][0]["number"] == 4


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        (["short"] * 4 + ["x" * 1025], "at most 1024 bytes each, got 1025 in row 4"),
        (["é" * 513] + [""] * 4, "at most 1024 bytes each, got 1026 in row 0"),
        # Packed, these would take 64 MiB and more.
        (["x" * 1024] + [""] * 65_536, "at most 65536 rows, got 65537"),
    ],
)
def test_ids_in_json_are_counted_before_they_are_packed(http: httpx.Client, experiment, ids: list[str], expected: str):
    for path in (batch_path(experiment.ask()), "/v1/references?name=x"):
        problem = http.post(path, json={"features": BATCH.tolist(), "ids": ids})
        assert problem.status_code == 422
        assert expected in problem.json()["detail"]
    assert counts(experiment) == (0, 0, 1)


def test_a_name_that_has_no_utf8_is_refused_and_the_longest_id_taken(http: httpx.Client, experiment):
    path = batch_path(experiment.ask())
    reply = http.post(path, content=b'{"\\ud800": [[1, 2]]}', headers={"content-type": "application/json"})
    assert reply.status_code == 422
    assert reply.json()["action"] == "fix"
    longest = {"features": BATCH.tolist(), "ids": ["é" * 512, "", "", "", ""]}
    assert http.post(path, json=longest).status_code == 200


def test_exports_of_too_many_told_runs(http: httpx.Client, service: Service, experiment):
    path = f"/v1/experiments/{experiment.name}/export"
    with Redis.from_url(running_url(service.directory)) as redis:
        told = f"{experiment_key(experiment.name, 'told')}:0"
        redis.zadd(told, {f"{2 * run} {2 * run + 1}": 2 * run + 1 for run in range(TOLD)})
        assert http.get(path).status_code == 200
        redis.zadd(told, {f"{2 * TOLD} {2 * TOLD + 1}": 2 * TOLD + 1})
        answer = http.get(path)
        redis.delete(told)
    assert answer.status_code == 422
    assert "'a': expected at most 16,384 runs of indices that were told" in answer.json()["detail"]
    assert answer.json()["action"] == "fix"


MANY = 30_000
UNKNOWN = {f"{number}": 0 for number in range(MANY)}
CONFIG = {"name": "wrong", "generators": ["a", "b"], "metric": {"name": "is", "dimension": 4}}
OWN = "/v1/experiments/{name}"


@pytest.fixture
def ready(client: Optimist, name: str) -> str:
    client.create_experiment(name, ["a", "b"], metric="is", dimension=4, previews=4)
    return name


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/v1/experiments", UNKNOWN),
        ("POST", "/v1/experiments", {**CONFIG, "costs": UNKNOWN}),
        ("POST", "/v1/experiments", {**CONFIG, "bound_options": UNKNOWN}),
        ("POST", "/v1/experiments", {**CONFIG, "metric": {"name": "rke", **UNKNOWN}}),
        ("POST", "/v1/experiments", {**CONFIG, "metric": "x" * MANY}),
        ("POST", "/v1/experiments", {**CONFIG, "tolerance": "x" * MANY}),
        ("POST", "/v1/experiments", {**CONFIG, "prompts": [0] * MANY}),
        ("POST", "/v1/experiments", {**CONFIG, "watch": [{}] * MANY}),
        ("PATCH", OWN, UNKNOWN),
        ("PATCH", OWN, {"tags": [0] * MANY}),
        ("POST", f"{OWN}/picks", UNKNOWN),
        ("POST", f"{OWN}/picks", {"contexts": [[0]] * MANY}),
        ("POST", f"{OWN}/generators", UNKNOWN),
        ("PATCH", f"{OWN}/generators/a", UNKNOWN),
        ("PUT", f"{OWN}/picks/1/previews", UNKNOWN),
        ("PUT", f"{OWN}/picks/1/previews", {"previews": [{}] * MANY}),
        ("DELETE", f"{OWN}/picks/1/batch", UNKNOWN),
        ("POST", f"{OWN}/blend", UNKNOWN),
        ("POST", f"{OWN}/generators/a/batches", UNKNOWN),
        ("POST", "/v1/references?name=wrong", UNKNOWN),
    ],
)
def test_the_answer_is_short(service: Service, ready: str, method: str, path: str, body: object):
    headers = {"idempotency-key": "wrong"}
    reply = httpx.request(method, f"{service.url}{path.format(name=ready)}", json=body, headers=headers)
    assert reply.status_code in (413, 422), reply.text
    assert len(reply.content) < 1500


def test_a_large_config_that_is_right_is_taken(client: Optimist, name: str):
    """It is parsed in a thread, as all bodies of its size."""
    names = [f"{number:é>100}" for number in range(1000)]
    costs = dict.fromkeys(names, 1.5)
    experiment = client.create_experiment(f"{name}-large", names, metric="is", dimension=4, costs=costs)
    assert experiment.info.config.costs == costs
