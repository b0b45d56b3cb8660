"""A goal that the project does not know goes through all of it: registered in `worst_goal` alone."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import numpy as np
import pytest
from worst_goal import Worst

from optimist import Evaluation, run, simulate
from optimist_client import FixError, Optimist
from optimist_client.metrics import Mean
from tests.support.processes import serving

ENVIRONMENT = {"OPTIMIST_METRICS": "worst_goal", "PYTHONPATH": ":".join(sys.path)}
MEANS = {"low": -1.0, "middle": 0.0, "high": 2.0}


def rows(generator: str, size: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(MEANS[generator], 1.0, (size, 1))


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Optimist]:
    with serving(tmp_path_factory.mktemp("worst"), environment=ENVIRONMENT) as service, Optimist(service.url) as made:
        yield made


def test_in_memory():
    evaluation = Evaluation(list(MEANS), metric="mean", goal="worst")
    while not evaluation.decision().decided:
        name = evaluation.ask()
        evaluation.tell(name, rows(name, 5, evaluation.told))
    report = evaluation.report()
    assert (report.decision.best, report.goal, report.state) == ("low", Worst.name, "decided")
    assert report.sentences[0].startswith("Worst: low, ")


def test_functions_are_run_for_it():
    makers = {name: lambda size, seed, name=name: rows(name, size, seed) for name in MEANS}
    report = run(makers, metric="mean", goal="worst", budget=300, progress=False)
    assert report.decision.best == "low"


def test_its_config_is_checked_as_any():
    with pytest.raises(FixError, match=r"policy: the goal 'worst' has the policies .*; got 'ogd'"):
        Evaluation(list(MEANS), metric="mean", goal="worst", policy="ogd")
    with pytest.raises(FixError, match=r"goal: expected 'best', 'cheapest', 'mixture', 'route'.*'worst', got 'least'"):
        Evaluation(list(MEANS), metric="mean", goal="least")


def test_simulated():
    sources = {name: rows(name, 400, place) for place, name in enumerate(MEANS)}
    result = simulate(sources, goal="worst", metric="mean", policies=["ucb", "uniform"], rounds=30, trials=2)
    ours, even = result.summaries
    assert ours["accuracy"] == 1.0
    assert ours["regret"] < even["regret"]


@pytest.mark.long
def test_in_the_service_as_in_memory(client: Optimist):
    names, settings = list(MEANS), {"goal": "worst", "policy": "ucb", "rescore_growth": 0.0, "budget": 150}
    experiment = client.create_experiment("worst", names, metric=Mean(), **settings)
    evaluation = Evaluation(names, metric="mean", **settings)
    for pick in experiment.picks(worker="one"):
        assert pick.generator == evaluation.ask()
        batch = rows(pick.generator, pick.size, pick.seed)
        evaluation.tell(pick.generator, batch)
        pick.tell(batch)
    report = experiment.report()
    assert (report.goal, report.decision.best, report.ended) == ("worst", "low", True)
    assert report.sentences[0].startswith("Worst: low, ")
    assert evaluation.report("worst").decision.best == "low"
