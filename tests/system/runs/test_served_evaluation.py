"""`optimist evaluate --service`: the same file as workers of a service, with the same answer and the same costs."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from optimist.evaluating import told
from optimist.evaluating.canned import CannedModel, CannedServer
from optimist.evaluating.examples import adding, sums
from optimist.evaluating.play import Job
from optimist_client import Optimist


def test_two_workers_of_one_file_share_the_prompts(tmp_path: Path, client: Optimist, name: str):
    models = {
        "good": CannedModel(adding(0.95), fails=0.05, input=1.0, output=4.0),
        "bad": CannedModel(adding(0.4), input=1.0, output=4.0),
    }
    with CannedServer(models) as server:
        lines = "".join(
            f"  {model}: {{base_url: {server.url}, model: {model}, price: {{input: 1, output: 4}}}}\n"
            for model in models
        )
        file = tmp_path / "eval.yaml"
        file.write_text(f"models:\n{lines}prompts: questions.jsonl\nscore: contains\nat_once: 2\n")
        (tmp_path / "questions.jsonl").write_text("".join(f"{json.dumps(one)}\n" for one in sums(60)))

        def work(folder: str):
            return Job(file).serve(client, name, tmp_path / folder, progress=False)

        with ThreadPoolExecutor(2) as workers:
            one, other = workers.map(work, ["one", "other"])
        assert one.report.decision.best == other.report.decision.best == "good"
        assert not one.rows.keys() & other.rows.keys(), "no prompt is asked by both"
        found = [told.spent(each) for each in (one, other)]
        assert sum(calls for calls, _ in found) == len(server.served)
        assert sum(dollars for _, dollars in found) == pytest.approx(server.dollars)
    report = client.experiment(name).report()
    assert report.samples == len(one.rows) + len(other.rows)
    records = [*client.experiment(name).records()]
    assert {"prompt", "answer", "seconds", "dollars"} <= records[0].record.keys()
