"""The demo as a user runs it: one JSON document on stdout, the true best named, and a kill in the middle survived."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from optimist_client import Optimist
from tests.support.processes import Service, free_port, is_alive
from tests.support.profiles import is_full

DEMO = [sys.executable, "-m", "optimist.cli", "demo", "--json"]
FULL = is_full()
"""Otherwise the conditional demo ends undecided, but with an answer."""
TRUE_BEST = "vae-1.4"
"""By the FID of 8,000 samples a generator: 2.31, the next 2.71 (tests/simulation checks the order)."""


@pytest.fixture(autouse=True)
def fitted_before(digits_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """That the demo fits its generators itself is tested in tests/simulation."""
    monkeypatch.setenv("OPTIMIST_CACHE", str(digits_cache))


@pytest.mark.long
def test_the_conditional_demo_names_the_most_diverse_that_follows_its_prompts():
    """By 20,000 samples: class-kde-0.1 14.2, class-kde-0.05 12.2, the one that ignores its prompts 10.5."""
    command = [*DEMO, "--metric", "conditional-vendi", "--seed", "0", *([] if FULL else ["--budget", "300"])]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["decision"]["best"] in (["class-kde-0.1"] if FULL else ["class-kde-0.1", "class-kde-0.05"])
    assert report["ended"]
    if FULL:
        assert report["decision"]["decided"]
        assert report["samples"] < report["uniform_samples"]


@pytest.mark.long
@pytest.mark.faults
def test_a_terminated_demo_leaves_nothing_running(tmp_path: Path):
    demo = subprocess.Popen([*DEMO, "--data-dir", str(tmp_path)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not (tmp_path / "lock").exists() or not (tmp_path / "lock").read_bytes():
        time.sleep(0.1)
    holder = json.loads((tmp_path / "lock").read_text())
    demo.terminate()
    assert demo.wait(60) != 0
    assert not is_alive(holder["service"])
    assert not is_alive(holder["redis-server"])


@pytest.mark.long
@pytest.mark.faults
def test_the_demo_names_the_true_best_though_its_service_is_killed_and_started_again(tmp_path: Path):
    port = free_port()
    options = ["--port", str(port), "--data-dir", str(tmp_path), "--seed", "0"]
    demo = subprocess.Popen([*DEMO, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    service = Service(tmp_path, port=port)
    try:
        with Optimist(service.url, patience=120) as client:
            while "digits-fid-0" not in client.experiments():
                time.sleep(0.1)
            experiment = client.experiment("digits-fid-0")
            while (before := experiment.report()).samples < 100:
                time.sleep(0.02)
            os.kill(json.loads((tmp_path / "lock").read_text())["service"], signal.SIGKILL)
            service.start()
            assert experiment.report().samples >= before.samples
        output, words = demo.communicate(timeout=200)
        assert demo.returncode == 0, words
        report = json.loads(output)
        assert report["ended"]
        assert report["samples"] == sum(row["samples"] for row in report["standings"])
        assert report["decision"]["best"] == TRUE_BEST
        assert report["decision"]["decided"]
        winner = next(row for row in report["standings"] if row["generator"] == TRUE_BEST)
        assert winner["lower"] < winner["score"] < winner["upper"]
        assert "With the same seeds it took" in words
    finally:
        demo.kill()
        service.stop()
