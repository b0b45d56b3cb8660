"""What a service shows does not depend on the cores that it may use, to the last bit."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from optimist_client import Optimist
from optimist_client.metrics import KID, RKE, Gaussian, InceptionScore, Vendi
from tests.support.processes import scored, serving

D, SIZE = 560, 270
TOLD = {"few": 2, "many": 4}
"""Batches of each generator: one stays below the reference's rank, the other goes beyond. Of both, scipy's LAPACK
decomposes matrices of more than 512 rows, and so for the kernel's 600 features.
"""
CORES = (1, 4)
KERNEL = Gaussian(sigma=30.0, features=300)


def shown(directory: Path, cores: int) -> list[dict[str, Any]]:
    """All standings and contrasts of an experiment, played on a service that may use so many cores, if there are."""
    everywhere = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(everywhere)[:cores])  # children inherit it
    try:
        with serving(directory, environment={"OMP_NUM_THREADS": str(cores)}) as service:
            return played(service.url)
    finally:
        os.sched_setaffinity(0, everywhere)


def played(url: str) -> list[dict[str, Any]]:
    with Optimist(url) as client:
        real = np.random.default_rng(0).standard_normal((800, D))
        client.create_reference("real", features=real, keep_rows=True)
        watch = [KID(reference="real"), RKE(kernel=KERNEL), Vendi(kernel=KERNEL), InceptionScore(dimension=10)]
        asked = {"reference": "real", "watch": watch, "batch_size": SIZE, "stop": False}
        experiment = client.create_experiment("x", list(TOLD), **asked)
        for spread, (generator, batches) in zip((1.1, 1.2), TOLD.items(), strict=True):
            for _ in range(batches):
                pick = experiment.ask(generators=[generator])
                rng = np.random.default_rng(pick.seed)
                probabilities = rng.dirichlet(np.full(10, 0.3), SIZE)
                pick.tell({"features": spread * rng.standard_normal((SIZE, D)), "probabilities": probabilities})
        report = scored(experiment)
        return [
            one.model_dump(mode="json", include={"metric", "standings", "contrasts"})
            for one in (report, *report.watched.values())
        ]


@pytest.mark.long
@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="the system cannot confine a process to some cores")
def test_estimates_are_the_same_on_any_number_of_cores(tmp_path: Path):
    """Floats survive JSON to the last bit. Where there are fewer cores, the environment asks for as many threads."""
    found = [shown(tmp_path / str(cores), cores) for cores in CORES]
    assert len(found[0]) == 5
    for one in found[0]:
        assert sorted(row["scored_samples"] for row in one["standings"]) == [2 * SIZE, 4 * SIZE]
    assert found[1] == found[0]
