"""Requests of a wrong path, method, form or nonce are told what was expected."""

from __future__ import annotations

import httpx
import numpy as np
import pytest

from optimist_client import FixError, Optimist, tensors
from tests.support.processes import TENSORS, until


@pytest.mark.parametrize(
    ("method", "path", "status", "said"),
    [
        ("GET", "/v1/experiment", 404, "no route '/v1/experiment', did you mean /v1/experiments?"),
        ("GET", "/v1/experiments/x/reports", 404, "no route '/v1/experiments/x/reports', did you mean {x}/report?"),
        ("GET", "/v2/experiments", 404, "no route '/v2/experiments', did you mean /v1/experiments?"),
        ("GET", "/nothing-like-it", 404, "no route '/nothing-like-it'"),
        ("PUT", "/v1/experiments", 405, "/v1/experiments takes GET and POST, got PUT"),
        ("POST", "/v1/experiments/x/report", 405, "{x}/report takes GET, got POST"),
    ],
)
def test_wrong_paths_and_methods(http: httpx.Client, method: str, path: str, status: int, said: str):
    reply = http.request(method, path)
    assert (reply.status_code, reply.json()["detail"]) == (status, said.replace("{x}", "/v1/experiments/x"))
    if status == 405:
        assert reply.headers["allow"] == said.split(" takes ")[1].split(",")[0].replace(" and ", ", ")


def test_a_form_is_no_json(http: httpx.Client):
    reply = http.post("/v1/experiments", data={"name": "a", "generators": "b"})
    said = "expected application/json, got application/x-www-form-urlencoded"
    assert (reply.status_code, reply.json()["detail"]) == (415, said)


def test_a_body_without_long_texts_has_a_size_of_its_own(http: httpx.Client):
    kind = {"content-type": "application/json"}
    reply = http.post("/v1/experiments/x/generators", content=b" " * (2**18 + 1), headers=kind)
    assert (reply.status_code, reply.json()["detail"]) == (413, "expected a body of at most 262144 bytes")


def test_a_wrong_nonce_and_a_wrong_number_are_called_so(client: Optimist, http: httpx.Client, name: str):
    pick = client.create_experiment(name, ["a", "b"], metric="mean").ask()
    assert pick is not None
    body = tensors.encode({"values": np.ones((pick.size, 1))})
    for number, how in ((pick.number, " with this nonce"), (77, "")):
        path = f"/v1/experiments/{name}/picks/{number}"
        told = http.post(f"{path}/batch?nonce=77", content=body, headers=TENSORS)
        given_up = http.delete(f"{path}?nonce=77")
        for reply in (told, given_up):
            said = f"no pick {number} was given{how}, or Redis has lost it"
            assert (reply.status_code, reply.json()["detail"]) == (410, said)


def test_what_has_no_mixture_cannot_be_blended(client: Optimist, name: str):
    with pytest.raises(FixError, match="the metric 'mean' has no score of mixtures to blend by"):
        client.create_experiment(name, ["a", "b"], metric="mean").blend(10)
    with pytest.raises(FixError, match="unknown field: it is part of a kernel"):
        client.create_experiment(f"{name}-2", ["a", "b"], metric="rke", sigma=10)


def test_few_samples_and_one_generator_alone_are_said_in_the_report(client: Optimist, name: str):
    reference = np.zeros(4), np.eye(4)
    alone = client.create_experiment(name, ["a"], metric="fid", reference=reference, batch_size=3)
    pick = alone.ask()
    assert pick is not None
    pick.tell(np.random.default_rng(0).standard_normal((3, 4)))
    until(lambda: alone.report().standings[0].score is not None)
    report = alone.report()
    few = "fewer samples than dimensions: 3 samples, and the reference has rank 4"
    assert few in report.standings[0].warnings
    assert report.decision.reason == "there is no other generator to compare it with"
