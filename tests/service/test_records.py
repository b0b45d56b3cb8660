"""Records of samples: kept with the log, never counted twice, printed as JSON lines, and read by no metric."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from processes import Service
from typer.testing import CliRunner

import optimist
from optimist.commands import app
from optimist_client import Experiment, FixError, Optimist


def printed(service: Service, experiment: Experiment) -> list[dict[str, Any]]:
    done = CliRunner().invoke(app, ["records", experiment.name, "--url", service.url])
    assert done.exit_code == 0, done.output
    return [json.loads(line) for line in done.stdout.splitlines()]


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


def test_functions_of_run_may_return_them():
    def judged(size: int, seed: int) -> dict[str, Any]:
        return {"values": np.random.default_rng(seed).random(size), "records": [{"seed": seed}] * size}

    report = optimist.run({"a": judged, "b": judged}, metric="mean", budget=40, progress=False)
    assert report.samples == 40
