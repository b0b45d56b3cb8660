"""Means through the real service: directions, ranges, few values that repeat, and strict bounds that stop."""

from __future__ import annotations

import numpy as np
import pytest

from optimist import Evaluation
from optimist_client import Experiment, FixError, Optimist
from optimist_client.metrics import Mean, WinRate


def answer(generator: str, size: int, seed: int) -> np.ndarray:
    """Values 0 and 1, of mean 0.15 to 0.85."""
    rates = {"worst": 0.15, "poor": 0.3, "best": 0.85}
    return (np.random.default_rng(seed).random((size, 1)) < rates[generator]).astype(float)


def sample(experiment: Experiment) -> None:
    for pick in experiment.picks():
        pick.tell(answer(pick.generator, pick.size, pick.seed))


@pytest.mark.parametrize("bound", ["empirical-bernstein", "betting"])
def test_a_strict_bound_stops_as_it_does_in_memory(client: Optimist, name: str, bound: str):
    generators = ["worst", "poor", "best"]
    experiment = client.create_experiment(
        name, generators, metric=WinRate(), bound=bound, batch_size=10, rescore_growth=0.0, seed=3
    )
    evaluation = Evaluation(generators, metric=WinRate(), bound=bound, policy="top-two", batch_size=10,
                            rescore_growth=0.0, seed=3)  # fmt: skip
    for pick in experiment.picks():
        assert pick.generator == evaluation.ask()
        rows = answer(pick.generator, pick.size, pick.seed)
        evaluation.tell(pick.generator, rows)
        pick.tell(rows)
    report, decision = experiment.report(), evaluation.decision()
    assert report.decision.decided
    assert decision.decided
    assert (report.decision.best, report.decision.confidence) == ("best", 0.95)
    assert report.decision.reason == decision.reason
    assert [one.verdict for one in report.decision.verdicts] == ["worse", "worse"]
    for row in report.standings:
        estimate = evaluation.estimates()[row.generator]
        assert (row.score, row.lower, row.upper) == (estimate.value, estimate.lower, estimate.upper)
    assert "No interval reaches beyond that of best, and all of them hold at any time." in str(report)
    assert report.title == "Win rate"


def test_lower_is_better_where_the_metric_says_so(client: Optimist, name: str):
    metric = Mean(higher_is_better=False, range=(0, 1))
    experiment = client.create_experiment(name, ["worst", "best"], metric=metric, batch_size=10)
    assert client.create_experiment(name, ["worst", "best"], metric=metric, batch_size=10).info == experiment.info
    sample(experiment)
    report = experiment.report()
    assert report.lower_is_better
    assert report.decision.decided
    assert report.decision.best == "worst"
    assert report.ranking[0].generator == "worst"


def test_equal_batches_of_few_values_are_no_copies(client: Optimist, name: str):
    experiment = client.create_experiment(
        name, ["a", "b"], metric=WinRate(), batch_size=2, refuse_copies=True, budget=24
    )
    for pick in experiment.picks():
        pick.tell(np.ones((2, 1)))
    report = experiment.report()
    assert report.samples == 24
    assert not report.anomalies
    assert not report.decision.warnings
    assert not any(row.warnings for row in report.standings)


def test_values_outside_of_the_range_are_refused(client: Optimist, name: str):
    experiment = client.create_experiment(name, ["a"], metric=Mean(range=(0, 5)), batch_size=2)
    pick = experiment.ask()
    with pytest.raises(FixError, match="values: expected numbers from 0 to 5, got 6 in row 1"):
        pick.tell(np.array([[1.0], [6.0]]))
    with pytest.raises(FixError, match=r"values: expected shape \(n, 1\)"):
        pick.tell(np.ones((2, 2)))
    pick.tell(np.array([[1.0], [5.0]]))
    assert experiment.report().samples == 2


def test_a_bound_needs_its_range(client: Optimist, name: str):
    with pytest.raises((FixError, ValueError), match="needs the least and the largest value"):
        client.create_experiment(name, ["a"], metric=Mean(), bound="betting")
