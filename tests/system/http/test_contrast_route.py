"""The contrast of two generators: by HTTP, by the SDK, and in the report."""

from __future__ import annotations

import httpx
import numpy as np
import pytest

from optimist_client import Experiment, FixError, NotFoundError, Optimist
from tests.support.processes import Service, scored

MEANS = {"near": 1.0, "best": 0.0, "far": 3.0}
BATCHES = 8


def rows(generator: str, batch: int) -> np.ndarray:
    return np.random.default_rng([*generator.encode(), batch]).standard_normal((10, 4)) + MEANS[generator]


@pytest.fixture(scope="module")
def experiment(service: Service):
    """Three generators with 80 samples each, and one without."""
    with Optimist(service.url) as client:
        made = client.create_experiment(
            "contrasts", [*MEANS], reference=(np.zeros(4), np.eye(4)), batch_size=10, policy="uniform", stop=False
        )
        told = dict.fromkeys(MEANS, 0)
        for pick in made.picks(max_samples=10 * BATCHES * len(MEANS)):
            pick.tell(rows(pick.generator, told[pick.generator]))
            told[pick.generator] += 1
        scored(made)
        made.add_generator("late")
        yield made


def test_the_sdk_asks_for_any_two(experiment: Experiment, service: Service):
    found = experiment.contrast("near", "best")
    assert found == experiment.report().contrasts[0]
    turned = experiment.contrast("best", "near")
    assert turned.difference == pytest.approx(-found.difference)
    assert (turned.generator, turned.against) == ("best", "near")
    assert turned.standard_error == pytest.approx(found.standard_error)
    answer = httpx.get(f"{service.url}/v1/experiments/contrasts/contrast?generator=far&against=near")
    assert answer.json() == experiment.contrast("far", "near").model_dump()
    assert answer.json()["text"].count(" to ") == 1


def test_what_cannot_be_compared(experiment: Experiment, service: Service):
    for pair in (("none", "best"), ("best", "none")):
        with pytest.raises(NotFoundError, match="no generator 'none'"):
            experiment.contrast(*pair)
    with pytest.raises(FixError, match="'late' has no estimate yet"):
        experiment.contrast("best", "late")
    with pytest.raises(FixError, match="'best' twice"):
        experiment.contrast("best", "best")
    one = httpx.get(f"{service.url}/v1/experiments/contrasts/contrast", params={"generator": "best"})
    assert (one.status_code, "against" in one.json()["detail"]) == (422, True)
