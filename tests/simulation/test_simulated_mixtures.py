"""Simulations with the goal "mixture": the truth, what policies draw and name, and the numbers made of it."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

import optimist
from optimist.simulation.judges.mixture import MixtureJudge, NamedMixture, TrueMixtures, marks_of
from optimist.simulation.plan import Plan
from optimist.simulation.result import SimulationResult
from optimist.simulation.run import Play, PolicyRun
from optimist_client.metrics import FID
from tests.support.commands import invoked

KERNEL = {"name": "gaussian", "sigma": 1.5, "features": 16}
LAWS = {"a": ((0.5, 1.0), 0.3), "b": ((2.5, 0.0), 0.7), "c": ((-1.5, 2.0), 0.9)}
"""Mean and deviation. What a makes lies between the others, so that it is hardly worth a place in the mixture."""


def rows(n: int = 300) -> dict[str, np.ndarray]:
    made = np.random.default_rng(0).standard_normal((len(LAWS), n, 2))
    return {name: deviation * own + mean for own, (name, (mean, deviation)) in zip(made, LAWS.items(), strict=True)}


def simulated(**changes: Any) -> SimulationResult:
    settings: dict[str, Any] = {"metric": "rke", "kernel": KERNEL, "rounds": 24, "trials": 2, "policies": "ogd,uniform"}
    settings |= {"sources": rows(), **changes}
    return optimist.simulate(settings.pop("sources"), goal="mixture", **settings)


@pytest.fixture(scope="module")
def played() -> SimulationResult:
    return simulated()


def squared_kernel(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """k² by the same frequencies as the product's."""
    omegas = np.random.default_rng(0).standard_normal((2, 16)) / 1.5
    return np.square(np.cos((one @ omegas)[:, None] - (other @ omegas)[None]).mean(axis=2))


@pytest.mark.long
def test_the_truth_is_the_unbiased_loss_of_all_samples(played: SimulationResult):
    made, n = list(rows().values()), 300
    pairs = np.array([[squared_kernel(one, other).mean() for other in made] for one in made])
    pairs[np.diag_indices(3)] = [(own * n - 1.0) / (n - 1) for own in pairs.diagonal()]
    grid = [np.array([i, j, 100 - i - j]) / 100.0 for i in range(101) for j in range(101 - i)]
    least = min(math.log(weights @ pairs @ weights) for weights in grid)
    assert played.judge.min_loss == pytest.approx(
        math.log(played.truth.weights @ pairs @ played.truth.weights), abs=1e-9
    )
    assert least - 1e-3 < played.judge.min_loss <= least
    np.testing.assert_allclose(played.judge.singles, np.log(pairs.diagonal()), atol=1e-9)


@pytest.mark.long
def test_our_policy_draws_by_the_best_weights_and_uniform_does_not(played: SimulationResult):
    ours, uniform = (played[policy] for policy in ("ogd", "uniform"))
    assert ours["drawn_excess"][:, -1].max() < uniform["drawn_excess"][:, -1].min()
    np.testing.assert_allclose(uniform.pick_shares, 1.0 / 3.0)
    assert (ours.pick_shares[:, 0] < 0.25).all()
    assert np.abs(ours["weights"] - played.truth.weights).max() < 0.2


def test_losses_are_judged_by_the_truth_that_is_given():
    truth = TrueMixtures(lambda weights: float(weights @ [1.0, 2.0, 3.0]), np.array([1.0, 0.0, 0.0]))
    found = simulated(truth=truth, rounds=12, trials=1)
    run = found["uniform"]
    assert (found.judge.min_loss, found.judge.best_single, found.truth.origin) == (1.0, "a", "given")
    assert run["drawn_excess"][0, -1] == pytest.approx(1.0)
    assert run["drawn_share"][0, -1] == pytest.approx(math.e - 1.0)
    assert run["named_excess"][0, -1] == pytest.approx(run["weights"][0] @ [0.0, 1.0, 2.0])


def judged(*picks: list[int], decided: bool = False) -> PolicyRun:
    truth = TrueMixtures(lambda weights: float(weights @ [2.0, 4.0]), np.array([1.0, 0.0]))
    judge = MixtureJudge(("a", "b"), Plan(rounds=4), cast("Any", None), FID(), truth)
    return judge.run([Play(np.array(own, np.int32), (), decided, None if decided else "b") for own in picks])


def test_the_numbers_by_hand():
    run = judged([0, 1, 1, 0], [1, 0])
    np.testing.assert_array_equal(run.marks, [2, 3, 4])
    np.testing.assert_allclose(run["drawn_excess"], [[1.0, 4 / 3, 1.0], [1.0, math.nan, math.nan]])
    np.testing.assert_allclose(run["drawn_share"], run["drawn_excess"] / 2.0)
    assert np.isnan(run["named_excess"]).all()
    curve = run.curve("drawn_excess")
    np.testing.assert_array_equal(curve.trials, [2, 1, 1])
    summary = run.summary("x")
    assert [summary[name] for name in ("drawn_excess", "drawn_share", "samples")] == [1.0, 0.5, 15.0]
    assert [summary[name] for name in ("named_excess", "gain_holds", "stop_samples")] == [None, None, None]
    assert [summary[name] for name in ("exhausted", "first_exhausted")] == [2, 2]
    stopped = judged([0, 1], decided=True)
    np.testing.assert_array_equal(stopped["drawn_excess"], [[1.0, 1.0, 1.0]])
    assert stopped.summary("x")["stop_samples"] == 10.0


def test_a_stop_is_wrong_if_the_mixture_named_last_is_worse_than_is_tolerated():
    """The least loss is 2, that of weights (w, 1 − w) 4 − 2w."""
    truth = TrueMixtures(lambda weights: float(weights @ [2.0, 4.0]), np.array([1.0, 0.0]))
    judge = MixtureJudge(("a", "b"), Plan(rounds=4, tolerance=0.5), cast("Any", None), FID(), truth)

    def trial(*weights: float, decided: bool = True) -> Play:
        named = tuple(
            NamedMixture(played, cast("Any", SimpleNamespace(weights=(a, 1.0 - a), gain=0.0, gain_error=1.0)))
            for played, a in enumerate(weights, start=1)
        )
        return Play(np.array([0, 1, 0, 1][: len(weights)], np.int32), named, decided)

    run = judge.run([trial(0.0, 0.8), trial(0.9, 0.7), trial(0.9, 0.7, 0.6, 0.7, decided=False)])
    assert run.wrong.tolist() == [False, True, True]
    np.testing.assert_allclose(run["named_excess"][:, -1], [0.4, 0.6, 0.6])
    summary = run.summary("x")
    assert (summary["decided"], summary["wrong_stops"]) == (2, 1)


def test_marks_are_within_the_rounds():
    assert marks_of(3, 5).tolist() == [3]
    marks = marks_of(1000, 4)
    assert (marks[0], marks[-1]) == (4, 1000)
    assert len(marks) <= 24
    assert (np.diff(marks) > 0).all()


@pytest.mark.long
def test_the_command_says_what_python_says(tmp_path: Path, draw_only: Callable[..., None]):
    samples: dict[str, Any] = dict(rows())
    np.savez(tmp_path / "problem.npz", **samples)
    told = [
        "--goal=mixture",
        "--metric=rke:kernel.sigma=1.5,kernel.features=16",
        f"--features={tmp_path / 'problem.npz'}",
    ]
    size = ["--rounds=24", "--trials=2", "--policy=ogd", "--policy=uniform"]
    files = {"csv": tmp_path / "curves.csv", "picks": tmp_path / "picks.csv"}
    wanted = [f"--{option}={file}" for option, file in files.items()]
    run = invoked("simulate", *told, *size, *wanted, f"--plot={tmp_path / 'figures'}", code=0)
    direct = simulated()
    listed = invoked("simulate", *told, *size, "--json")
    assert json.loads(listed.stdout) == json.loads(direct.to_json())
    assert all(line in run.output for line in direct.table().splitlines() if "excess" in line or "truth" in line)
    with files["csv"].open() as table:
        last = [row for row in csv.DictReader(table) if row["policy"] == "uniform"][-1]
    assert float(last["drawn_excess"]) == pytest.approx(direct["uniform"]["drawn_excess"][:, -1].mean())
    with files["picks"].open() as table:
        assert sum(1 for _ in csv.DictReader(table)) == 2 * 2 * 24
    assert sorted(file.name for file in (tmp_path / "figures").glob("*.svg")) == [
        "drawn_excess.svg",
        "named_excess.svg",
        "pick_share.svg",
    ]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"policies": "ucb"}, "expected one of ogd, mixture-ucb-cab"),
        ({"truth": {"a": 1.0}}, "expected TrueMixtures"),
        ({"truth": TrueMixtures(lambda weights: 0.0, np.ones(1))}, "the weights of 3 generators"),
    ],
)
def test_what_does_not_go_together_is_refused(changes: dict[str, Any], said: str):
    with pytest.raises(ValueError, match=said):
        simulated(**changes)


def test_mixtures_have_no_truth_for_the_goal_best():
    truth: Any = TrueMixtures(lambda weights: 0.0, np.ones(3))
    with pytest.raises(ValueError, match="expected scores by generator for the goal 'best'"):
        optimist.simulate(rows(), metric="rke", kernel=KERNEL, truth=truth, rounds=10)
    with pytest.raises(ValueError, match=r"goal: expected 'best', 'cheapest', 'mixture'.* got 'most'"):
        optimist.simulate(rows(), goal="most", metric="rke", kernel=KERNEL, rounds=10)
