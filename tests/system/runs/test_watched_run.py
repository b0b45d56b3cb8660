"""One experiment with several metrics and embeddings from end to end: one tell per batch, by both SDKs."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import numpy as np
import pytest

from optimist import Evaluation
from optimist_client import AsyncOptimist, Experiment, FixError, GeneratorError, Optimist
from optimist_client.embedders import Function
from optimist_client.metrics import FID, RKE, Gaussian, InceptionScore, Mean
from tests.support.processes import Service, scored

SHIFTS = {"near": 0.2, "best": 0.0, "far": 1.5}
KERNEL = Gaussian(sigma=2.0, features=16)
REAL = np.random.default_rng(0).standard_normal((400, 4))
OTHER = np.tanh(REAL)
WATCH = [
    InceptionScore(dimension=3),
    RKE(kernel=KERNEL),
    Mean(reads="brightness", higher_is_better=False),
    FID(reads="dinov2", reference=OTHER),
]
BATCH, ROUNDS = 10, 24


def sampled(generator: str, size: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((size, 4)) + SHIFTS[generator]


def probabilities(samples: np.ndarray) -> np.ndarray:
    shares = np.exp(samples[:, :3])
    return shares / shares.sum(axis=1, keepdims=True)


def brightness(samples: np.ndarray) -> np.ndarray:
    return np.abs(samples).mean(axis=1)


EMBED = {
    "features": Function("raw", 4, lambda samples: samples),
    "probabilities": probabilities,
    "brightness": brightness,
    "dinov2": Function("tanh", 4, np.tanh),
}


def drawn_by(generator: str):
    return lambda size, seed: sampled(generator, size, seed)


DRAWN: list[tuple[str, np.ndarray]] = []
"""What the experiment of this module was told, in order."""


def recorded(generator: str):
    def draw(size: int, seed: int) -> np.ndarray:
        DRAWN.append((generator, sampled(generator, size, seed)))
        return DRAWN[-1][1]

    return draw


@pytest.fixture(scope="module")
def experiment(service: Service):
    """An experiment that ran to its budget, all of it scored."""
    with Optimist(service.url) as client:
        made = client.create_experiment(
            "several-in-a-run",
            [*SHIFTS],
            reference=REAL,
            watch=WATCH,
            batch_size=BATCH,
            budget=BATCH * ROUNDS,
            policy="uniform",
            stop=False,
            embeddings={"features": "raw", "dinov2": "tanh"},
            keep_log=True,
        )
        report = made.run({name: recorded(name) for name in SHIFTS}, embed=EMBED)
        assert not report.scored or all(one.scored for one in report.watched.values()), "a run waits for all of them"
        scored(made)
        yield made


def test_references_of_all_metrics_were_uploaded_with_their_embeddings(experiment: Experiment, client: Optimist):
    known = {reference.name: reference for reference in client.references()}
    metrics = experiment.info.config.metrics
    assert metrics["fid"].setting("reference") != metrics["fid-dinov2"].setting("reference")
    assert known[metrics["fid"].setting("reference")].embedding == "raw"
    assert known[metrics["fid-dinov2"].setting("reference")].embedding == "tanh"


def test_the_report_is_that_of_an_evaluation_in_memory(experiment: Experiment):
    report = experiment.report()
    assert (report.samples, [*report.watched]) == (BATCH * ROUNDS, ["is", "rke", "mean-brightness", "fid-dinov2"])
    watch = [*WATCH[:3], FID(reads="dinov2", reference=OTHER)]
    evaluation = Evaluation([*SHIFTS], metric=FID(reference=REAL), watch=watch, batch_size=BATCH)
    for generator, samples in DRAWN:
        evaluation.tell(generator, {name: function(samples) for name, function in EMBED.items()})
    for label in ("fid", *report.watched):
        standings = report.standings if label == "fid" else report.watched[label].standings
        for row in standings:
            estimate = evaluation.estimates(label)[row.generator]
            assert row.score == pytest.approx(estimate.score, rel=1e-12), label
            assert row.upper == pytest.approx(estimate.natural(estimate.upper), rel=1e-12), label


def test_contrasts_by_each_metric(experiment: Experiment, service: Service):
    own = experiment.contrast("far", "best")
    assert own == experiment.contrast("far", "best", metric="fid")
    for label, watched in experiment.report().watched.items():
        found = experiment.contrast("far", "best", metric=label)
        assert found.standard_error is not None
        assert (found != own, found.scale) == (True, watched.scale)
    with pytest.raises(FixError, match="metric: expected one of fid, is, rke, mean-brightness, fid-dinov2; got 'kid'"):
        experiment.contrast("far", "best", metric="kid")
    at = f"{service.url}/v1/experiments/several-in-a-run/contrast?generator=far&against=best&metric=rke"
    assert httpx.get(at).json() == experiment.contrast("far", "best", metric="rke").model_dump()


def small(client: Optimist, name: str, watch: list[Any], **config: Any) -> Experiment:
    return client.create_experiment(name, ["a", "b"], metric=FID(reference=REAL), watch=watch, budget=20, **config)


def test_what_a_run_refuses_before_it_begins(client: Optimist, name: str):
    made = small(client, name, WATCH[2:3], embeddings={"features": "raw", "brightness": "lamp"})
    generators = {"a": drawn_by("near"), "b": drawn_by("best")}
    for embed, expected in (
        ({**EMBED, "brightnes": brightness}, "no metric reads 'probabilities'; the metrics read features, brightness"),
        ({"features": EMBED["features"], "brightness": 5}, "'brightness': expected a function of the samples, got 5"),
        ({"features": EMBED["features"]}, "the array 'brightness' takes embedding 'lamp'; got one named None"),
        (EMBED["features"], "the array 'brightness' takes embedding 'lamp'; got one named None"),
        ({"brightness": Function("lamp", 1, brightness)}, "the experiment takes embedding 'raw'; got one named None"),
    ):
        with pytest.raises(ValueError, match=expected):
            made.run(generators, embed=embed)
    assert made.report().open_picks == 0


def test_generators_may_return_arrays_beside_their_samples(client: Optimist, name: str):
    made = small(client, name, [Mean(reads="seconds"), Mean(reads="wit")], prompts=["dog", "cat"])

    def timed(size: int, seed: int, prompts: list[str]) -> dict[str, Any]:
        return {"samples": sampled("near", size, seed), "seconds": np.full(size, 0.1), "ids": [*range(size)]}

    def wit(samples: np.ndarray, prompts: list[str]) -> list[float]:
        return [float(len(prompt)) for prompt in prompts]

    report = made.run({"a": timed, "b": timed}, embed={"features": lambda samples: samples, "wit": wit})
    assert report.samples == 20


def test_a_function_that_raises_is_named(client: Optimist, name: str):
    made = small(client, name, WATCH[2:3])
    generators = {"a": drawn_by("near"), "b": drawn_by("best")}
    with pytest.raises(GeneratorError, match=r"embedding 'brightness' raised ZeroDivisionError"):
        made.run(generators, embed={"features": lambda samples: samples, "brightness": lambda samples: 1 / 0})
    with pytest.raises(FixError, match="found features; brightness is read by mean-brightness"):
        made.run(generators, embed={"features": lambda samples: samples})


async def test_the_async_sdk(service: Service, name: str):
    async def slowly(samples: np.ndarray) -> np.ndarray:
        await asyncio.sleep(0)
        return brightness(samples)

    async with AsyncOptimist(service.url) as client:
        made = await client.create_experiment(name, ["a", "b"], reference=REAL, watch=WATCH[2:], budget=30)
        generators = {"a": drawn_by("near"), "b": drawn_by("best")}
        embed = {"features": EMBED["features"], "dinov2": EMBED["dinov2"], "brightness": slowly}
        report = await made.run(generators, embed=embed, max_samples=20)
        pick = await made.ask()
        samples = sampled("best", pick.size, pick.seed)
        reply = await pick.tell({"features": samples, "brightness": brightness(samples), "dinov2": np.tanh(samples)})
        assert (report.samples, reply.batches >= 1) == (20, True)
