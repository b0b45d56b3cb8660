"""The best mixture of what was told to an evaluation, and the goal "mixture"."""

from __future__ import annotations

import numpy as np
import pytest

from optimist.local.evaluation import Evaluation
from optimist_client import NotFoundError
from optimist_client.goals import BestMixture
from optimist_client.metrics import RKE, Gaussian, Vendi

NAMES = ("left", "right", "middle")
CENTRES = {"left": (-2.0, 0.0), "right": (2.0, 0.0), "middle": (0.0, 0.0)}
KERNEL = {"name": "gaussian", "sigma": 1.0, "features": 80}
GOAL = {"metric": "rke", "kernel": KERNEL, "goal": "mixture"}


def rows(name: str, count: int, seed: int) -> np.ndarray:
    width = 0.3 if name == "middle" else 1.0
    return np.array(CENTRES[name]) + width * np.random.default_rng((NAMES.index(name), seed)).standard_normal(
        (count, 2)
    )


def run(evaluation: Evaluation, batches: int) -> list[str]:
    picks = []
    for _ in range(batches):
        name = evaluation.ask()
        picks.append(name)
        evaluation.tell(name, rows(name, evaluation.batch_size, evaluation.next_start(name)))
    return picks


@pytest.fixture(scope="module")
def told() -> Evaluation:
    evaluation = Evaluation(NAMES, **GOAL, tolerance="5%")
    run(evaluation, 100)
    return evaluation


@pytest.mark.long
def test_samples_are_spent_as_the_mixture_needs_them(told: Evaluation):
    found = told.mixture()
    weights = {one.generator: one.weight for one in found.weights}
    assert weights["middle"] < 0.1
    assert weights["left"] == pytest.approx(0.5, abs=0.1)
    samples = {one.generator: one.samples for one in found.weights}
    assert sum(samples.values()) == found.samples == 500
    assert samples["middle"] < 60
    assert samples["left"] == pytest.approx(samples["right"], rel=0.25)
    assert found.gain > 0.5
    assert found.confidence > 0.99
    decision = told.decision()
    assert decision.decided
    assert decision.best in ("left", "right")
    assert "no other mixture is better than this one" in decision.reason
    assert decision.confidence == pytest.approx(1.0, abs=0.01)


@pytest.mark.parametrize(
    "policy",
    [BestMixture.policies[0], *(pytest.param(each, marks=pytest.mark.long) for each in BestMixture.policies[1:])],
)
def test_the_same_tells_give_the_same_picks_whenever_it_is_asked(policy: str):
    first, second = Evaluation(NAMES, **GOAL, policy=policy), Evaluation(NAMES, **GOAL, policy=policy)
    picks = run(first, 18)
    assert set(picks) == set(NAMES)
    for name in picks:
        second.tell(name, rows(name, 5, second.next_start(name)))
    assert (second.ask(), second.decision()) == (first.ask(), first.decision())


def test_counts_of_a_mixture_make_up_for_what_was_rounded(told: Evaluation):
    totals = dict.fromkeys(NAMES, 0)
    for size in (1, 1, 3, 10, 7, 1):
        found = told.blend(size)
        assert sum(found.counts.values()) == size
        totals = {name: total + found.counts.get(name, 0) for name, total in totals.items()}
    for name, total in totals.items():
        assert abs(total - 23 * found.weights[name]) < 1.0
    with pytest.raises(ValueError, match="size"):
        told.blend(0)


def test_every_goal_has_the_mixture():
    evaluation = Evaluation(
        NAMES,
        metric=RKE(kernel=Gaussian(1.0, features=80)),
        watch=[Vendi(kernel=Gaussian(1.0, features=40), label="truncated", truncation=3)],
    )
    with pytest.raises(ValueError, match="at least 4 samples"):
        evaluation.mixture()
    for name in NAMES:
        evaluation.tell(name, rows(name, 50, 0))
    found = evaluation.mixture()
    assert (found.label, found.samples, found.experiment) == ("rke", 150, None)
    assert sum(evaluation.blend(10).counts.values()) == 10
    with pytest.raises(NotFoundError):
        evaluation.mixture("fid")
    with pytest.raises(ValueError, match="no score of mixtures"):
        evaluation.mixture("truncated")


def test_open_kernels_come_first():
    evaluation = Evaluation(NAMES, metric="rke", kernel={"name": "gaussian", "sigma": "median", "features": 40},
                            goal="mixture", batch_size=20)  # fmt: skip
    needed = evaluation._primary.question.rows_to_fit(3)
    batches = -(-needed // 20)
    picks = run(evaluation, 3 * batches)
    assert {name: picks.count(name) for name in NAMES} == dict.fromkeys(NAMES, batches)
    assert evaluation.mixture().samples == 60 * batches
