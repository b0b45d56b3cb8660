"""Means in memory: directions, ranges, pairs by prompt, and decisions by intervals that hold at any time."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from optimist import Evaluation, score
from optimist.estimation.question import Question
from optimist.estimation.streaming import StreamingEstimator
from optimist_client.metrics import Mean, WinRate


def run(evaluation: Evaluation, means: dict[str, float], seed: int = 0, most: int = 4_000) -> None:
    """Bernoulli values of these means, until a decision."""
    rng = np.random.default_rng(seed)
    while not evaluation.decision(explain=False).decided and evaluation.told < most // evaluation.batch_size:
        name = evaluation.ask()
        evaluation.tell(name, (rng.random((evaluation.batch_size, 1)) < means[name]).astype(float))


@pytest.mark.parametrize("higher", [True, False])
def test_the_best_is_in_the_declared_direction(higher: bool):
    evaluation = Evaluation(["a", "b"], metric=Mean(higher_is_better=higher), policy="top-two")
    run(evaluation, {"a": 0.2, "b": 0.6})
    decision = evaluation.decision()
    assert decision.decided
    assert decision.best == ("b" if higher else "a")


@pytest.mark.parametrize("bound", ["empirical-bernstein", "betting"])
@pytest.mark.parametrize("policy", ["ucb", "uniform"])
def test_strict_bounds_stop(bound: str, policy: str):
    evaluation = Evaluation(["a", "b", "c"], metric=WinRate(), bound=bound, policy=policy, batch_size=20)
    run(evaluation, {"a": 0.1, "b": 0.7, "c": 0.2}, most=6_000)
    decision = evaluation.decision()
    assert (decision.best, decision.decided, decision.confidence) == ("b", True, 0.95)
    lower = evaluation.estimates()["b"].lower
    assert all(evaluation.estimates()[name].upper <= lower for name in "ac")


def test_the_intervals_of_several_generators_share_delta():
    """Each of three holds at δ/3, so that all of them hold at δ."""
    values = np.random.default_rng(0).random((200, 1))
    evaluation = Evaluation(["a", "b", "c"], metric=WinRate(), bound="betting", delta=0.06)
    evaluation.tell("a", values)
    made = evaluation.estimates()["a"]
    alone = score(values, WinRate(), bound="betting", delta=0.02)
    assert (made.lower, made.upper) == (alone.lower, alone.upper)
    assert made.upper > score(values, WinRate(), bound="betting", delta=0.06).upper


def test_values_outside_of_the_range_are_refused_and_change_nothing():
    evaluation = Evaluation(["a"], metric=Mean(range=(-1.0, 2.0)))
    evaluation.tell("a", np.zeros((3, 1)))
    with pytest.raises(ValueError, match=r"values: expected numbers from -1 to 2, got 2\.5 in row 1"):
        evaluation.tell("a", np.array([[0.0], [2.5]]))
    evaluation.tell("a", np.array([[2.0], [-1.0]]))
    assert evaluation.estimates()["a"].samples == 5
    with pytest.raises(ValueError, match=r"expected numbers from 0 to 1, got -0\.1 in row 0"):
        Evaluation(["a"], metric=WinRate()).tell("a", np.array([[-0.1]]))


def test_settings_are_checked():
    for wrong in ((1.0, 1.0), (2.0, 1.0), (0.0, float("inf")), (0.0, float("nan"))):
        with pytest.raises(ValueError, match="range"):
            Mean(range=wrong)
    for endless in ((0, math.inf), (0, None), (-math.inf, 1)):
        with pytest.raises(ValueError, match=r"two finite numbers, got .* time-out.*; bound 'betting' then holds"):
            Mean(range=endless)
    with pytest.raises(ValueError, match="needs the least and the largest value"):
        Evaluation(["a"], metric=Mean(), bound="betting")
    with pytest.raises(ValueError, match="has the bounds influence, empirical-bernstein, betting"):
        Evaluation(["a"], metric=Mean(), bound="theorem")
    with pytest.raises(ValueError, match="may be 0 or negative"):
        Evaluation(["a"], metric=Mean(), tolerance="1%")
    assert Mean.model_validate({"name": "mean", "range": [0, 1]}) == Mean(range=(0.0, 1.0))
    assert (WinRate().lower_is_better, Mean(higher_is_better=False).lower_is_better) == (False, True)


@pytest.mark.parametrize("share", [0.0, 0.5, 0.9])
def test_pairs_by_prompt_shrink_the_error_of_a_difference_by_the_correlation(share: float):
    """`share` of each score's variance belongs to the prompt, which both answer: Var(a − b) = 2 V (1 − share)/n."""
    rng, n = np.random.default_rng(5), 250
    prompts = rng.standard_normal((n, 1)) * np.sqrt(share)
    values = {name: prompts + rng.standard_normal((n, 1)) * np.sqrt(1 - share) for name in "ab"}
    found = {}
    for paired in (True, False):
        evaluation = Evaluation(["a", "b"], metric=Mean(), paired=paired, batch_size=10)
        for start in range(0, n, 10):
            for name in "ab":
                evaluation.tell(name, values[name][start : start + 10])
        found[paired] = evaluation.contrast("a", "b")
    assert found[False].standard_error == pytest.approx(np.sqrt(2 / n * (1 + 5 / n)), rel=0.15)
    correlation = np.corrcoef(values["a"][:, 0], values["b"][:, 0])[0, 1]
    assert found[True].correlation == pytest.approx(correlation if share else 0.0, abs=0.07)
    assert (found[True].standard_error / found[False].standard_error) ** 2 == pytest.approx(
        1 - found[True].correlation, abs=0.02
    )
    assert found[True].difference == pytest.approx(found[False].difference, abs=1e-12)


@pytest.mark.parametrize("bound", ["influence", "empirical-bernstein", "betting"])
def test_an_estimator_goes_on_from_its_stored_state_bit_for_bit(bound: str):
    made = Question(WinRate(), bound, generators=3).bound_for({"values": 1})
    rows = torch.from_numpy((np.random.default_rng(2).random((90, 1)) < 0.3).astype(float))
    batches, is_paired = rows.split(10), bound == "influence"
    ids = [f"{row}" for row in range(10)]
    whole = StreamingEstimator(made, 0.04, paired=is_paired)
    for place, batch in enumerate(batches[:-1]):
        whole.add({"values": batch}, ids, indices=(10 * place, 10))
    restored = StreamingEstimator(made, 0.04, paired=is_paired).restore(whole.state())
    for estimator in (whole, restored):
        estimator.add({"values": batches[-1]}, ids, indices=(80, 10))
    assert restored.estimate() == whole.estimate()
    assert all(torch.equal(tensor, restored.state()[name]) for name, tensor in whole.state().items())
