"""Fleets on the schedulers of clusters, with the real libraries: what is killed in the middle is lost for nobody."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from optimist.records import ExperimentState
from optimist.records.state import Returned, joined
from optimist.store import open_store, running_url
from optimist_client import Optimist
from tests.support.places import ROOT
from tests.support.processes import Service, command_line, serving, until

pytestmark = [pytest.mark.long, pytest.mark.filterwarnings("ignore")]
BUDGET = 150
"""Samples, too few for a decision: all of them have to be told."""


def started(example: str, *options: str, **environment: str) -> subprocess.Popen[str]:
    command = [sys.executable, str(ROOT / "examples" / f"{example}.py"), *options]
    environment = {**os.environ, **environment}
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def state(service: Service, name: str) -> ExperimentState:
    async def read() -> ExperimentState:
        url = running_url(service.directory)
        assert url is not None
        async with open_store(url) as store:
            return await store.state(name, told=True)

    return asyncio.run(read())


def check_complete(service: Service, name: str) -> None:
    """Nothing is lost: each index that was handed out was told, or is to be handed out again. Nothing is there twice:
    each counts once, and together they are the budget."""
    generators = state(service, name).generators
    for one in generators:
        told = [Returned(start, stop - start) for start, stop in one.told]
        assert joined([*told, *one.returned]) == [(0, one.handed)], one.name
        assert sum(run.size for run in told) == one.samples, one.name
    assert sum(one.samples for one in generators) == BUDGET


def actors() -> list[int]:
    """The processes of Ray's actors on this machine."""
    found = [int(path.name) for path in Path("/proc").glob("[0-9]*")]
    return [pid for pid in found if command_line(pid).startswith(b"ray::Worker")]


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A Ray cluster of a head without room, and nodes that a test adds."""
    pytest.importorskip("ray", reason="needs the extra ray, which is too large for dev")
    from ray.cluster_utils import Cluster

    folder = tempfile.mkdtemp(prefix="ray", dir="/tmp")  # a path of a socket has at most 107 characters
    monkeypatch.setenv("HOME", folder)  # Ray writes its token there
    monkeypatch.setenv("RAY_TMPDIR", folder)
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    (Path(folder) / "ray").mkdir()
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    try:
        yield made
    finally:
        made.shutdown()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.faults
def test_a_worker_and_a_node_of_ray_are_killed_in_the_middle(cluster: Any, tmp_path: Path):
    nodes = [cluster.add_node(num_cpus=2) for _ in range(2)]
    with serving(tmp_path) as service, Optimist(service.url) as client:
        options = f"--url={service.url}", "--name=killed", f"--budget={BUDGET}", "--delay=0.4"
        with started("fleet_ray", *options, RAY_ADDRESS=cluster.address) as driver:
            until(lambda: client.experiments() and client.experiment("killed").report().samples >= 20)
            os.kill(actors()[0], signal.SIGKILL)
            until(lambda: client.experiment("killed").report().samples >= 60)
            cluster.remove_node(nodes[0], allow_graceful=False)
            said, _ = driver.communicate(timeout=200)
        assert driver.returncode == 0, said
        assert f"killed: FID, {BUDGET} samples, out of budget" in said
        check_complete(service, "killed")


def test_jobs_of_submitit_share_one_experiment(tmp_path: Path):
    pytest.importorskip("submitit")
    with serving(tmp_path / "service") as service:
        options = f"--url={service.url}", "--name=jobs", f"--budget={BUDGET}", "--cluster=local", "--jobs=2"
        with started("fleet_slurm", *options, f"--folder={tmp_path / 'logs'}") as driver:
            said, _ = driver.communicate(timeout=200)
        assert driver.returncode == 0, said
        assert f"jobs: FID, {BUDGET} samples, out of budget" in said
        check_complete(service, "jobs")
