"""The goal "route" in memory: what is asked for, told, refused and saved."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from optimist import Evaluation, run
from optimist_client.errors import FixError
from optimist_client.metrics import Mean
from tests.support.reports import unwrapped

NAMES = ["left", "right"]
ROUTER: dict[str, Any] = {"metric": "mean", "goal": "route", "context": 3, "context_features": 32}


def right(context: np.ndarray) -> str:
    return NAMES[int(context[0] > 0.0)]


def played(evaluation: Evaluation, contexts: np.ndarray) -> list[bool]:
    """Whether each context got the generator that is right for it."""
    rng, found = np.random.default_rng(evaluation.told), []
    for context in contexts:
        name = evaluation.ask(context=context)
        found.append(name == right(context))
        evaluation.tell(name, [[float(found[-1]) + 0.1 * rng.standard_normal()]], context=context, prompt="a prompt")
    return found


def contexts(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((count, 3))


@pytest.mark.parametrize("bandwidth", ["median", pytest.param(1.0, marks=pytest.mark.long)])
def test_each_context_gets_the_generator_that_is_right_for_it(bandwidth: Any):
    evaluation = Evaluation(NAMES, **ROUTER, context_bandwidth=bandwidth)
    played(evaluation, contexts(200))
    assert np.mean(played(evaluation, contexts(100, seed=1))) > 0.9
    report = evaluation.report()
    assert (report.goal, report.state, report.decision.decided) == ("route", "running", False)
    assert report.routes is None
    table = evaluation.route_table()
    assert (table.samples, table.positions) == (300, [row.batches for row in report.standings])
    assert table.basis == "doubly robust", "by the chances with which it was asked"
    assert table.gain is not None
    assert table.gain > 0.2
    assert evaluation.report().routes == table


# Before and after the first contexts have fixed the bandwidth.
@pytest.mark.parametrize("told", [10, pytest.param(80, marks=pytest.mark.long)])
def test_a_saved_router_goes_on_as_the_one_that_was_not(told: int, tmp_path: Path):
    evaluation = Evaluation(NAMES, **ROUTER, costs={"left": 1.0, "right": 2.0}, ceiling=1.5)
    played(evaluation, contexts(told))
    evaluation.save(tmp_path / "e.npz")
    loaded = Evaluation.load(tmp_path / "e.npz")
    assert played(loaded, contexts(100, seed=2)) == played(evaluation, contexts(100, seed=2))
    assert loaded.report() == evaluation.report()


def test_contexts_are_refused_in_words_and_change_nothing():
    evaluation = Evaluation(NAMES, **ROUTER)
    for context, expected in (
        (None, "context: expected the embedding of the prompt, 3 numbers"),
        ([1.0, 2.0], r"context: expected 3 finite numbers, got shape \(2,\)"),
        ([1.0, 2.0, np.inf], "context: expected 3 finite numbers"),
    ):
        with pytest.raises(FixError, match=expected):
            evaluation.ask(context=context)
        with pytest.raises(FixError, match=expected):
            evaluation.tell("left", [[1.0]], context=context)
    assert (evaluation.told, evaluation.samples) == (0, 0)
    with pytest.raises(FixError, match="context: only with the goal 'route'; the goal is 'best'"):
        Evaluation(NAMES, metric="mean").ask(context=[1.0, 2.0, 3.0])
    with pytest.raises(FixError, match="at least one sample"):
        evaluation.route_table()
    with pytest.raises(FixError, match="goal: a router is asked with the context of each prompt"):
        run({name: lambda size, seed: np.zeros((size, 1)) for name in NAMES}, **ROUTER, progress=False)
    with pytest.raises(FixError, match="goal: 'route' needs context"):
        Evaluation(NAMES, metric="mean", goal="route")


@pytest.mark.long
def test_means_over_unlike_prompts_are_compared_nowhere():
    evaluation = Evaluation(["easy", "hard"], **ROUTER, watch=[Mean(label="length", reads="length")])
    for number, context in enumerate(contexts(100)):  # nearly equal models: one gets the easy half
        name = "easy" if context[0] > 0.0 else "hard"
        score = 0.8 * (context[0] > 0.0) + 0.025 * (name == "easy") + 0.01 * (number % 3)
        evaluation.tell(name, {"values": [score], "length": [score]}, context=context)
    report = evaluation.report()
    assert (report.contrasts, report.worse_by, report.decision.best, report.regret) == ([], {}, None, None)
    watched = report.watched["length"]
    assert (watched.contrasts, watched.best, watched.confidence) == ([], None, None)
    said = "Each generator's mean is over the prompts that it was given, so these means cannot be compared"
    assert said in unwrapped(report)
    assert "worse" not in unwrapped(report)
    assert "*" not in f"{report}".replace("* the best by each", "")
    assert [row.generator for row in report.in_order] == ["easy", "hard"]
    assert report.table() == "| generator | samples |\n| --- | ---: |\n| easy | 44 |\n| hard | 56 |"
    assert "difference" not in report.to_pandas().columns
    with pytest.raises(FixError, match=said):
        report.plot()
    with pytest.raises(FixError, match=said):
        evaluation.contrast("hard", "easy")
    evaluation.route_table()
    assert evaluation.report().decision.best == evaluation.report().routes.best
