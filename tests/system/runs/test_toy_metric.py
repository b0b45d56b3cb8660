"""A metric that the project does not know goes through all of it: registered here alone, named nowhere else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import numpy as np
import pytest
from toy_metric import ColumnMean

from optimist import Evaluation, score, simulate
from optimist_client import ConflictError, Optimist
from tests.support import warm
from tests.support.alike import same
from tests.support.places import ROOT
from tests.support.processes import Service, serving

BROUGHT = ROOT / "tests" / "support" / "brought"
MEANS = {"low": -3.0, "middle": -2.0, "high": 0.5}
ENVIRONMENT = {"OPTIMIST_METRICS": "toy_metric", "PYTHONPATH": ":".join(sys.path)}


def rows(generator: str, size: int, seed: int) -> np.ndarray:
    """Four columns, of which the last is around the generator's mean."""
    found = np.random.default_rng(seed).standard_normal((size, 4))
    found[:, 3] += MEANS[generator]
    return found


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with serving(tmp_path_factory.mktemp("toy"), environment=ENVIRONMENT) as running:
        yield running


def test_in_memory(tmp_path: Path):
    """What its statistic declares as its state is all that a saved evaluation needs."""
    batch = rows("low", 50, 0)
    estimate = score(batch, ColumnMean(column=3))
    assert estimate.score == pytest.approx(batch[:, 3].mean())
    assert estimate.lower < estimate.score < estimate.upper
    with pytest.raises(ValueError, match="scores of 'column-mean' may be 0 or negative"):
        Evaluation(list(MEANS), metric=ColumnMean(column=3), tolerance="1%")
    with pytest.raises(ValueError, match="has the bounds influence"):
        Evaluation(list(MEANS), metric=ColumnMean(column=3), bound="theorem", policy="ucb")
    evaluation = Evaluation(list(MEANS), metric=ColumnMean(column=3))
    for step in range(60):
        if step == 8:
            evaluation.save(tmp_path / "saved")
            evaluation, before = Evaluation.load(tmp_path / "saved"), evaluation.estimates()
            assert evaluation.estimates() == before
        name = evaluation.ask()
        evaluation.tell(name, rows(name, 5, step))
    assert evaluation.decision().best == "low"


def test_on_files(tmp_path: Path):
    for name in ("low", "high"):
        np.save(tmp_path / f"{name}.npy", rows(name, 60, 0))
    command = ("score", "low.npy", "high.npy", "--json", "--metric=column-mean:column=3")
    done = warm.run(*command, env={**os.environ, **ENVIRONMENT}, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = {row["name"]: row["score"] for row in json.loads(done.stdout)}
    assert found == pytest.approx({name: rows(name, 60, 0)[:, 3].mean() for name in ("low", "high")})


def test_in_the_service_as_in_memory(client: Optimist, service: Service):
    config = {"name": "http", "generators": ["a", "b"], "metric": {"name": "column-mean", "dimension": 4}}
    made = httpx.post(f"{service.url}/v1/experiments", json=config)
    assert made.json()["config"]["metric"] == {"name": "column-mean", "dimension": 4, "column": 0}
    config["metric"] = {"name": "column-mean", "dimension": 4, "row": 1}
    refused = httpx.post(f"{service.url}/v1/experiments", json=config)
    assert (refused.status_code, "row" in refused.json()["detail"]) == (422, True)
    names, metric = list(MEANS), ColumnMean(dimension=4, column=3)
    experiment = client.create_experiment("toy", names, metric=metric, policy="ucb", rescore_growth=0.0, budget=200)
    assert client.create_experiment("toy", names, metric=metric, policy="ucb", rescore_growth=0.0, budget=200)
    with pytest.raises(ConflictError):
        client.create_experiment("toy", names, metric=ColumnMean(dimension=4), policy="ucb", budget=200)
    assert client.experiment("toy").info.config.metric == metric
    first = experiment.report()
    assert (first.metric, first.title, first.scale) == ("column-mean", "Column mean", "linear")
    assert first.lower_is_better
    assert first.offers == []
    evaluation = Evaluation(names, metric=metric, policy="ucb", rescore_growth=0.0)
    for pick in experiment.picks(worker="one"):
        assert pick.generator == evaluation.ask()
        batch = rows(pick.generator, pick.size, pick.seed)
        evaluation.tell(pick.generator, batch)
        pick.tell(batch)
    report = same(experiment, evaluation)
    assert report.in_order[0].generator == report.decision.best == "low"
    assert report.in_order[0].score is not None
    assert report.in_order[0].score < -2.0  # no floor cuts it off
    assert "Column mean" in str(report)


def test_simulated():
    sources = {name: rows(name, 400, place) for place, name in enumerate(MEANS)}
    result = simulate(sources, metric=ColumnMean(column=3), policies=["ucb", "uniform"], rounds=20, trials=2)
    assert list(result.judge.best) == ["low"]
    assert "Column mean of 3 generators" in str(result)


def test_no_line_of_the_project_names_it():
    roots = [ROOT / "service", ROOT / "clients"]
    named = [file for root in roots for file in root.rglob("*.py") if "column-mean" in file.read_text()]
    assert not named
    lines = [line for name in ("toy_metric.py", "toy_score.py") for line in (BROUGHT / name).read_text().splitlines()]
    assert len([line for line in lines if line]) <= 60


@pytest.mark.long
def test_the_api_takes_it_without_torch():
    code = "import sys, toy_metric, optimist.api.app; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], env=ENVIRONMENT).returncode == 0


def test_a_module_that_is_not_there_stops_the_service():
    ended = warm.run("serve", "--port=0", env={**os.environ, "OPTIMIST_METRICS": "no_such_metrics"})
    assert ended.returncode == 1
    assert ended.stderr == "OPTIMIST_METRICS: cannot import 'no_such_metrics': No module named 'no_such_metrics'\n"
