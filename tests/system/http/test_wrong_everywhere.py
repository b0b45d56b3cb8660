"""Bodies that are wrong in very many places are refused with one short message, not with one for each place."""

from __future__ import annotations

import httpx
import pytest

from optimist_client import Optimist
from tests.support.processes import Service

MANY = 30_000
UNKNOWN = {f"{number}": 0 for number in range(MANY)}
CONFIG = {"name": "wrong", "generators": ["a", "b"], "metric": {"name": "is", "dimension": 4}}
OWN = "/v1/experiments/{name}"


@pytest.fixture
def name(client: Optimist, name: str) -> str:
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
        ("POST", "/v1/references/wrong/uploads", UNKNOWN),
    ],
)
def test_the_answer_is_short(service: Service, name: str, method: str, path: str, body: object):
    headers = {"idempotency-key": "wrong"}
    reply = httpx.request(method, f"{service.url}{path.format(name=name)}", json=body, headers=headers)
    assert reply.status_code in (413, 422), reply.text
    assert len(reply.content) < 1500


def test_a_large_config_that_is_right_is_taken(client: Optimist, name: str):
    """It is parsed in a thread, as all bodies of its size."""
    names = [f"{number:é>100}" for number in range(1000)]
    costs = dict.fromkeys(names, 1.5)
    experiment = client.create_experiment(f"{name}-large", names, metric="is", dimension=4, costs=costs)
    assert experiment.info.config.costs == costs
