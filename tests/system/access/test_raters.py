"""What a rater's key shows, and what it does to others: samples without their generators, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import numpy as np
import pytest
from redis import Redis

from optimist.store import running_url
from optimist_client import Optimist
from optimist_client.metrics import Mean
from tests.support.keys import client_of, new_key
from tests.support.lapsed import let_lapse
from tests.support.processes import Service

METRIC = Mean(reads="human", proxy="judge", range=(1, 5))
GENERATORS = ["secret-one", "secret-two", "secret-three"]
AUDITS = "/v1/experiments/rated/audits"


def connected(directory: Path) -> Redis:
    url = running_url(directory)
    assert url is not None
    return Redis.from_url(url)


@pytest.fixture
def keys(asking: Service, directory: Path) -> Iterator[dict[str, httpx.Client]]:
    """Clients by role, of an experiment with 16 samples of each generator that are shown as texts."""
    admin = new_key(directory, "admin")
    with ExitStack() as stack, Optimist(asking.url, api_key=admin) as client:
        experiment = client.create_experiment("rated", GENERATORS, metric=METRIC, batch_size=8, previews=64)
        for pick in experiment.picks(max_samples=48):
            shown = [f"text {pick.generator[-3:]} {index}" for index in range(8)]
            pick.tell({"judge": np.random.default_rng(pick.number).random((8, 1))}, previews=shown)
        made = {role: new_key(directory, role, "default", "rated") for role in ("rater", "viewer", "worker")}
        made["stranger"] = new_key(directory, "rater", "elsewhere", "rated")
        yield {role: stack.enter_context(client_of(asking, key)) for role, key in (made | {"admin": admin}).items()}
        client.delete_experiment("rated")
        with connected(directory) as redis:
            assert redis.keys("optimist:{rated}:*") == []


def test_a_rater_sees_samples_and_not_whose_they_are(keys: dict[str, httpx.Client]):
    rater = keys["rater"]
    asked = rater.post(AUDITS, json={"rater": "anna", "count": 10})
    assert asked.status_code == 200
    assert "secret" not in asked.text
    audits = asked.json()["audits"]
    assert [(one["index"], {each["generator"] for each in one["samples"]}) for one in audits] == 10 * [(None, {None})]
    orders = [tuple(sample["text"][5:8] for sample in one["samples"]) for one in audits]
    assert len({*orders}) > 1, "each in an order of its own"
    again = rater.post(AUDITS, json={"rater": "anna", "count": 10}).json()
    assert again == asked.json()
    assert rater.get(audits[0]["samples"][1]["url"]).text == audits[0]["samples"][1]["text"]
    assert rater.put(f"{AUDITS}/{audits[0]['audit']}", json={"rater": "anna", "scores": [1, 2, 3]}).status_code == 200
    named = {"rater": "anna", "scores": {"secret-one": 1.0}}
    assert rater.put(f"{AUDITS}/{audits[0]['audit']}", json=named).status_code == 422
    # The scores went to those whose samples were shown in these places.
    whole = keys["admin"].post(AUDITS, json={"rater": "anna", "count": 10}).json()
    assert whole["answered"] == 1
    for one, order in zip(whole["audits"], orders[1:], strict=False):
        assert tuple(sample["generator"][-3:] for sample in one["samples"]) == order


def test_nothing_else_is_open_to_a_rater_nor_audits_to_others(keys: dict[str, httpx.Client]):
    rater = keys["rater"]
    for path in ("report", "previews", "audits", "picks", "export"):
        assert rater.get(f"/v1/experiments/rated/{path}").status_code in (403, 405), path
    assert rater.post(AUDITS, json={}).status_code == 422, "a rater has a name"
    (audit,) = rater.post(AUDITS, json={"rater": "anna", "count": 1}).json()["audits"]
    for who in ("viewer", "stranger"):
        assert keys[who].post(AUDITS, json={"rater": "anna"}).status_code in (403, 404)
        body = {"rater": "anna", "scores": [1, 2, 3]}
        assert keys[who].put(f"{AUDITS}/{audit['audit']}", json=body).status_code in (403, 404)
        assert keys[who].get(audit["samples"][0]["url"]).status_code in (403, 404)
    # Another name has other samples: neither bytes nor scores go by this one's.
    other = f"{AUDITS}/{audit['audit']}/samples/0?rater=ben"
    assert rater.get(other).status_code == 404
    assert rater.get(audit["samples"][0]["url"].replace("samples/0", "samples/3")).status_code == 404
    counts = keys["viewer"].get(AUDITS).json()
    assert [one["rater"] for one in counts["raters"]] == ["anna"]


def test_a_rater_can_neither_fill_the_service_nor_take_all_audits_for_ever(
    keys: dict[str, httpx.Client], directory: Path
):
    """Each name has a lease of its own, which ends; what is said is bounded."""
    rater = keys["rater"]
    for name in ("anna", "ben", "cleo"):
        rater.post(AUDITS, json={"rater": name, "count": 50})
    assert rater.post(AUDITS, json={"rater": "dora"}).json()["audits"] == []
    assert let_lapse(directory, "rated") == 16
    audits = rater.post(AUDITS, json={"rater": "dora", "count": 50}).json()["audits"]
    assert len(audits) == 16
    # Who was late is heard all the same.
    late = {"rater": "anna", "scores": [1, 2, 3]}
    assert [rater.put(f"{AUDITS}/{one['audit']}", json=late).status_code for one in audits] == 16 * [200]
    with connected(directory) as redis:
        redis.hset("optimist:{rated}:counts", "comment_bytes", 4 * 2**20)
    refused = rater.put(f"{AUDITS}/{audits[0]['audit']}", json=late | {"comment": "x"})
    assert (refused.status_code, "send the scores alone" in refused.text) == (409, True)
