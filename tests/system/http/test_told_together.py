"""Batches of several picks in one request: the same as if each were told by itself, whatever becomes of the others."""

from __future__ import annotations

from typing import Any

import httpx
import numpy as np
import pytest

from optimist_client import ConflictError, FixError, NotFoundError, Optimist, Pick, tensors
from tests.support.processes import TENSORS, Service, losing_replies, scored

CONFIG: dict[str, Any] = {"metric": "is", "dimension": 3, "policy": "uniform", "seed": 7}
CONFIG |= {"stop": False, "keep_log": True}


def body_of(rng: np.random.Generator, pick: Pick) -> bytes:
    """What a worker might tell, right or wrong."""
    kind = rng.choice(["right", "right", "right", "fewer", "more", "wide", "not finite", "logits", "nothing"])
    rows = {"fewer": pick.size - 1, "more": pick.size + 1}.get(kind, pick.size)
    values = np.random.default_rng(pick.seed).dirichlet(np.ones(3), rows)
    values = {"wide": values @ np.eye(3, 4), "not finite": values * np.nan, "logits": 5 * values}.get(kind, values)
    named = {"probabilities": values, "ids": tensors.pack_ids([f"{pick.number}/{row}" for row in range(rows)])}
    named |= {"records": tensors.pack_records([{"n": rows}] * rows)} if rng.random() < 0.5 else {}
    return tensors.encode({} if kind == "nothing" else named)


def singly(service: Service, told: list[tuple[Pick, str, bytes]]) -> list[Any]:
    with httpx.Client(base_url=service.url) as http:
        path = "/v1/experiments/{}/picks/{}/batch?nonce={}"
        return [
            http.post(path.format(pick.info.experiment, pick.number, nonce), content=body, headers=TENSORS).json()
            for pick, nonce, body in told
        ]


def together(service: Service, told: list[tuple[Pick, str, bytes]]) -> list[Any]:
    answer = httpx.post(
        f"{service.url}/v1/experiments/{told[0][0].info.experiment}/picks/batches",
        params={"picks": [f"{pick.number}.{nonce}" for pick, nonce, _ in told], "instance": told[0][0].info.instance},
        content=b"".join(body for *_, body in told),
        headers=TENSORS,
    )
    found = answer.raise_for_status().json()
    assert not found["replies"].keys() & found["problems"].keys()
    every = found["replies"] | found["problems"]
    return [every[str(pick.number)] for pick, *_ in told]


@pytest.mark.parametrize("seed", range(2))
def test_each_is_answered_as_if_it_were_told_alone(client: Optimist, service: Service, name: str, seed: int):
    experiments = [client.create_experiment(f"{name}-{way}", ["a", "b"], **CONFIG) for way in ("singly", "together")]
    picks = [experiment.ask_all(count=40) for experiment in experiments]
    assert [pick.seed for pick in picks[0]] == [pick.seed for pick in picks[1]]
    answers: list[list[Any]] = [[], []]
    for own, found, tell in zip(picks, answers, (singly, together), strict=True):
        rng = np.random.default_rng(seed)
        told: list[tuple[Pick, str, bytes]] = []
        for pick in own:
            if rng.random() < 0.1:
                pick.give_up("an example")
            nonce = (pick if rng.random() < 0.9 else own[0]).info.nonce
            told.append((pick, nonce, body_of(rng, pick)))
        found += tell(service, told[:20]) + tell(service, told[20:])
        found += tell(service, told[10:30])  # again: nothing counts twice
    same = [[{key: value for key, value in one.items() if key != "nonce"} for one in found] for found in answers]
    here, there = (f"{found}".replace(one.name, "it") for found, one in zip(same, experiments, strict=True))
    assert here == there
    assert {one.get("status", 200) for one in same[0]} >= {200, 422}
    records = [list(experiment.records()) for experiment in experiments]
    assert records[0] == records[1] != []
    for experiment in experiments:
        scored(experiment)
    standings = [experiment.report().standings for experiment in experiments]
    assert standings[0] == standings[1]


def test_what_is_no_such_request_changes_nothing(client: Optimist, service: Service, name: str):
    experiment = client.create_experiment(name, ["a", "b"], **CONFIG)
    picks = experiment.ask_all(count=70)
    body = tensors.encode({"probabilities": np.full((5, 3), 1 / 3)})
    url, instance = f"{service.url}/v1/experiments/{name}/picks/batches", picks[0].info.instance

    def refused(picks: list[str], content: bytes, headers: dict[str, str] = TENSORS, instance: str = instance) -> str:
        reply = httpx.post(url, params={"picks": picks, "instance": instance}, content=content, headers=headers)
        assert reply.status_code in (404, 415, 422)
        return reply.json()["detail"]

    named = [f"{pick.number}.{pick.info.nonce}" for pick in picks]
    assert "expected 2 bodies of safetensors, got 1" in refused(named[:2], body)
    assert "expected 1 bodies of safetensors, got more" in refused(named[:1], body + b"no body at all")
    assert "header cannot be read" in refused(named[:2], body + b"\x08" + bytes(7) + b"no json ")
    assert "a header of at most 65536 bytes" in refused(named[:2], body + b"\xff" * 20)
    assert "at most 64" in refused(named[:65], 65 * body)
    assert "expected a value" in refused([], b"")
    assert "picks" in refused(["1"], body)
    assert "got JSON" in refused(named[:1], b"{}", {"content-type": "application/json"})
    assert "made again" in refused(named[:1], body, instance="0" * 32)
    assert experiment.report().samples == 0


@pytest.mark.long
def test_of_several_the_others_are_told_and_the_error_is_raised(client: Optimist, name: str):
    experiment = client.create_experiment(name, ["a", "b"], **CONFIG, previews=8)
    picks = experiment.ask_all(count=100)
    batches: list[tuple[Pick, Any]] = [
        (pick, {"probabilities": np.full((5, 3), 1 / 3), "records": [f"{pick.number}"] * 5}) for pick in picks
    ]
    wrong = np.full((5, 3), 0.5)
    with pytest.raises(FixError, match="sum to 1"):
        experiment.tell_all([*batches[:70], (picks[70], wrong), *batches[71:]])
    assert [pick.number for pick in picks if not pick.settled] == [picks[70].number]
    assert experiment.report().samples == 495
    assert len(experiment.previews()) > 0
    replies = experiment.tell_all(batches)
    assert [reply.pick for reply in replies] == [pick.number for pick in picks]
    assert [reply.duplicate for reply in replies] == [pick is not picks[70] for pick in picks]
    assert experiment.report().samples == 500
    late = experiment.ask_all(count=2)
    late[0].give_up("an example")
    right = np.full((5, 3), 1 / 3)
    with pytest.raises(ConflictError, match=f"pick {late[0].number} was given up: an example"):
        experiment.tell_all([(pick, right) for pick in late])
    assert late[1].settled
    client.delete_experiment(name)
    again = client.create_experiment(name, ["a", "b"], **CONFIG)
    with pytest.raises(NotFoundError, match="made again"):
        experiment.tell_all([(late[0], right)])
    again.ask().tell(right)
    assert (again.report().samples, again.report().rounds, again.report().open_picks) == (5, 1, 0)


def test_replies_that_are_lost_make_nothing_count_twice(service: Service, name: str):
    with losing_replies(service.url, every=2) as url, Optimist(url) as client:
        experiment = client.create_experiment(name, ["a", "b"], **CONFIG)
        picks = experiment.ask_all(count=100)
        rng = np.random.default_rng(0)
        replies = experiment.tell_all([(pick, rng.dirichlet(np.ones(3), pick.size)) for pick in picks])
        assert len(replies) == 100
        assert any(reply.duplicate for reply in replies)
        assert experiment.report().samples == 500
