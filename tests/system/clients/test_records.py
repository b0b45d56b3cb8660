"""Records of samples: kept with the log, never counted twice, printed as JSON lines, and read by no metric."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

import optimist
from optimist_client import Experiment, FixError, Optimist, tensors
from tests.support.commands import invoked
from tests.support.processes import Service, append_batch


def printed(service: Service, experiment: Experiment) -> list[dict[str, Any]]:
    done = invoked("records", experiment.name, "--url", service.url, code=0)
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert found == [one.model_dump() for one in experiment.records()]
    return found


def test_records_are_printed_with_what_they_belong_to(client: Optimist, service: Service, name: str, tmp_path: Path):
    config: dict[str, Any] = {"metric": "mean", "policy": "uniform", "stop": False, "batch_size": 3, "keep_log": True}
    experiment = client.create_experiment(name, ["a", "b"], **config)
    plain = client.create_experiment(f"{name}-plain", ["a", "b"], **config)
    told = []
    for pick, other in zip(experiment.ask_all(count=4), plain.ask_all(count=4), strict=True):
        scores = np.random.default_rng(pick.number).random(3)
        records = [{"prompt": "wie geht’s?", "answer": f"{pick.number}"}, None, f"reason {pick.number}"]
        pick.tell(scores, records=records, ids=["x", "y", "z"])
        other.tell(scores, ids=["x", "y", "z"])
        told.append((pick, records))
    found = printed(service, experiment)
    assert len(found) == 8
    for pick, records in told:
        own = [one for one in found if one["pick"] == pick.number]
        assert [(one["row"], one["index"], one["id"], one["record"]) for one in own] == [
            (0, pick.start, "x", records[0]),
            (2, pick.start + 2, "z", records[2]),
        ]
        assert {one["generator"] for one in own} == {pick.generator}
    assert printed(service, plain) == []
    standings = [each.report().standings for each in (experiment, plain)]
    assert [row.score for row in standings[0]] == [row.score for row in standings[1]]
    # They go along with an archive, and with a retraction they go.
    experiment.export(tmp_path / "it.zip")
    imported = client.import_experiment(tmp_path / "it.zip", f"{name}-again")
    assert printed(service, imported) == found
    experiment.retract(pick=told[0][0].number, reason="a wrong judge")
    assert printed(service, experiment) == [one for one in found if one["pick"] != told[0][0].number]


def test_of_rows_told_twice_the_records_that_count_are_printed(client: Optimist, service: Service, name: str):
    experiment = client.create_experiment(name, ["a", "b"], metric="mean", keep_log=True)
    url = f"{service.url}/v1/experiments/{name}/generators/a/batches"
    for start, records in ((0, ["one", {"two": 2}]), (1, ["not this", 3.5])):
        body = {"values": [[0.1 * start], [0.2]], "records": records}
        key = {"idempotency-key": f"{start}"}
        httpx.post(url, json=body, params={"start": start}, headers=key).raise_for_status()
    assert [(one["index"], one["record"]) for one in printed(service, experiment)] == [
        (0, "one"),
        (1, {"two": 2}),
        (2, 3.5),
    ]


def test_they_come_in_pages(client: Optimist, service: Service, name: str):
    experiment = client.create_experiment(
        name, ["a/ü", "b"], metric="mean", policy="uniform", batch_size=2, keep_log=True
    )
    for number, pick in enumerate(experiment.ask_all(count=11)):
        pick.tell([0.1, 0.2], records=[f"{pick.number}\u2028\n", {"x": [1.5, None]}] if number % 3 else None)
    told = list(experiment.records("a/ü"))
    assert {one.generator for one in told} == {"a/ü"}
    assert [one.position for one in told] == sorted(one.position for one in told)
    url, pages = f"{service.url}/v1/experiments/{name}/generators/a%2F%C3%BC/records", []
    following: dict[str, Any] | None = {"url": "?batches=1"}
    while following is not None:
        page = httpx.get(url + following["url"]).raise_for_status()
        assert page.headers["content-type"] == "application/jsonl"
        pages.append(page.content)
        following = page.links.get("next")
    (standing,) = [row for row in experiment.report().standings if row.generator == "a/ü"]
    assert len(pages) == standing.samples / 2
    assert [json.loads(line) for page in pages for line in page.splitlines()] == [one.model_dump() for one in told]
    assert httpx.get(url, params={"after": 2**40}).raise_for_status().content == b""
    with pytest.raises(FixError, match="has no generator 'c'"):
        list(experiment.records("c"))


@pytest.mark.long
def test_a_page_ends_within_a_batch(client: Optimist, service: Service, name: str):
    experiment = client.create_experiment(name, ["a"], metric="mean", keep_log=True)
    records = [None, *[f"{row} {'x' * 8000}" for row in range(1, 1200)]]
    arrays = {"values": np.full((1200, 1), 0.5), "records": tensors.pack_records(records)}
    for _ in range(2):
        append_batch(service.url, name, "a", arrays).raise_for_status()
    url, sizes, places = f"{service.url}/v1/experiments/{name}/generators/a/records", [], []
    following: dict[str, Any] | None = {"url": ""}
    while following is not None:
        page = httpx.get(url + following["url"]).raise_for_status()
        lines = [json.loads(line) for line in page.content.splitlines()]
        sizes.append(len(page.content))
        places += [(line["position"], line["row"]) for line in lines]
        following = page.links.get("next")
    assert places == [(position, row) for position in (1, 2) for row in range(1, 1200)]
    assert max(sizes) < 2**22 + 2**13
    assert len(sizes) == 5
    assert [one.record for one in experiment.records()] == [*records[1:], *records[1:]]
    first = httpx.get(url, params={"after": "2:1198"}).raise_for_status()
    assert [json.loads(line)["row"] for line in first.content.splitlines()] == [1199]
    for cursor in ("1:", ":1", "-1", "1:1:1", "x"):
        assert httpx.get(url, params={"after": cursor}).status_code == 422


@pytest.mark.long
def test_what_is_left_of_a_log_is_there(client: Optimist, name: str):
    experiment = client.create_experiment(name, ["a"], metric="rke", dimension=2, kernel={"sigma": 1.0, "features": 8})
    rng, told = np.random.default_rng(0), 0
    while [one.position for one in experiment.records()][:1] in ([], [1]):  # until the scorer has trimmed it
        for pick in experiment.ask_all(count=8):
            told += 1
            pick.tell(rng.standard_normal((pick.size, 2)), records=[told] * pick.size)
    left = [one.position for one in experiment.records()]
    assert left[-1] == told


def test_a_record_that_is_not_json_is_its_text(client: Optimist, service: Service, name: str):
    """As of a worker without the SDK."""
    experiment = client.create_experiment(name, ["a"], metric="mean", keep_log=True)
    texts = ["{", "NaN", "[" * 3000, "[" * 100 + "]" * 100, '"\\ud800"', "1e999", '"fine"']
    arrays = {"values": np.full((len(texts), 1), 0.5), "records": tensors.pack_texts(texts)}
    append_batch(service.url, name, "a", arrays).raise_for_status()
    found = [one["record"] for one in printed(service, experiment)]
    assert [found[place] for place in (0, 1, 2, 4, 5, 6)] == [*texts[:3], *texts[4:6], "fine"]
    assert json.dumps(found[3]) == texts[3]


def test_what_is_no_record_is_refused(client: Optimist, name: str):
    pick = client.create_experiment(name, ["a", "b"], metric="mean", batch_size=2).ask()
    wrong = {
        "expected at most 8,192 bytes each, got 8,193 in row 1": [None, "x" * 8191],
        "expected values that JSON can represent, row 0": [{1, 2}, None],
        "expected as many rows of each tensor": ["one"],
    }
    for said, records in wrong.items():
        with pytest.raises(FixError, match=said):
            pick.tell([0.1, 0.2], records=records)
    assert not pick.settled
    pick.tell([0.1, 0.2], records=[None, "x" * 8190])


def judged(size: int, seed: int) -> dict[str, Any]:
    records = [{"answer": f"Answer {seed}", "reason": "None."}, {"seed": seed}, f"text {seed}", *[None] * (size - 3)]
    return {"values": np.random.default_rng(seed).random(size), "records": records}


def test_functions_of_run_may_return_them_and_answers_are_previews(client: Optimist, name: str):
    report = optimist.run({"a": judged, "b": judged}, metric="mean", batch_size=4, budget=40, progress=False)
    assert report.samples == 40
    experiment = client.create_experiment(
        name, ["a"], metric="mean", batch_size=4, grow=False, keep_log=True, previews=64, stop=False
    )
    experiment.run({"a": judged}, max_samples=40, progress=False)
    shown = {(one.pick, one.place): one.text for one in experiment.previews()}
    found = {(one.pick, one.row): one.record for one in experiment.records()}
    texts = {
        place: record["answer"] if isinstance(record, dict) else record
        for place, record in found.items()
        if place[1] != 1
    }
    assert shown == texts
    assert len(texts) == 20
