"""`optimist evaluate`, killed twice with 200 calls on their way: each call is told once, none is lost, costs add up."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from optimist.evaluating.canned import CannedModel, CannedServer
from optimist.evaluating.examples import adding, sums
from tests.support.warm import CLI, Popen, run

PROMPTS = 400
MODELS = {
    "good": CannedModel(adding(0.90), delay=1.0, fails=0.1, input=1.0, output=4.0),
    "near": CannedModel(adding(0.85), delay=1.0, fails=0.1, streams=True, input=1.0, output=4.0),
    "stuck": CannedModel(adding(1.0), hangs=1.0),
}


def write(folder: Path, url: str, models: Mapping[str, CannedModel], more: str, each: str = "") -> Path:
    folder.mkdir(exist_ok=True)
    lines = "".join(
        f"  {name}: {{base_url: {url}, model: {name}, price: {{input: 1, output: 4}}{each}}}\n" for name in models
    )
    file = folder / "eval.yaml"
    file.write_text(f"models:\n{lines}prompts: questions.jsonl\nscore: contains\n{more}")
    (folder / "questions.jsonl").write_text("".join(f"{json.dumps(one)}\n" for one in sums(PROMPTS)))
    return file


def kill_after(calls: int, file: Path, server: CannedServer) -> None:
    before = len(server.served)
    with Popen(
        [*CLI, "evaluate", f"{file}", "--json"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as running:
        while len(server.served) < before + calls:
            assert running.poll() is None
            time.sleep(0.01)
        os.kill(running.pid, signal.SIGKILL)


@pytest.mark.long
@pytest.mark.faults
@pytest.mark.timeout(600)
def test_nothing_is_lost_and_nothing_counts_twice(tmp_path: Path):
    with CannedServer(MODELS) as server:
        more = "at_once: 200\ntimeout: 6\ntries: 8\n"
        file = write(tmp_path, server.url, MODELS, more, each=", at_once: 200")
        for _ in range(2):
            kill_after(220, file, server)
        done = run("evaluate", file, "--json")
        assert done.returncode == 0, done.stderr
        said = json.loads(done.stdout)
        served = dict(server.served)
        max_at_once = server.max_at_once
    base = sqlite3.connect(tmp_path / "eval.answers" / "answers.sqlite")
    calls = {id: (outcome, cost) for id, outcome, cost in base.execute("SELECT id, outcome, cost FROM calls")}
    answers = dict(base.execute("SELECT who, count(*) FROM answers GROUP BY who").fetchall())
    base.close()
    assert max_at_once >= 150
    cut = {id for id, (outcome, _) in calls.items() if outcome == "cut off"}
    assert cut
    assert served.keys() <= calls.keys(), "each call that came is written down"
    assert calls.keys() - served.keys() <= cut, "and no other, but for those that were killed before they were sent"
    for id in served.keys() - cut:
        assert calls[id][1] == pytest.approx(served[id].cost), calls[id]
    assert said["spent"]["calls"] == len(calls)
    assert said["spent"]["dollars"] == pytest.approx(sum(served[id].cost for id in served.keys() - cut))
    told = {row["generator"]: row["samples"] for row in said["report"]["standings"]}
    assert told == answers, "each answer is told once"
    assert said["report"]["decision"]["best"] == "good"
    assert said["requests"]["stuck"]["cut_off"] <= sum(one["cut_off"] for one in said["requests"].values()) == len(cut)
    assert any(warning.startswith("good: ") for warning in said["warnings"])


@pytest.mark.long
@pytest.mark.faults
def test_kills_leave_the_answer_as_it_would_have_been(tmp_path: Path):
    models = {
        "good": CannedModel(adding(0.9), delay=0.02, input=1.0, output=4.0),
        "near": CannedModel(adding(0.7), delay=0.02, input=1.0, output=4.0),
    }
    said: dict[str, str] = {}
    with CannedServer(models) as server:
        for folder, kills in {"whole": [], "killed": [9, 25, 30]}.items():
            file = write(tmp_path / folder, server.url, models, "at_once: 1\ntolerance: 0.01\n")
            for calls in kills:
                kill_after(calls, file, server)
            done = run("evaluate", file, "--json")
            assert done.returncode == 0, done.stderr
            said[folder] = json.loads(done.stdout)["answer"]
    assert said["killed"] == said["whole"]
    assert "Evidence" in said["whole"]
