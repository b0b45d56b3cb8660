"""A goal that brings a model goes through all of it: registered in `steady_goal`, with its learner beside it."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from steady_goal import Steady

from optimist import Evaluation, simulate
from optimist_client import Optimist
from optimist_client.metrics import Mean
from tests.support.processes import serving, until

ENVIRONMENT = {"OPTIMIST_METRICS": "steady_goal", "PYTHONPATH": ":".join(sys.path)}
SPREADS = {"calm": 0.2, "usual": 1.0, "wild": 3.0}
SETTINGS = {"goal": "steady", "batch_size": 5, "budget": 600}


def rows(generator: str, size: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(0.0, SPREADS[generator], (size, 1))


def test_in_memory_and_saved(tmp_path: Path):
    evaluation = Evaluation(list(SPREADS), metric="mean", **SETTINGS)
    while not evaluation.decision().decided:
        name = evaluation.ask()
        evaluation.tell(name, rows(name, 5, evaluation.told))
    assert evaluation.report().decision.best == "calm"
    assert evaluation.route_table().steadiest == "calm"
    evaluation.save(tmp_path / "steady.npz")
    again = Evaluation.load(tmp_path / "steady.npz")
    assert (again.ask(), again.decision()) == (evaluation.ask(), evaluation.decision())
    assert again.report().goal == Steady.name


def test_simulated():
    sources = {name: rows(name, 400, place) for place, name in enumerate(SPREADS)}
    result = simulate(sources, goal="steady", metric="mean", policies=["uniform"], rounds=60, trials=1, stop=True)
    assert result.summaries[0]["accuracy"] in (0.0, 1.0)


@pytest.mark.long
def test_in_the_service(tmp_path: Path):
    with serving(tmp_path, environment=ENVIRONMENT) as service, Optimist(service.url) as client:
        experiment = client.create_experiment("steady", list(SPREADS), metric=Mean(), **SETTINGS)
        models = list[str | None]()
        for pick in experiment.picks(worker="one"):
            models.append(pick.info.model)
            pick.tell(rows(pick.generator, pick.size, pick.seed))
            if len(models) == len(SPREADS):  # so fast a worker spends the budget before there is a model
                until(lambda: experiment.report().note == "calm varies the least.")
        report = experiment.report()
        assert (report.goal, report.state, report.decision.best) == ("steady", "decided", "calm")
        assert any(models), "picks are made from a model"
