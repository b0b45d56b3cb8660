"""`optimist worker`: generators of a module, some of them, so many samples; its end by SIGTERM, and by a kill."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from optimist_client import FixError, Optimist
from optimist_client.worker import find, work
from tests.support import warm
from tests.support.commands import invoked
from tests.support.processes import Service, until

MODULE = """
import os, time
from pathlib import Path
import numpy as np

SLOW = Path(os.environ.get("SLOW", "none"))

def sample(mean, size, seed):
    while SLOW.exists():
        time.sleep(0.01)
    return np.random.default_rng(seed).normal(mean, 1.0, size)

def load():
    return {"low": lambda size, seed: sample(0.0, size, seed), "high": lambda size, seed: sample(1.0, size, seed)}

ready = load()
broken = 3

def shifted(rows):
    return rows + 1.0
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> str:
    """A module of the working directory, of a name that no other test uses."""
    found = f"models_{name.replace('-', '_')}"
    (tmp_path / f"{found}.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    return found


def experiment(client: Optimist, name: str, **settings: object) -> None:
    client.create_experiment(name, ["low", "high"], metric="mean", batch_size=5, stop=False, **settings)


def test_it_samples_what_is_named_and_no_more_than_it_may(client: Optimist, service: Service, name: str, module: str):
    experiment(client, name)
    options = f"--url={service.url}", "--only=high", "--max-samples=20", f"--embed={module}:shifted"
    done = invoked("worker", name, f"{module}:load", *options, code=0)
    told = {one.generator: one.samples for one in client.experiment(name).report().standings}
    assert told == {"low": 0, "high": 20}
    assert "high" in done.output
    report = work(name, f"{module}:ready", service.url, max_samples=10)
    assert report.samples == 30
    assert report.open_picks == 0


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("models", "expected module:name"),
        ("nowhere_at_all:load", "there is no module 'nowhere_at_all'"),
        ("{module}:lod", "there is no 'lod', did you mean load?"),
        ("{module}:broken", "expected functions by the names of their generators"),
    ],
)
def test_what_is_wrong_is_said(client: Optimist, service: Service, name: str, module: str, place: str, said: str):
    done = invoked("worker", name, place.format(module=module), f"--url={service.url}", code=1)
    assert said in done.output
    assert "Traceback" not in done.output


def test_an_unknown_generator_is_refused_and_an_import_that_fails_is_shown(
    service: Service, name: str, module: str, tmp_path: Path
):
    with pytest.raises(FixError, match=r"only: expected some of low, high; got hihg, did you mean high\?"):
        work(name, f"{module}:load", service.url, only=["hihg"])
    (tmp_path / f"{module}_2.py").write_text("import not_installed_anywhere")
    with pytest.raises(ModuleNotFoundError, match="not_installed_anywhere"):
        find(f"{module}_2:load")


@pytest.mark.parametrize("workers", [1, 2])
def test_sigterm_gives_up_open_picks_and_another_worker_goes_on(
    client: Optimist, service: Service, name: str, module: str, tmp_path: Path, workers: int
):
    experiment(client, name, budget=40)
    slow = tmp_path / "slow"
    slow.touch()
    command = [*warm.CLI, "worker", name, f"{module}:load", f"--url={service.url}", f"--workers={workers}"]
    environment = {**os.environ, "SLOW": str(slow)}
    with warm.Popen(command, env=environment, stderr=subprocess.DEVNULL) as process:
        until(lambda: client.experiment(name).report().open_picks == workers)
        process.send_signal(signal.SIGTERM)
        until(lambda: client.experiment(name).report().open_picks == 0)
        slow.unlink()  # threads end when their functions return
        assert process.wait(30) == 128 + signal.SIGTERM
    assert client.experiment(name).report().samples == 0
    assert work(name, f"{module}:load", service.url).samples == 40
