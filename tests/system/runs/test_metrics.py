"""Each metric through the real service: the best generator is named, and bad batches of its kind are refused."""

from __future__ import annotations

import httpx
import numpy as np
import pytest

from optimist_client import FixError, Optimist, tensors
from optimist_client.metrics import Gaussian, InceptionScore, Metric, Vendi
from tests.support.configs import on_wire
from tests.support.processes import Service, batch_path

KERNEL = {"name": "gaussian", "sigma": 1.0, "features": 64}
PAIRS = {"metric": "conditional-vendi", "dimension": 3, "prompt_dimension": 2, "kernel": KERNEL, "prompts": ["a"]}


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
    for pick in experiment.picks():
        pick.tell(probabilities(pick.generator, pick.size, pick.seed))
    report = experiment.report()
    assert report.state == "out of budget"
    assert report.decision.confidence is None
    assert all(row.score is not None and row.standard_error is None for row in report.standings)


@pytest.mark.parametrize(
    ("config", "arrays", "expected"),
    [
        ({"metric": {"name": "is", "dimension": 3}}, {"features": np.eye(3)}, "probabilities"),
        ({"metric": {"name": "is", "dimension": 3}}, {"probabilities": np.array([[2.0, -3.0, 0.1]])}, "softmax"),
        ({"metric": {"name": "is", "dimension": 3}}, {"probabilities": np.array([[0.5, 0.3, 0.1]])}, "sum to 1"),
        ({"metric": {"name": "is", "dimension": 3}}, {"probabilities": np.full((1, 3), np.nan)}, "finite"),
        ({"metric": {"name": "is", "dimension": 3}}, {"probabilities": np.eye(4)}, "(n, 3)"),
        ({"metric": "rke", "dimension": 2, "kernel": {"name": "cosine"}}, {"features": np.zeros((1, 2))}, "zero"),
    ],
)
def test_bad_batches_are_refused_and_change_nothing(
    service: Service, client: Optimist, name: str, config: dict, arrays: dict, expected: str
):
    experiment = client.create_experiment(name, ["a", "b"], **config)
    path = service.url + batch_path(experiment.ask())
    problem = httpx.post(path, content=tensors.encode(arrays), headers={"content-type": tensors.MEDIA_TYPE})
    assert problem.status_code == 422
    assert expected in problem.json()["detail"]
    assert (experiment.report().samples, experiment.report().open_picks) == (0, 1)


def test_the_direction_is_known_before_the_first_estimate(client: Optimist, name: str):
    report = client.create_experiment(name, ["sharp"], metric="is", dimension=6).report()
    assert not report.lower_is_better
    assert (report.title, report.scale) == ("Inception Score", "log")


@pytest.mark.parametrize(
    ("metric", "named"),
    [
        (InceptionScore(dimension=6), {"metric": "is", "dimension": 6}),
        (
            Vendi(dimension=3, kernel=Gaussian(sigma=2, features=8), order=2.0),
            {"metric": "vendi", "dimension": 3, "kernel": {"sigma": 2.0, "features": 8}, "order": 2.0},
        ),
    ],
)
def test_both_spellings_of_a_metric_are_one_experiment(
    service: Service, client: Optimist, name: str, metric: Metric, named: dict
):
    made = client.create_experiment(name, ["a", "b"], metric=metric)
    assert client.create_experiment(name, ["a", "b"], **named).info == made.info
    assert made.info.config.metric == metric
    config = {"name": name, "generators": ["a", "b"], "metric": metric.model_dump()}
    assert httpx.post(f"{service.url}/v1/experiments", json=config).json() == made.info.model_dump(mode="json")
    for wrong, expected in (
        ({**metric.model_dump(), "budget": 5}, "does not take budget"),
        ({"name": "row-mean"}, "unknown metric 'row-mean'"),
        (metric.name, f'metric: expected an object such as {{"name": "{metric.name}", "dimension": "…"'),
        (7, 'metric: expected an object such as {"name": "fid", "reference": "…"}; got 7'),
    ):
        refused = httpx.post(f"{service.url}/v1/experiments", json={**config, "metric": wrong})
        assert refused.status_code == 422
        assert expected in refused.json()["detail"]
    for form in (metric.model_dump(), metric.name):
        beside = httpx.post(f"{service.url}/v1/experiments", json={**config, "metric": form, "dimension": 6})
        assert beside.status_code == 422
        expected = f'dimension: expected in the metric, an object such as {{"name": "{metric.name}", "dimension": "…"'
        assert expected in beside.json()["detail"]


def test_float16_probabilities_pass(client: Optimist, name: str):
    experiment = client.create_experiment(name, ["sharp"], metric="is", dimension=6, batch_size=50)
    experiment.ask().tell(probabilities("sharp", 50, 0).astype(np.float16))
    assert experiment.report().samples == 50


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"metric": "is"}, "dimension"),
        ({"metric": "is", "dimension": 3, "reference": "r"}, "reference"),
        ({"metric": {"name": "is", "dimension": 3}, "bound": "authors", "policy": "ucb"}, "authors"),
        ({"metric": {"name": "is", "dimension": 3}, "policy": "fid-ucb"}, "fid-ucb"),
        ({"metric": "rke", "dimension": 3}, "kernel"),
        ({"metric": "rke", "dimension": 3, "kernel": {"sigma": 0}}, "sigma"),
        ({"metric": "rke", "dimension": 3, "kernel": {"sigma": -1}}, "sigma"),
        ({"metric": "rke", "dimension": 3, "kernel": {"sigma": 9e-30}}, "sigma"),
        ({"metric": "rke", "dimension": 3, "kernel": {"sigma": 1e31}}, "sigma"),
        ({"metric": "rke", "dimension": 3, "kernel": {"sigma": "10"}}, "sigma"),
        ({"metric": "rke", "dimension": 3, "kernel": {"sigma": True}}, "sigma"),
        ({**PAIRS, "prompt_kernel": {"sigma": 1e-31}}, "prompt_kernel.sigma"),
        ({**PAIRS, "prompt_kernel": {"sigma": 1e31}}, "prompt_kernel.sigma"),
        ({"metric": "rke", "dimension": 3, "kernel": {"name": "cosine", "features": 64}}, "features: the cosine"),
        ({"metric": "rke", "dimension": 3, "kernel": {"name": "cosine", "seed": 1}}, "seed: the cosine"),
        ({"metric": "rke", "dimension": 3, "kernel": {}}, "sigma"),
        ({"metric": "rke", "dimension": 3, "kernel": {"sigma": "mean"}}, "sigma"),
        ({"metric": "rke", "dimension": 3, "kernel": {"name": "nystrom"}}, "sigma"),
        ({"metric": {"name": "is", "dimension": 3}, "prompts": ["a"]}, "prompts"),
        ({"metric": "rke", "dimension": 3, "kernel": KERNEL, "order": 3}, "order"),
        ({"metric": "vendi", "dimension": 3, "kernel": KERNEL, "order": 0}, "order"),
        ({"metric": "vendi", "dimension": 3, "kernel": KERNEL, "order": -1}, "order"),
        ({"metric": "vendi", "dimension": 3, "kernel": KERNEL, "order": 9e-7}, "order"),
        ({"policy": "greedy", "metric": ["fid"]}, "metric"),
        ({"policy": "greedy", "metric": {}, "bound": 1}, "metric"),
        ({"policy": "naive-ucb", "metric": {"name": "is", "dimension": 3}, "bound": ["naive"]}, "bound"),
        ({"policy": ["greedy"], "metric": {"name": "is", "dimension": 3}}, "policy"),
        ({"metric": "vendi", "dimension": 3, "kernel": KERNEL, "truncation": 0}, "truncation"),
        ({"metric": "vendi", "dimension": 3, "kernel": KERNEL, "truncation": 129}, "truncation"),
        ({"metric": "vendi", "dimension": 3, "kernel": {"name": "cosine"}, "truncation": 4}, "truncation"),
        (
            {"metric": "vendi", "dimension": 3, "kernel": KERNEL, "order": 0.5, "bound": "theorem", "policy": "ucb"},
            "0.5",
        ),
    ],
)
def test_configs_that_make_no_sense_are_refused(service: Service, client: Optimist, name: str, config, expected: str):
    reply = httpx.post(f"{service.url}/v1/experiments", json=on_wire(name=name, generators=["a", "b"], **config))
    assert reply.status_code == 422
    assert expected in reply.json()["detail"]
    assert name not in client.experiments()
    with pytest.raises(FixError):
        client.create_experiment(name, ["a", "b"], **config)


@pytest.mark.parametrize("kernel", [{"sigma": 1e-29}, {"sigma": 1e30}, {"sigma": 7}, {"name": "cosine"}])
def test_every_kernel_that_is_taken_is_scored(client: Optimist, name: str, kernel: dict):
    config = {"metric": "vendi", "dimension": 2, "kernel": kernel, "order": 1e-6}
    experiment = client.create_experiment(name, ["two"], budget=60, stop=False, **config)
    assert client.experiment(name).info.config == experiment.info.config
    for pick in experiment.picks():
        pick.tell(clusters(pick.generator, pick.size, pick.seed))
    (standing,) = experiment.report().standings
    assert standing.score is not None
    assert not any("not scored" in warning for warning in standing.warnings)


def test_an_order_of_infinity_crosses_the_wire(client: Optimist, name: str):
    config = {"metric": "vendi", "dimension": 2, "kernel": KERNEL, "order": float("inf")}
    experiment = client.create_experiment(name, ["two", "eight"], budget=60, stop=False, **config)
    assert client.experiment(name).info.config.metric.setting("order") == float("inf")
    for pick in experiment.picks():
        pick.tell(clusters(pick.generator, pick.size, pick.seed))
    assert all(row.score is not None for row in experiment.report().standings)
