"""`optimist evaluate`, killed twice with 200 calls on their way: each call is told once, none is lost, costs add up."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from optimist.evaluating.canned import Canned, CannedServer
from optimist.evaluating.examples import adding, sums

PROMPTS = 400
MODELS = {
    "good": Canned(adding(0.90), delay=0.3, fails=0.1, input=1.0, output=4.0),
    "near": Canned(adding(0.85), delay=0.3, fails=0.1, streams=True, input=1.0, output=4.0),
    "stuck": Canned(adding(1.0), hangs=1.0),
}


@pytest.mark.long
@pytest.mark.faults
@pytest.mark.timeout(600)
def test_nothing_is_lost_and_nothing_counts_twice(tmp_path: Path):
    with CannedServer(MODELS) as server:
        lines = "".join(
            f"  {name}: {{base_url: {server.url}, model: {name}, price: {{input: 1, output: 4}}, at_once: 200}}\n"
            for name in MODELS
        )
        file = tmp_path / "eval.yaml"
        more = "prompts: questions.jsonl\nscore: contains\nat_once: 200\ntimeout: 3\ntries: 8\n"
        file.write_text(f"models:\n{lines}{more}")
        (tmp_path / "questions.jsonl").write_text("".join(f"{json.dumps(one)}\n" for one in sums(PROMPTS)))
        command = [sys.executable, "-m", "optimist.cli", "evaluate", f"{file}", "--json"]
        for _ in range(2):
            before = len(server.served)
            with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as running:
                while len(server.served) < before + 220:
                    assert running.poll() is None
                    time.sleep(0.01)
                os.kill(running.pid, signal.SIGKILL)
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        said = json.loads(done.stdout)
        served = dict(server.served)
        most_at_once = server.most_at_once
    base = sqlite3.connect(tmp_path / "eval.answers" / "answers.sqlite")
    calls = {id: (outcome, cost) for id, outcome, cost in base.execute("SELECT id, outcome, cost FROM calls")}
    answers = dict(base.execute("SELECT who, count(*) FROM answers GROUP BY who").fetchall())
    base.close()
    assert most_at_once >= 150
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
    assert f"{len(cut)} requests were on the way when the command was killed" in " ".join(said["warnings"])
    assert any(warning.startswith("good: ") for warning in said["warnings"])
