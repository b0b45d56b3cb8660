"""The goal "cheapest" in memory: what is sampled and said, with equal costs as the goal "best", and of files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from optimist import Evaluation, compare, contrast, run, simulate
from optimist_client import FixError
from optimist_client.metrics import Mean

COSTS = {"small": 1.0, "mid": 4.0, "big": 30.0}
MEANS = {"small": 0.0, "mid": 0.95, "big": 1.0}


def rows_of(name: str, start: int, size: int = 10) -> np.ndarray:
    seeds = range(start, start + size)
    common = [np.random.default_rng(seed).standard_normal() for seed in seeds]
    own = [0.3 * np.random.default_rng((seed, *name.encode())).standard_normal() for seed in seeds]
    return (MEANS[name] + np.array(common) + np.array(own))[:, None]


def play(evaluation: Evaluation, most: int = 300) -> list[str]:
    picks: list[str] = []
    while not evaluation.decision(explain=False).decided and len(picks) < most:
        picks.append(evaluation.ask())
        evaluation.tell(picks[-1], rows_of(picks[-1], evaluation.next_start(picks[-1])))
    return picks


def cheapest(**more: Any) -> Evaluation:
    settings = {"costs": COSTS, "good_enough": 0.2, "batch_size": 10, **more}
    return Evaluation([*MEANS], metric=Mean(), goal="cheapest", **settings)


def test_it_names_the_cheapest_and_says_why():
    evaluation = cheapest()
    play(evaluation)
    report = evaluation.report()
    assert (report.decision.best, report.state, report.scored) == ("mid", "decided", True)
    assert report.answer.startswith("mid is the cheapest that is good enough, with 9")
    assert report.answer.endswith("worse than big, at 1/7.5 of the cost of big.")
    assert report.why.startswith("small is not: ")
    assert "0.2 allowed" in report.why
    assert report.leader == "big", "differences are those from the best"
    assert (report.regret, report.uniform_samples, report.optimal_pick_ratio) == (None, None, None)


def test_what_is_open_at_the_end_of_the_budget_is_said(tmp_path: Path):
    evaluation = cheapest(good_enough=0.95)  # of small it stays open
    play(evaluation, 40)
    report = evaluation.report(budget=evaluation.samples)
    assert (report.state, report.decision.best) == ("out of budget", "mid")
    assert "mid is good enough after" in report.answer
    assert report.answer.endswith("; small is open.")
    assert report.why.startswith("small is open: 0.")
    assert " worse than big, 0.95 allowed" in report.why
    assert evaluation.ask() in ("small", "big"), "what would decide it"
    evaluation.save(tmp_path / "saved.npz")
    assert Evaluation.load(tmp_path / "saved.npz").report(budget=evaluation.samples).answer == report.answer


def test_with_equal_costs_and_no_limits_it_is_the_goal_best():
    equal = dict.fromkeys(MEANS, 4.0)
    found = [
        Evaluation([*MEANS], metric=Mean(), batch_size=10, costs=equal, **{"goal": goal, **more})
        for goal, more in (("best", {"tolerance": 0.2}), ("best", {}), ("cheapest", {}))
    ]
    picks = [play(evaluation, 60) for evaluation in found]
    assert picks[1] == picks[2] != picks[0]
    assert found[1].decision() == found[2].decision()
    reports = [evaluation.report() for evaluation in found[1:]]
    assert reports[0].sentences == reports[1].sentences


def test_limits_on_other_metrics_decide():
    seconds = {"small": 0.2, "mid": 2.0, "big": 0.5}
    evaluation = cheapest(
        watch=[Mean(label="latency", reads="latency", higher_is_better=False)], limits={"latency": "< 1"}
    )
    while not evaluation.decision(explain=False).decided:
        name = evaluation.ask()
        values = rows_of(name, evaluation.next_start(name))
        evaluation.tell(name, {"values": values, "latency": seconds[name] * np.exp(0.3 * (values - MEANS[name]))})
    report = evaluation.report()
    assert report.decision.best == "big", "mid is too slow, small too bad"
    missed = {(one.generator, one.label) for one in report.decision.limits if one.verdict == "not met"}
    assert {("small", ""), ("mid", "latency")} <= missed
    assert "mid is not: Mean (latency) " in report.why
    assert "limit < 1" in report.why


def test_a_measured_cost_is_known_by_its_error():
    dollars = Mean(label="dollars", reads="dollars", higher_is_better=False)
    evaluation = cheapest(watch=[dollars], costs=None, cost_metric="dollars", good_enough=0.3)
    while not evaluation.decision(explain=False).decided:
        name = evaluation.ask()
        values = rows_of(name, evaluation.next_start(name))
        evaluation.tell(name, {"values": values, "dollars": COSTS[name] * np.exp(0.3 * (values - MEANS[name]))})
    report = evaluation.report()
    assert report.decision.best == "mid"
    assert "mid is the cheapest that is good enough" in report.answer
    assert "of the cost of big" in report.answer
    assert report.standings[1].cost_per_sample == pytest.approx(4.2, rel=0.1)


@pytest.mark.parametrize(("good_enough", "best"), [(0.02, "mid"), (0.0199, "big"), ("2.8%", "mid"), ("2.7%", "big")])
def test_at_the_end_of_a_repeatable_list_verdicts_are_exact(good_enough: float | str, best: str):
    place = np.random.default_rng(0).permutation(100)
    passed = {"small": place < 50, "mid": place < 70, "big": place < 72}
    evaluation = Evaluation(
        [*passed],
        metric=Mean(range=(0, 1), repeatable=True),
        goal="cheapest",
        good_enough=good_enough,
        costs=COSTS,
        batch_size=20,
        prompts=[f"{n}" for n in range(100)],
        prompts_are="list",
    )
    while not evaluation.decision(explain=False).decided:
        name = evaluation.ask()
        start = evaluation.next_start(name)
        indices = [*range(start, start + 20)]
        evaluation.tell(name, passed[name][indices, None].astype(float), prompt_indices=indices)
    assert evaluation.decision().best == best
    assert evaluation.counts("big")[0] == 100
    answer = evaluation.report().answer
    assert "∞" not in answer
    assert ("worse than big" in answer) == (best == "mid")


@pytest.mark.long
def test_run_and_compare_take_it():
    def model(name: str) -> Any:
        return lambda size, seed: rows_of(name, seed % 2**32, 1).repeat(size, axis=0)

    report = run({name: model(name) for name in MEANS}, metric=Mean(), goal="cheapest", good_enough=0.3, costs=COSTS,
                 batch_size=1, budget=3000, progress=False)  # fmt: skip
    assert report.decision.best == "mid"
    rng = np.random.default_rng(0)
    sets = {name: [f"{shift + value}" for value in rng.standard_normal(400)] for name, shift in MEANS.items()}
    found = compare(sets, embed=lambda texts: np.array(texts, float)[:, None], metric="fid", good_enough=0.4,
                    reference=(np.ones(1), np.eye(1)), costs=COSTS, progress=False, resume=False)  # fmt: skip
    assert found.report.decision.best == "mid"
    assert "mid is the cheapest that is good enough" in f"{found}"


def test_contrast_judges_files_at_one_look():
    rows = {name: rows_of(name, 0, 600) for name in MEANS}
    found = contrast(rows, "mean", paired=True, good_enough=0.2, limits=["> -1", "within 0.2 of big"], costs=COSTS)
    assert found.cheapest == "mid"
    assert [one.verdict for one in found.limits if one.generator == "small"] == ["not met", "met", "not met"]
    assert f"{found}".endswith("mid is the cheapest that is good enough.")
    assert found.to_dict()["cheapest"] == "mid"
    with pytest.raises(FixError, match="good_enough, limits: scores of 'mean' may be 0"):
        contrast(rows, "mean", good_enough="20%")
    with pytest.raises(FixError, match="no generator is called large"):
        contrast(rows, "mean", limits=["within 1 of large"])


def test_simulations_judge_it_by_the_truth():
    rows = {name: rows_of(name, 0, 2000) for name in MEANS}
    found = simulate(
        rows, goal="cheapest", metric=Mean(), good_enough=0.3, costs=COSTS, rounds=150, batch_size=10, trials=3,
        paired=True, stop=True, policies=["top-two", "uniform"], truth=MEANS,
    )  # fmt: skip
    ours, uniform = found.summaries
    assert (ours["accuracy"], uniform["accuracy"]) == (1.0, 1.0)
    assert ours["cost"] < uniform["cost"]
    assert "Cheapest that is good enough: mid" in f"{found}"


def test_with_the_goal_best_costs_stand_beside_what_is_as_good():
    evaluation = Evaluation([*MEANS], metric=Mean(), tolerance=0.3, costs={**COSTS, "mid": 60.0}, batch_size=10,
                            weigh_costs=False)  # fmt: skip
    play(evaluation)
    said = evaluation.report().sentences
    assert any("times the cost of" in text or "of the cost of" in text for text in said[1:3])
