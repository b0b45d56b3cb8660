"""Scores of many files by the executors of other libraries, which are the real ones."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import optimist
from optimist_client.errors import FixError
from optimist_client.metrics import FID, Cosine, Vendi

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]  # clusters start slowly on a busy machine
METRICS = [FID(reference=np.random.default_rng(5).standard_normal((60, 6))), Vendi(kernel=Cosine())]


@pytest.fixture
def shards(tmp_path: Path) -> Path:
    folder, rng = tmp_path / "features", np.random.default_rng(0)
    folder.mkdir()
    for number, count in enumerate((1, 900, 4, 300)):
        np.save(folder / f"{number}.npy", rng.standard_normal((count, 6)) + 0.1)
    return folder


def check(shards: Path, executor: Any) -> None:
    """The executor has the bits of this process, and what is wrong names its file."""
    assert optimist.score(shards, METRICS, executor=executor) == optimist.score(shards, METRICS)
    for number in range(2):
        (shards / f"{number}.npy").unlink()
    np.save(shards / "2.npy", np.full((3, 6), np.inf))
    with pytest.raises((FixError, RuntimeError), match=r"2\.npy"):
        optimist.score(shards, METRICS, executor=executor)


@pytest.mark.filterwarnings("ignore")
def test_dask(shards: Path):
    distributed = pytest.importorskip("distributed")
    how = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    with distributed.LocalCluster(**how) as cluster, distributed.Client(cluster) as client:
        check(shards, client.get_executor())


@pytest.mark.filterwarnings("ignore")
def test_ray(shards: Path, monkeypatch: pytest.MonkeyPatch):
    ray = pytest.importorskip("ray")
    monkeypatch.setenv("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    ray.init(num_cpus=2, include_dashboard=False, logging_level="error", log_to_driver=False)

    class OnRay:
        def submit(self, fn: Callable[..., Any], /, *args: Any) -> Any:
            return ray.remote(fn).remote(*args).future()

    try:
        check(shards, OnRay())
    finally:
        ray.shutdown()


@pytest.mark.filterwarnings("ignore")
def test_submitit(shards: Path, tmp_path: Path):
    submitit = pytest.importorskip("submitit")
    jobs: list[Any] = []

    class Noting(submitit.LocalExecutor):
        def submit(self, fn: Callable[..., Any], *args: Any, **named: Any) -> Any:
            jobs.append(super().submit(fn, *args, **named))
            return jobs[-1]

    check(shards, Noting(tmp_path / "logs"))
    for job in jobs:
        job._process.wait()  # which a job of submitit never does
