"""The contrast of two generators: by HTTP, by both SDKs, in the report and in memory."""

from __future__ import annotations

import httpx
import numpy as np
import pytest

from optimist.local.evaluation import Evaluation
from optimist_client import AsyncOptimist, Experiment, FixError, NotFoundError, Optimist
from tests.support.processes import Service, scored

MEANS = {"near": 1.0, "best": 0.0, "far": 3.0}
BATCHES = 8


def rows(generator: str, batch: int) -> np.ndarray:
    return np.random.default_rng([*generator.encode(), batch]).standard_normal((10, 4)) + MEANS[generator]


@pytest.fixture(scope="module")
def experiment(service: Service, reference_of_module: tuple[np.ndarray, np.ndarray]):
    """Three generators with 80 samples each, and one without."""
    with Optimist(service.url) as client:
        made = client.create_experiment(
            "contrasts", [*MEANS], reference=reference_of_module, batch_size=10, policy="uniform", stop=False
        )
        told = dict.fromkeys(MEANS, 0)
        for pick in made.picks(max_samples=10 * BATCHES * len(MEANS)):
            pick.tell(rows(pick.generator, told[pick.generator]))
            told[pick.generator] += 1
        scored(made)
        made.add_generator("late")
        yield made


@pytest.fixture(scope="module")
def reference_of_module() -> tuple[np.ndarray, np.ndarray]:
    return np.zeros(4), np.eye(4)


def test_the_report_compares_all_others_with_the_best(experiment: Experiment):
    report = experiment.report()
    assert [(one.generator, one.against) for one in report.contrasts] == [("near", "best"), ("far", "best")]
    scores = {row.generator: row.score or 0.0 for row in report.standings}
    for one in report.contrasts:
        assert one.difference == pytest.approx(scores[one.generator] - scores["best"], abs=0.2)  # shown as 0 below 0
        assert one.standard_error is not None
        assert one.lower is not None
        # Wider than an interval of one look at one difference.
        assert one.difference - one.lower > 1.3 * 1.959964 * one.standard_error
        assert -1.0 < one.correlation < 1.0
        assert one.scale == report.scale


def test_the_sdk_asks_for_any_two(experiment: Experiment, service: Service):
    found = experiment.contrast("near", "best")
    assert found == experiment.report().contrasts[0]
    turned = experiment.contrast("best", "near")
    assert turned.difference == pytest.approx(-found.difference)
    assert (turned.generator, turned.against, turned.standard_error) == (
        "best",
        "near",
        pytest.approx(found.standard_error),
    )
    answer = httpx.get(
        f"{service.url}/v1/experiments/contrasts/contrast", params={"generator": "far", "against": "near"}
    )
    assert answer.json() == experiment.contrast("far", "near").model_dump()
    assert answer.json()["text"].count(" to ") == 1


async def test_the_async_sdk_does_too(experiment: Experiment, service: Service):
    async with AsyncOptimist(service.url) as client:
        made = await client.experiment(experiment.name)
        assert await made.contrast("far", "best") == experiment.contrast("far", "best")


def test_what_cannot_be_compared(experiment: Experiment, service: Service):
    with pytest.raises(NotFoundError, match="no generator 'none'"):
        experiment.contrast("none", "best")
    with pytest.raises(NotFoundError, match="no generator 'none'"):
        experiment.contrast("best", "none")
    with pytest.raises(FixError, match="'late' has no estimate yet"):
        experiment.contrast("best", "late")
    with pytest.raises(FixError, match="'best' twice"):
        experiment.contrast("best", "best")
    one = httpx.get(f"{service.url}/v1/experiments/contrasts/contrast", params={"generator": "best"})
    assert (one.status_code, "against" in one.json()["detail"]) == (422, True)
    none = httpx.get(f"{service.url}/v1/experiments/nothing/contrast", params={"generator": "a", "against": "b"})
    assert none.status_code == 404


def test_it_is_that_of_an_evaluation_in_memory(reference_of_module: tuple[np.ndarray, np.ndarray]):
    evaluation = Evaluation([*MEANS, "late"], reference=reference_of_module, batch_size=10)
    for generator in MEANS:
        for batch in range(BATCHES):
            evaluation.tell(generator, rows(generator, batch))
    estimates = evaluation.estimates()
    far, best = estimates["far"], estimates["best"]
    assert far is not None
    assert best is not None
    found = evaluation.contrast("far", "best")
    assert found.difference == pytest.approx(far.value - best.value)
    assert found.standard_error is not None
    assert found.standard_error > 0.0
    with pytest.raises(NotFoundError, match="none"):
        evaluation.contrast("none", "best")
    with pytest.raises(ValueError, match="'late' has no estimate yet"):
        evaluation.contrast("far", "late")
    with pytest.raises(ValueError, match="'far' twice"):
        evaluation.contrast("far", "far")
