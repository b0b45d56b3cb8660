"""Simulations: the authors' own picks, the same answer however it is run, and the numbers made of it."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

import optimist
from optimist.simulation.judges.best import BestJudge, TrueScore
from optimist.simulation.laboratory import SimulationWarning
from optimist.simulation.plan import Plan
from optimist.simulation.reporting import measured
from optimist.simulation.result import SimulationResult
from optimist.simulation.run import Play, PolicyRun
from optimist.simulation.sources import ArraySource, GaussianSource, SourceSet
from optimist.simulation.trial import Contender, contenders
from optimist_client.errors import FixError
from optimist_client.metrics import RKE, Gaussian, Mean, WinRate
from tests.support.commands import invoked
from tests.support.places import DATA

REFERENCE = (np.zeros(4), np.eye(4))


def rows(seed: int, shift: float = 0.0, n: int = 400, d: int = 4) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((n, d)) + shift


def problem(*shifts: float, n: int = 400) -> dict[str, np.ndarray]:
    return {f"g{shift}": rows(seed, shift, n) for seed, shift in enumerate(shifts)}


def simulated(sources: Any, **changes: Any) -> SimulationResult:
    settings = {"reference": REFERENCE, "rounds": 40, "trials": 3, "seed": 7, "batch_size": 5, "policies": "ucb"}
    return optimist.simulate(sources, **(settings | changes))


@pytest.fixture(scope="module")
def played() -> SimulationResult:
    return simulated(problem(0.0, 0.8, 1.0), policies=["ucb", "top-two", "uniform", "fid-ucb"])


def same(one: PolicyRun, other: PolicyRun) -> bool:
    named = all(np.array_equal(one[what], other[what], equal_nan=True) for what in ("named", "estimates"))
    return named and np.array_equal(one.picks, other.picks)


@pytest.mark.parametrize(
    ("file", "policy"),
    [pytest.param("trajectory_fd_ucb", "fd-ucb", marks=pytest.mark.long), ("trajectory_greedy", "greedy")],
)
def test_the_authors_picks_come_out_of_python_and_of_the_command(file: str, policy: str, tmp_path: Path):
    with np.load(DATA / f"{file}.npz") as data:
        streams, picks = data["streams"], data["picks"]
        moments = {"mean": data["mean_reference"], "covariance": data["covariance_reference"]}
    samples = {f"{g}": stream.reshape(-1, stream.shape[-1]) for g, stream in enumerate(streams)}
    policy = {"greedy": "greedy:bound=authors"}.get(policy, policy)
    settings = {"rounds": len(picks), "batch_size": streams.shape[2], "trials": 1, "shuffle": False}
    result = simulated(samples, reference=tuple(moments.values()), policies=policy, **settings)
    np.testing.assert_array_equal(result[policy].picks[0], picks)

    np.savez(tmp_path / "problem.npz", **samples)
    np.savez(tmp_path / "real.npz", **moments)
    size = [f"--rounds={len(picks)}", f"--batch-size={streams.shape[2]}", "--trials=1", "--no-shuffle"]
    told = [
        f"--features={tmp_path / 'problem.npz'}",
        f"--reference={tmp_path / 'real.npz'}",
        f"--picks={tmp_path / 'p.csv'}",
    ]
    invoked("simulate", "--policy", policy, *size, *told, code=0)
    with (tmp_path / "p.csv").open() as table:
        assert [int(row["generator"]) for row in csv.DictReader(table)] == picks.tolist()


@pytest.mark.long
def test_jobs_and_company_change_nothing(played: SimulationResult):
    sources = problem(0.0, 0.8, 1.0)
    for again in (simulated(sources, policies=["top-two", "ucb"], jobs=2), simulated(sources, policies="top-two,ucb")):
        assert all(same(again[policy], played[policy]) for policy in again.policies)
        assert again.truth == played.truth
    assert not same(simulated(sources, seed=8)["ucb"], played["ucb"])


@pytest.mark.long
def test_every_policy_of_a_trial_sees_the_same_samples(played: SimulationResult):
    """All draw each generator's first batches alike: after one batch each, the estimates are the same."""
    once = simulated(problem(0.0, 0.8, 1.0), policies=["uniform", "greedy:bound=influence", "thompson"], rounds=3)
    for policy in ("greedy:bound=influence", "thompson"):
        np.testing.assert_array_equal(once[policy]["estimates"], once["uniform"]["estimates"])


def trial(picks: list[int], named: list[int], exhausted: str | None = None) -> Play:
    return Play(np.array(picks, np.int32), (np.array(named, np.int32), np.zeros((3, 3))), False, exhausted)


def judged(plays: list[Play], *gaps: float) -> PolicyRun:
    """By generators that are so much worse than the best one."""
    truth = {f"{place}": TrueScore(gap, "given") for place, gap in enumerate(gaps)}
    plan, nowhere = Plan(rounds=max(len(play.picks) for play in plays)), cast("Any", None)
    return BestJudge(tuple(truth), plan, nowhere, Mean(higher_is_better=False), truth).run(plays)


def test_the_numbers_by_hand():
    """Two trials of three rounds; the second runs out of samples after two."""
    run = judged([trial([2, 0, 1], [-1, 0, 0]), trial([1, 0], [1, 1], "b")], 0.0, 1.0, 3.0)
    np.testing.assert_array_equal(run.picks, [[2, 0, 1], [1, 0, -1]])
    np.testing.assert_array_equal(run["regret"], [[3, 3, 4], [1, 1, math.nan]])
    np.testing.assert_array_equal(run["average_regret"], [[3, 1.5, 4 / 3], [1, 0.5, math.nan]])
    np.testing.assert_array_equal(run["optimal_pick_ratio"], [[0, 0.5, 1 / 3], [0, 0.5, math.nan]])
    np.testing.assert_array_equal(run["accuracy"], [[0, 1, 1], [0, 0, math.nan]])
    np.testing.assert_allclose(run.pick_shares, [[1 / 3, 1 / 3, 1 / 3], [0.5, 0.5, 0]])
    curve = run.curve("regret")
    np.testing.assert_array_equal(curve.mean, [2, 2, 4])
    np.testing.assert_array_equal(curve.error, [1, 1, math.nan])
    np.testing.assert_array_equal(curve.trials, [2, 2, 1])
    summary = run.summary("x")
    assert (summary["regret"], summary["regret_se"]) == pytest.approx((2.5, 1.5))
    assert [summary[name] for name in ("accuracy", "samples", "exhausted", "first_exhausted")] == [0.5, 12.5, 1, 2]
    # Only the first trial is left in the third round, and it is right.
    assert summary["samples_to_95"] == 15.0


def test_samples_to_95_counts_from_when_it_stays_right():
    def to_95(*named: list[int]) -> float | None:
        return judged([trial([0] * 4, row) for row in named], 0.0, 1.0).summary("x")["samples_to_95"]

    assert to_95([0, 0, 0, 0]) == 5.0
    assert to_95([0, 1, 0, 0], [-1, 0, 0, 0]) == 15.0
    assert to_95([0, 0, 0, 1]) is None
    right, lapsed = [0, 0, 0, 0], [0, 0, 1, 0]
    assert to_95(*[right] * 19, lapsed) == 5.0
    assert to_95(*[right] * 18, lapsed, lapsed) == 20.0


@pytest.mark.long
def test_regret_is_counted_by_the_truth_that_is_given(played: SimulationResult):
    truth = {"g0.0": 1.0, "g0.8": 3.0, "g1.0": 11.0}
    given = simulated(problem(0.0, 0.8, 1.0), truth=truth)
    assert same(given["ucb"], played["ucb"])
    counts = given["ucb"].samples / 5
    np.testing.assert_allclose(given["ucb"]["regret"][:, -1], counts @ [0.0, 2.0, 10.0])
    assert {known.origin for known in given.truth.values()} == {"given"}


def test_generators_within_the_tolerance_count_as_best():
    truth = {"g0.0": 1.0, "g0.8": 1.009, "g1.0": 1.02}
    for tolerance, best in (("1%", 2), (0.03, 3), (0.0, 1)):
        found = simulated(problem(0.0, 0.8, 1.0), truth=truth, tolerance=tolerance, rounds=5, trials=1)
        assert list(found.judge.is_best) == [place < best for place in range(3)]


def test_truth_is_of_all_samples_or_closed_and_gaps_are_on_the_natural_scale():
    gaussians = {"wide": GaussianSource(np.zeros(4), 4.0 * np.eye(4)), "near": GaussianSource(np.ones(4), np.eye(4))}
    result = simulated(gaussians, rounds=5, trials=1)
    assert [known.score for known in result.truth.values()] == pytest.approx([4.0, 4.0])
    assert {known.origin for known in result.truth.values()} == {"closed form"}
    kernel = {"sigma": 2.0, "features": 32}
    samples = problem(0.0, 3.0)
    samples["g3.0"] *= 0.1
    vendi = simulated(samples, metric="vendi", kernel=kernel, reference=None, rounds=5, trials=1)
    expected = [optimist.score(each, "vendi", kernel=kernel).score for each in samples.values()]
    assert [known.score for known in vendi.truth.values()] == pytest.approx(expected)
    np.testing.assert_allclose(vendi.judge.gaps, [0.0, expected[0] - expected[1]])
    assert vendi.truth["g0.0"].origin == "de-biased, all 400 samples"


def test_open_kernels_are_fixed_once_for_all():
    settings = {"metric": "rke", "kernel": {"sigma": "median", "features": 16}, "reference": None, "rounds": 12}
    result = simulated(problem(0.0, 0.5), policies=["ucb", "rke-ucb"], **settings)
    assert (result["ucb"]["named"][:, 4:] >= 0).all(), "no warm-up to fix a kernel"


@pytest.mark.long
def test_a_trial_ends_where_a_generator_has_run_out():
    with pytest.warns(SimulationWarning, match=r"expected 200 samples of each.* found 32 in generator 'g0.0', 32 in"):
        result = simulated(problem(0.0, 3.0, n=32), policies=["ucb", "uniform"])
    run = result["uniform"]
    assert (run.lengths == 12).all(), "six whole batches of each"
    assert run.exhausted == ("g0.0",) * 3
    assert (run.samples <= 30).all()
    (note,) = [line for line in result.table().splitlines() if line.startswith("uniform:")]
    found = "uniform: 3 of 3 trials ended early, the first after 12 batches"
    assert note == f"{found}, because no samples of g0.0 were left."


@pytest.mark.long
def test_stopping_ends_trials_and_its_numbers_stand():
    result = simulated(problem(0.0, 2.0), policies=["top-two", "fid-ucb"], stop=True)
    stopped, running = result["top-two"], result["fid-ucb"]
    assert stopped.decided.all()
    assert not running.decided.any(), "a bound without errors runs on"
    assert (stopped.lengths < 40).all()
    ends = stopped.lengths - 1
    np.testing.assert_array_equal(stopped["regret"][:, -1], stopped["regret"][range(3), ends])
    np.testing.assert_array_equal(stopped["accuracy"][:, -1], 1.0)
    summary = stopped.summary("x")
    assert (summary["decided"], summary["wrong_stops"]) == (3, 0)
    assert summary["stop_samples"] == float(stopped.lengths.mean() * 5)
    wrong = simulated(problem(0.0, 2.0), policies="top-two", stop=True, truth={"g0.0": 5.0, "g2.0": 1.0})
    assert wrong.summaries[0]["wrong_stops"] == 3


def checkpoints(n: int = 300) -> dict[str, np.ndarray]:
    """Generators that answer the same noise alike."""
    return {f"g{shift}": rows(1, shift, n) for shift in (0.5, 0.6, 0.7)}


@pytest.mark.long
def test_rows_that_are_aligned_are_compared_by_row():
    settings: dict[str, Any] = {"policies": "top-two", "stop": True, "rounds": 60, "trials": 2}
    paired = simulated(checkpoints(), paired=True, **settings)
    run = paired["top-two"]
    assert run.decided.all()
    assert paired.summaries[0]["wrong_stops"] == 0
    unpaired = simulated(checkpoints(), **settings)
    assert run.samples.sum() * 2 < unpaired["top-two"].samples.sum()
    assert (paired.plan.paired, unpaired.plan.paired) == (True, False)
    assert "FID of 3 generators, paired, 2 trials" in paired.table()
    assert "paired" not in unpaired.table()
    assert json.loads(paired.to_json())[0]["paired"] is True


@pytest.mark.parametrize(
    ("sources", "changes", "message"),
    [
        ({"a": rows(1, d=3), "b": rows(2)}, {"metric": "rke", "reference": None, "kernel": {"sigma": 1.0}},
         "generator 'b': features: expected 3 columns, as generator 'a' has; found 4"),
        ({"a": {"probabilities": rows(1)}}, {}, "generator 'a': expected features, found probabilities"),
        ({"a": rows(1), "b": rows(2, n=300)}, {"paired": True},
         "so as many rows of each; found 400 in generator 'a', 300 in generator 'b'"),
        ({"a": rows(1), "b": GaussianSource(np.zeros(4), np.eye(4))}, {"paired": True}, "any number in a Gaussian"),
        ({"a": rows(1)}, {"truth": {"a": math.nan}}, "expected a finite score of 'fid' for 'a', got nan"),
        ({"a": rows(1)}, {"trials": 0}, "trials"),
        ({"a": rows(1)}, {"policies": "is-ucb"}, "preset 'is-ucb' is of metric 'is'"),
        ({"a": rows(1)}, {"policies": "thompson:bound=theorem"}, "standard errors"),
        ({"a": rows(1)}, {"policies": "ucb:bound=theorem,kappa=1"}, "kappa"),
        ({}, {}, "sources: expected generators by name"),
    ],
)  # fmt: skip
def test_nonsense_is_refused_before_anything_is_played(sources: Any, changes: dict[str, Any], message: str):
    """What a command line can ask for, too: test_simulate_refusals.py."""
    with pytest.raises(ValueError, match=message):
        simulated(sources, **changes)


def test_policies_as_they_are_written():
    def parsed(policies: Any) -> list[Contender]:
        return contenders(policies, BestJudge.policies)

    (one, two, three) = parsed("ucb:bound=theorem,delta=0.1,greedy, fd-ucb:M=0.3")
    assert (one.label, one.settings) == (
        "ucb:bound=theorem,delta=0.1",
        {"policy": "ucb", "bound": "theorem", "delta": 0.1},
    )
    assert (two.settings, three.settings) == ({"policy": "greedy"}, {"policy": "fd-ucb", "M": 0.3})
    assert parsed({"ours": "ucb:warmup=3"})[0].settings == {"policy": "ucb", "warmup": 3}
    for text, message in (
        ("ucb:warmup", "expected name:setting=value,setting=value; got 'ucb:warmup'"),
        ("ucb,ucb", "without duplicates"),
    ):
        with pytest.raises(ValueError, match=message):
            parsed(text)


def test_a_problem_s_settings_hold_unless_others_are_given():
    made = SourceSet({"a": ArraySource({"features": rows(0)}), "b": ArraySource({"features": rows(1)})},
               {"metric": "rke", "kernel": {"sigma": 1.0, "features": 8}})  # fmt: skip
    assert optimist.simulate(made, rounds=4, trials=1).judge.metric.name == "rke"
    assert simulated(made, metric="fid", rounds=4, trials=1).judge.metric.name == "fid"
    declared = SourceSet(made.sources, {"metric": RKE(kernel=Gaussian(1.0, features=8))})
    for text, order in (("rke", 8), ("rke:kernel.sigma=2,kernel.features=4", 4)):
        named = optimist.simulate(declared, metric=text, rounds=4, trials=1).judge.metric
        assert named.kernel.features == order


def test_what_is_written(played: SimulationResult, tmp_path: Path):
    listed = json.loads(played.to_json(tmp_path / "out.json"))
    assert listed == json.loads((tmp_path / "out.json").read_text())
    assert [each["policy"] for each in listed] == ["ucb", "top-two", "uniform", "fid-ucb"]
    wanted = ("regret", "average_regret", "optimal_pick_ratio", "accuracy", "samples_to_95")
    assert all({name, f"{name}_se"} <= set(each) for name in wanted for each in listed)
    assert listed[0]["regret"] == pytest.approx(played["ucb"]["regret"][:, -1].mean())
    assert listed[0]["best"] == ["g0.0"]
    played.to_csv(tmp_path / "out.csv")
    with (tmp_path / "out.csv").open() as file:
        table = list(csv.DictReader(file))
    assert len(table) == 4 * 40
    assert float(table[39]["regret"]) == pytest.approx(listed[0]["regret"])
    assert (table[39]["round"], table[39]["samples"], table[39]["trials"]) == ("40", "200", "3")
    text = played.table()
    assert all(policy in text for policy in played.policies)
    assert "Best: g0.0" in text
    assert "all 400 samples" in text


def test_a_table_is_broken_into_several_where_there_is_no_room(played: SimulationResult):
    cells = [measured(one[name], one[f"{name}_se"]) for one in played.summaries for name in ("regret", "accuracy")]
    for width, tables in ((200, 1), (80, 1), (60, 2), (40, 3)):
        lines = played.table(width).splitlines()
        assert max(map(len, lines)) <= width
        assert sum("──" in line for line in lines) == tables
        assert all(any(cell in line for line in lines) for cell in cells), "a number in one piece"
        assert sum(line.strip().startswith("top-two") for line in lines) == tables


def test_names_are_escaped_in_notebooks():
    result = simulated({"<i>": rows(0), "c": rows(1)}, rounds=2, trials=1)
    shown = result._repr_html_()
    assert "&lt;i&gt;" in shown
    assert "<i>" not in shown


@pytest.mark.long
def test_every_figure_is_drawn_in_both_formats(tmp_path: Path, draw_only: Callable[..., None]):
    with pytest.warns(SimulationWarning):
        result = simulated(problem(0.0, 0.8, n=60), policies=["ucb", "uniform"])
    files = result.plot(tmp_path / "figures")
    stems = {"total_regret", "average_regret", "optimal_pick_ratio", "accuracy", "pick_share", "estimates"}
    assert {file.stem for file in files} == stems
    for file in files:
        start = file.read_bytes()[:200]
        assert start.startswith(b"\x89PNG") if file.suffix == ".png" else b"<?xml" in start
    for stem in stems:  # the text of each label is in a comment
        text = (tmp_path / "figures" / f"{stem}.svg").read_text()
        assert all(f"<!-- {policy} -->" in text for policy in ("ucb", "uniform"))
    drawn = (tmp_path / "figures" / "total_regret.svg").read_bytes()
    draw_only("total_regret")
    result.plot(tmp_path / "figures")
    assert (tmp_path / "figures" / "total_regret.svg").read_bytes() == drawn


@pytest.mark.long
def test_the_command_warns_first_and_writes_what_it_is_asked_to(tmp_path: Path, draw_only: Callable[..., None]):
    draw_only("accuracy")
    (tmp_path / "problem").mkdir()
    for name, samples in problem(0.0, 1.0, n=50).items():
        np.save(tmp_path / "problem" / f"{name}.npy", samples)
    np.savez(tmp_path / "problem" / "real.npz", mean=np.zeros(4), covariance=np.eye(4))
    told = [f"--features={tmp_path / 'problem'}", f"--reference={tmp_path / 'problem' / 'real.npz'}", "--rounds=15"]
    written = [f"--csv={tmp_path / 'o.csv'}", f"--plot={tmp_path / 'figures'}"]
    run = invoked("simulate", *told, "--trials=2", "--policy=ucb", "--policy=fd-ucb", *written, code=0)
    assert "found 50 in " in run.stderr
    assert "g0.0.npy, 50 in " in run.stderr
    assert "FID of 2 generators, 2 trials of 15 batches of 5, seed 0" in run.stdout
    listed = invoked("simulate", *told, "--trials=2", "--policy=ucb", "--policy=fd-ucb", "--json")
    assert len(json.loads(listed.stdout)) == 2
    assert (tmp_path / "o.csv").exists()
    assert len(list((tmp_path / "figures").iterdir())) == 2


def test_rows_that_are_answers_to_a_list_end_with_it():
    rng = np.random.default_rng(0)
    hard = rng.standard_normal(63)
    answers = {name: ((hard + 0.5 * rng.standard_normal(63)) > 0.0)[:, None] * 1.0 for name in "ab"}
    asked: dict[str, Any] = {"metric": WinRate(repeatable=True), "policies": "top-two", "trials": 3, "rounds": 100}
    run = optimist.simulate(answers, prompts_are="list", paired=True, stop=True, **asked)["top-two"]
    # 63 answers of each in batches of 5: exact then, where it was not decided before.
    assert run.lengths.max() <= 26
    assert run.decided.all()
    with pytest.raises(FixError, match="prompts_are: expected paired rows, as many of every generator"):
        optimist.simulate(answers, prompts_are="list", paired=False, **asked)
