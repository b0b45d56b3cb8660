"""The scorer's threads compute on one thread each, whatever the machine, the environment and others have set."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from threading import Barrier, Thread
from typing import Any

import numpy as np
import pytest
import torch
from redis.asyncio import Redis
from threadpoolctl import threadpool_info, threadpool_limits

from optimist.metrics.fid.influence import FrechetInfluence
from optimist.metrics.fid.reference import FrechetReference
from optimist.metrics.fid.statistic import GaussianStatistic
from optimist.scoring.scorer import Scorer
from optimist.store import Store

D, N = 520, 515
"""Matrices that scipy's LAPACK decomposes."""


def numbers() -> dict[str, int]:
    """The number of threads that the caller would compute on, by library; MKL is inside of torch."""
    found = {library["filepath"]: library["num_threads"] for library in threadpool_info()}
    mkl = [line.partition(":")[2] for line in torch.__config__.parallel_info().splitlines() if "mkl_get_max" in line]
    return found | {f"mkl {place}": int(each) for place, each in enumerate(mkl)} | {"torch": torch.get_num_threads()}


def in_the_pool() -> list[dict[str, int]]:
    """`numbers` in all threads of a new scorer, before and after an estimate; another thread has set two."""
    another = Thread(target=threadpool_limits, args=(2,))
    another.start()
    another.join()
    pools, together = Scorer(Store(Redis()))._in_thread.pools, Barrier(3)
    rows = torch.from_numpy(np.random.default_rng(0).standard_normal((N, D)))

    def seen() -> list[dict[str, int]]:
        together.wait()
        before = numbers()
        statistic = GaussianStatistic(D, keep=D)
        statistic.update(rows)
        FrechetInfluence(FrechetReference(np.zeros(D), np.eye(D))).analyse(statistic, {})
        return [before, numbers()]

    return [each for one in [pools[decides].submit(seen) for decides in (True, True, False)] for each in one.result()]


@pytest.mark.long
def test_every_library_has_one_thread_in_the_scorers_pools():
    """In a process of its own: OpenBLAS obeys one thread of a process, the first to set it."""
    environment: dict[str, Any] = {**os.environ, "OMP_NUM_THREADS": "4"}
    answer = subprocess.run([sys.executable, __file__], env=environment, capture_output=True, text=True, timeout=120)
    assert answer.returncode == 0, answer.stderr
    found = json.loads(answer.stdout)
    assert len(found) == 6
    for each in found:
        assert sys.platform != "linux" or sum("openblas" in path for path in each) >= 2, "numpy's and scipy's"
        assert set(each.values()) == {1}, each


if __name__ == "__main__":
    print(json.dumps(in_the_pool()))  # noqa: T201
