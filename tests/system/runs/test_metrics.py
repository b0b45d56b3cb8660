"""Each metric through the real service: the best generator is named, and bad batches of its kind are refused."""

from __future__ import annotations

import httpx
import numpy as np
import pytest

from optimist_client import FixError, Optimist
from optimist_client.metrics import Gaussian, Vendi
from tests.support.configs import on_wire
from tests.support.processes import Service

KERNEL = {"name": "gaussian", "sigma": 1.0, "features": 64}


def probabilities(generator: str, size: int, seed: int) -> np.ndarray:
    """Rows over 6 classes: `sharp` is sure of one class each and covers all, `blurred` is not, `narrow` knows two."""
    rng = np.random.default_rng(seed)
    classes = {"sharp": 6, "blurred": 6, "narrow": 2}[generator]
    weight = {"sharp": 0.9, "blurred": 0.5, "narrow": 0.9}[generator]
    rows = (1 - weight) * rng.dirichlet(np.ones(6), size)
    rows[np.arange(size), rng.integers(classes, size=size)] += weight
    return rows


def clusters(generator: str, size: int, seed: int) -> np.ndarray:
    """Points in the plane around 2, 5 or 8 centres: the more centres, the more diverse."""
    rng = np.random.default_rng(seed)
    angles = 2 * np.pi * rng.integers({"two": 2, "five": 5, "eight": 8}[generator], size=size) / 8
    return 4 * np.stack([np.cos(angles), np.sin(angles)], axis=1) + 0.2 * rng.standard_normal((size, 2))


@pytest.mark.parametrize(
    ("draw", "generators", "best", "config"),
    [
        (probabilities, ["blurred", "sharp", "narrow"], "sharp", {"metric": {"name": "is", "dimension": 6}}),
        (clusters, ["two", "five", "eight"], "eight", {"metric": "rke", "dimension": 2, "kernel": KERNEL}),
        (clusters, ["two", "five", "eight"], "eight", {"metric": "vendi", "dimension": 2, "kernel": KERNEL}),
        (
            clusters,
            ["two", "five", "eight"],
            "eight",
            {"metric": "vendi", "dimension": 2, "kernel": KERNEL, "truncation": 16},
        ),
    ],
    ids=["is", "rke", "vendi", "truncated"],
)
def test_the_service_names_the_best(client: Optimist, name: str, draw, generators, best: str, config: dict):
    experiment = client.create_experiment(name, generators, budget=6_000, **config)
    for pick in experiment.picks():
        pick.tell(draw(pick.generator, pick.size, pick.seed))
    report = experiment.report()
    assert report.state == "decided"
    assert report.decision.best == best
    assert not report.lower_is_better
    winner = next(row for row in report.standings if row.generator == best)
    assert 1.0 <= winner.lower <= winner.score <= winner.upper
    assert winner.score == max(row.score for row in report.standings)


@pytest.mark.parametrize("preset", ["is-ucb", "naive-ucb"])
def test_presets_run_to_their_budget(client: Optimist, name: str, preset: str):
    experiment = client.create_experiment(
        name, ["sharp", "narrow"], metric="is", dimension=6, policy=preset, budget=100
    )
    assert (experiment.info.config.policy, experiment.info.config.rescore_growth) == ("ucb", 0.0)
    first = experiment.report()
    assert (first.title, first.scale, first.lower_is_better) == ("Inception Score", "log", False)
    for pick in experiment.picks():
        pick.tell(probabilities(pick.generator, pick.size, pick.seed).astype(np.float16))
    report = experiment.report()
    assert (report.state, report.decision.confidence) == ("out of budget", None)
    assert all(row.score is not None and row.standard_error is None for row in report.standings)


def test_both_spellings_of_a_metric_are_one_experiment(service: Service, client: Optimist, name: str):
    metric = Vendi(dimension=3, kernel=Gaussian(sigma=2, features=8), order=2.0)
    named = {"metric": "vendi", "dimension": 3, "kernel": {"sigma": 2.0, "features": 8}, "order": 2.0}
    made = client.create_experiment(name, ["a", "b"], metric=metric)
    assert client.create_experiment(name, ["a", "b"], **named).info == made.info
    assert made.info.config.metric == metric
    config = {"name": name, "generators": ["a", "b"], "metric": metric.model_dump()}
    assert httpx.post(f"{service.url}/v1/experiments", json=config).json() == made.info.model_dump(mode="json")
    such_as = 'an object such as {"name": "vendi", "dimension": "…"'
    for change, expected in (
        ({"metric": {**metric.model_dump(), "budget": 5}}, "does not take budget"),
        ({"metric": "vendi"}, f"metric: expected {such_as}"),
        ({"metric": 7}, 'metric: expected an object such as {"name": "fid", "reference": "…"}; got 7'),
        ({"dimension": 6}, f"dimension: expected in the metric, {such_as}"),
        ({"metric": "vendi", "dimension": 6}, f"dimension: expected in the metric, {such_as}"),
    ):
        refused = httpx.post(f"{service.url}/v1/experiments", json={**config, **change})
        assert (refused.status_code, expected in refused.json()["detail"]) == (422, True), change


def test_configs_that_make_no_sense_are_refused(service: Service, client: Optimist, name: str):
    """What `create_experiment` itself refuses is in tests/sdk."""
    rke, vendi = {"metric": "rke", "dimension": 3}, {"metric": "vendi", "dimension": 3, "kernel": KERNEL}
    scores = {"metric": {"name": "is", "dimension": 3}}
    prompted = {**vendi, "metric": "conditional-vendi", "prompt_dimension": 2, "prompts": ["a"]}
    for config, expected in (
        ({**scores, "bound": "authors", "policy": "ucb"}, "authors"),
        *(({**rke, "kernel": {"sigma": sigma}}, "sigma") for sigma in (9e-30, 1e31, "10", True, "mean")),
        *(({**prompted, "prompt_kernel": {"sigma": sigma}}, "prompt_kernel.sigma") for sigma in (1e-31, 1e31)),
        ({**rke, "kernel": {"name": "cosine", "features": 64}}, "features: the cosine"),
        ({**rke, "kernel": {"name": "cosine", "seed": 1}}, "seed: the cosine"),
        *(({**vendi, "order": order}, "order") for order in (0, -1, 9e-7)),
        *(({**vendi, "truncation": truncation}, "truncation") for truncation in (0, 129)),
        ({**vendi, "kernel": {"name": "cosine"}, "truncation": 4}, "truncation"),
        ({**vendi, "order": 0.5, "bound": "theorem", "policy": "ucb"}, "0.5"),
        ({"policy": "greedy", "metric": ["fid"]}, "metric"),
        ({"policy": "greedy", "metric": {}, "bound": 1}, "metric"),
        ({**scores, "policy": "naive-ucb", "bound": ["naive"]}, "bound"),
        ({**scores, "policy": ["greedy"]}, "policy"),
    ):
        reply = httpx.post(f"{service.url}/v1/experiments", json=on_wire(name=name, generators=["a", "b"], **config))
        assert (reply.status_code, expected in reply.json()["detail"]) == (422, True), config
        with pytest.raises(FixError):
            client.create_experiment(name, ["a", "b"], **config)
    assert name not in client.experiments()


def test_every_kernel_and_order_that_is_taken_is_scored(client: Optimist, name: str):
    kernels = ({"sigma": 1e-29}, {"sigma": 1e30}, {"name": "cosine"})
    for place, (kernel, order) in enumerate([*((kernel, 1e-6) for kernel in kernels), (KERNEL, float("inf"))]):
        config = {"metric": "vendi", "dimension": 2, "kernel": kernel, "order": order}
        experiment = client.create_experiment(f"{name}-{place}", ["two"], budget=30, stop=False, **config)
        assert client.experiment(experiment.name).info.config == experiment.info.config
        assert experiment.info.config.metric.setting("order") == order
        for pick in experiment.picks():
            pick.tell(clusters(pick.generator, pick.size, pick.seed))
        (standing,) = experiment.report().standings
        assert standing.score is not None
        assert not any("not scored" in warning for warning in standing.warnings)
