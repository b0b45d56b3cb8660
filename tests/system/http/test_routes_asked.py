"""Asks with contexts over HTTP: what is answered and refused, and the route of tables."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Iterator
from typing import Any

import httpx
import numpy as np
import pytest

from optimist.store import Store, connect, running_url
from optimist_client import tensors
from tests.support.processes import Service, until
from tests.support.published_routes import WIDTH, model, put_model

CONFIG: dict[str, Any] = {
    "generators": ["a", "b"],
    "metric": {"name": "mean"},
    "goal": "route",
    "context": WIDTH,
    "context_features": 8,
    "context_bandwidth": 1.0,
    "seed": 5,
}


@pytest.fixture
def http(not_scoring: Service) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=f"{not_scoring.url}/v1", timeout=60) as client:
        yield client


TABLE = {
    **{"title": "Mean", "lower_is_better": False, "scale": "linear", "best": "b", "best_score": 0.5, "score": 0.6},
    **{"gain": 0.1, "standard_error": 0.02, "basis": "doubly robust", "price": 0.0, "prompts": 6},
    **{"types": [], "shares": [], "positions": [], "samples": 6},
}


def made(http: httpx.Client, name: str, **config: Any) -> None:
    http.post("/experiments", json={"name": name, **CONFIG, **config}).raise_for_status()


def made_without_routes(http: httpx.Client, name: str) -> None:
    config = {"name": name, "generators": ["a", "b"], "metric": {"name": "mean"}}
    http.post("/experiments", json=config).raise_for_status()


def rows(count: int, seed: int = 0) -> list[list[float]]:
    return np.random.default_rng(seed).standard_normal((count, WIDTH)).tolist()


def asked(http: httpx.Client, name: str, contexts: list[list[float]], **fields: Any) -> dict[str, Any]:
    reply = http.post(f"/experiments/{name}/picks", json={"contexts": contexts, **fields})
    reply.raise_for_status()
    return reply.json()


def tell(http: httpx.Client, name: str, pick: dict[str, Any], value: float = 0.5, **query: Any) -> httpx.Response:
    body = tensors.encode({"values": np.full((pick["size"], 1), value)})
    return http.post(
        f"/experiments/{name}/picks/{pick['number']}/batch",
        params={"nonce": pick["nonce"], **query},
        content=body,
        headers={"content-type": tensors.MEDIA_TYPE},
    )


def warm_up(http: httpx.Client, name: str) -> None:
    for pick in asked(http, name, rows(6))["picks"]:
        tell(http, name, pick).raise_for_status()


def publish(service: Service, name: str, table: str = "", point: str = "") -> str:
    """A model of the logs as they are, and perhaps a table. Returns the name of the model."""

    async def put() -> str:
        async with connect(running_url(service.directory) or "") as redis:
            return await put_model(Store(redis), name, model({0: 0.0, 1: 0.2}), table, point)

    return asyncio.run(put())


def test_each_context_gets_a_pick_by_the_newest_model(http: httpx.Client, not_scoring: Service, name: str):
    made(http, name, max_wait=60)
    warm_up(http, name)
    assert {pick["probability"] for pick in asked(http, name, rows(4))["picks"]} == {0.5}
    published = publish(not_scoring, name)
    # Nobody wakes this dispatcher but the announcement.
    until(lambda: asked(http, name, rows(1))["picks"][0].get("model") == published)
    reply = asked(http, name, rows(5), worker="w", request_id="r", prompts=[f"prompt {n}" for n in range(5)])
    assert [pick["prompts"] for pick in reply["picks"]] == [[f"prompt {n}"] for n in range(5)]
    assert all(0.01 <= pick["probability"] <= 0.99 and not pick["stale"] for pick in reply["picks"])
    assert asked(http, name, rows(5), worker="w", request_id="r")["picks"] == reply["picks"]
    assert len(asked(http, name, rows(200), worker="another")["picks"]) == 100


def test_what_does_not_fit_an_ask_is_refused_in_words(http: httpx.Client, name: str):
    made(http, name)

    def refusal(path: str = "/picks", **body: Any) -> str:
        reply = http.post(f"/experiments/{name}{path}", content=json.dumps(body))
        assert reply.status_code == 422
        return reply.json()["detail"]

    assert refusal() == "contexts: expected the embedding of each prompt that a pick is wanted for, 4 numbers each"
    assert refusal(contexts=[[1.0, 2.0]]) == "contexts.0: expected 4 numbers, got 2"
    assert refusal(contexts=[]) == "body.contexts: expected at least 1, got []"
    # Only the first of what may be millions of errors.
    assert refusal(contexts=[["x"] * WIDTH] * 3) == "body.contexts.0.0: expected a number, got 'x'"
    assert "finite" in refusal(contexts=[[1.0, 2.0, 3.0, float("nan")]])
    assert refusal(contexts=[[1.0, 2.0, 3.0, 1e39]]) == "contexts: expected finite numbers that float32 can hold"
    assert refusal(contexts=rows(2), prompts=["one"]) == "prompts: expected one for each of the 2 contexts, got 1"
    assert "at most 1000" in refusal(contexts=rows(1001))
    assert "unknown field" in refusal(context=rows(1))
    [pick] = asked(http, name, rows(1))["picks"]
    assert refusal(contexts=[[0] * 10_000])[:38] == "expected at most 7,064 values in JSON;"
    reply = tell(http, name, pick, next=1)
    expected = "next: a pick of the goal 'route' is for a prompt: ask for it with its context"
    assert (reply.status_code, reply.json()["detail"]) == (422, expected)
    assert tell(http, name, pick).status_code == 200, "and nothing was told by the refused one"
    append = http.post(f"/experiments/{name}/generators/a/batches", headers={"idempotency-key": "k"})
    assert (append.status_code, append.json()["detail"][:36]) == (422, "with the goal 'route' every batch is")


def of_tensors(http: httpx.Client, name: str, **arrays: Any) -> httpx.Response:
    """The answer to an ask with these arrays."""
    params, headers = {"request_id": "tensors", "generators": ["b"]}, {"content-type": tensors.MEDIA_TYPE}
    return http.post(f"/experiments/{name}/picks", params=params, content=tensors.encode(arrays), headers=headers)


def test_contexts_as_tensors_get_the_picks_of_contexts_as_json(http: httpx.Client, not_scoring: Service, name: str):
    contexts, prompts = rows(5), ["one", "", "två", "four\n", "five"]
    for kind in ("json", "tensors"):
        made(http, f"{name}-{kind}")
        warm_up(http, f"{name}-{kind}")
        publish(not_scoring, f"{name}-{kind}")
        until(lambda kind=kind: asked(http, f"{name}-{kind}", rows(1))["picks"][0].get("model"))
    there = asked(http, f"{name}-json", contexts, prompts=prompts, request_id="json", generators=["a", "b"])["picks"]
    sent = {"contexts": np.array(contexts), tensors.TEXTS: tensors.pack_texts(prompts)}
    params, headers = {"request_id": "r", "generators": ["a", "b"]}, {"content-type": tensors.MEDIA_TYPE}
    here = http.post(
        f"/experiments/{name}-tensors/picks", params=params, content=tensors.encode(sent), headers=headers
    ).json()["picks"]
    for field in ("generator", "probability", "prompts", "size", "start"):
        assert [pick.get(field) for pick in here] == [pick.get(field) for pick in there]
    assert [pick["request_id"] for pick in here] == ["r"] * 5


def test_tensors_that_do_not_fit_an_ask_are_refused_in_words(http: httpx.Client, name: str):
    made(http, name)

    def refusal(**arrays: Any) -> str:
        reply = of_tensors(http, name, **arrays)
        assert reply.status_code == 422
        return reply.json()["detail"]

    fits, texts = np.zeros((2, WIDTH)), tensors.pack_texts(["one"])
    expected = f"contexts: expected an array of at most 1,000 rows of {WIDTH} numbers, got one of shape "
    assert refusal(contexts=np.zeros((2, 3))) == f"{expected}(2, 3)"
    assert refusal(contexts=np.zeros(WIDTH)) == f"{expected}({WIDTH},)"
    assert refusal(contexts=np.zeros((0, WIDTH))) == f"{expected}(0, {WIDTH})"
    assert refusal(contexts=np.zeros((1001, WIDTH))) == f"{expected}(1001, {WIDTH})"
    assert refusal(contexts=np.full((1, WIDTH), 1e39)) == "contexts: expected finite numbers that float32 can hold"
    assert refusal(contexts=fits, texts=texts) == "prompts: expected one for each of the 2 contexts, got 1"
    assert refusal(contexts=fits, features=fits) == "features: expected no arrays but contexts and texts"
    assert refusal(texts=texts)[:36] == "contexts: expected the embedding of "
    assert "at most 8192 bytes" in refusal(contexts=fits, texts=tensors.pack_texts(["", "x" * 9000]))
    assert [pick["generator"] for pick in of_tensors(http, name, contexts=fits).json()["picks"]] == ["b", "b"]
    many = {"contexts": np.zeros((2**18, WIDTH)), "texts": np.zeros((2**18, 8), "u1")}
    assert of_tensors(http, name, **many).status_code == 413  # more than 1,000 contexts with their texts


@pytest.mark.parametrize("length", ["content-length: 16777216", "transfer-encoding: chunked"])
def test_an_ask_is_refused_before_its_body_is_read(http: httpx.Client, not_scoring: Service, name: str, length: str):
    """A body that is never sent to its end: with a length not at all, in chunks a little more than 64 KiB."""
    made_without_routes(http, name)
    made(http, f"{name}-router")
    refusals = {
        name: ("413", "at most 65536 bytes: only asks of the goal 'route' have contexts"),
        f"{name}-router": ("413", "at most 1048576 bytes; send contexts as application/x-safetensors"),
        f"{name}-unknown": ("404", "no experiment is called"),
    }
    for experiment, (status, detail) in refusals.items():
        with socket.create_connection(("127.0.0.1", not_scoring.port), timeout=30) as connection:
            head = f"POST /v1/experiments/{experiment}/picks HTTP/1.1\r\nhost: 127.0.0.1\r\n{length}\r\n\r\n"
            connection.sendall(head.encode())
            if "chunked" in length and status == "413":
                sent = 2**16 if experiment == name else 2**20
                connection.sendall(b"%x\r\n%s\r\n" % (sent, b" " * sent) + b"1\r\n \r\n")
            answer = ""
            while not answer.endswith("}"):
                answer += connection.recv(2**16).decode()
        assert answer.split()[1] == status
        assert detail in answer


def test_contexts_are_refused_where_nothing_is_routed(http: httpx.Client, name: str):
    made_without_routes(http, name)
    reply = http.post(f"/experiments/{name}/picks", json={"contexts": rows(1)})
    assert (reply.status_code, reply.json()["detail"]) == (422, "contexts: only asks of the goal 'route' have them")
    reply = of_tensors(http, name, contexts=np.zeros((1, WIDTH)))
    expected = "expected JSON: only asks of the goal 'route' have contexts"
    assert (reply.status_code, reply.json()["detail"]) == (415, expected)
    assert http.get(f"/experiments/{name}/routes").status_code == 422


def test_generators_that_a_model_cannot_have_are_refused(http: httpx.Client, name: str):
    made(http, name, context_features=1400, price=0.5, costs={"a": 1.0, "b": 2.0})
    without = http.post(f"/experiments/{name}/generators", json={"name": "c"})
    assert (without.status_code, without.json()["detail"][:5]) == (422, "cost:")
    large = http.post(f"/experiments/{name}/generators", json={"name": "c", "cost": 1.0})
    assert (large.status_code, large.json()["detail"][:16]) == (422, "context_features")
    assert http.post(f"/experiments/{name}/generators", json={"name": "b"}).status_code == 200, "it has that one"


def test_tables_are_made_when_somebody_asks(http: httpx.Client, not_scoring: Service, name: str):
    made(http, name)
    early = http.get(f"/experiments/{name}/routes")
    assert (early.status_code, early.json()["type"].rpartition(":")[2]) == (409, "conflict")
    warm_up(http, name)
    assert http.get(f"/experiments/{name}/report").json().get("routes") is None
    publish(not_scoring, name, table=json.dumps(TABLE), point='[0.1,0.06,0.14,0.6,"b",0.5]')
    table = http.get(f"/experiments/{name}/routes").json()
    assert (table["experiment"], table["positions"], table["stale"]) == (name, [3, 3], False)
    report = http.get(f"/experiments/{name}/report?after=0").json()
    assert report["routes"] == table
    assert (report["progress"]["routes"]["gains"], report["progress"]["routes"]["best"]) == ([0.1], ["b"])
    # More samples than it knows of, and nobody makes it anew.
    for pick in asked(http, name, rows(4))["picks"]:
        tell(http, name, pick).raise_for_status()
    assert http.get(f"/experiments/{name}/report").json()["routes"]["stale"]
