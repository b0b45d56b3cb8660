"""Means that go with the time of an answer: a decision waits for the batches on their way, in memory."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from optimist import Evaluation
from optimist.local.run import LocalService
from optimist_client import FixError
from optimist_client.metrics import Mean
from optimist_client.models import Pick

LATENCY = {"higher_is_better": False, "range": (0, 1e4)}


def evaluation_of(timed: bool = True, **settings: Any) -> Evaluation:
    given: dict[str, Any] = {"batch_size": 20, "paired": False, "policy": "uniform", **settings}
    return Evaluation(["a", "b"], metric=Mean(timed=timed, **LATENCY), **given)


def rows(generator: str, rng: np.random.Generator) -> np.ndarray:
    return (1.0 if generator == "a" else 2.0) + 0.1 * rng.standard_normal((20, 1))


def begun(evaluation: Evaluation, batches: int = 2, seconds: float | None = None) -> Evaluation:
    rng = np.random.default_rng(0)
    for _ in range(batches):
        for name in "ab":
            told = rows(name, rng)
            evaluation.tell(name, told, seconds=None if seconds is None else seconds * float(told.sum()))
    return evaluation


def test_nothing_is_decided_while_batches_are_on_their_way():
    evaluation = begun(evaluation_of())
    held = evaluation.decision(pending={"a": 1, "b": 0})
    assert (held.decided, held.best, held.awaited) == (False, "a", {"a": 1})
    assert held.reason.endswith("it waits for 1 batch (1 of a) on their way, which may be slow answers")
    assert evaluation.report(pending={"a": 1}).decision.awaited == {"a": 1}
    assert not evaluation.report(pending={"a": 1}).ended
    assert evaluation.report().ended
    assert evaluation.decision().decided
    evaluation.tell("a", np.full((20, 1), 4.0))
    late = evaluation.decision(pending={"a": 0})
    assert (late.decided, late.awaited) == (False, {})


def test_it_looks_at_all_that_was_told_and_leaves_the_estimates_that_are_due():
    timed, other = begun(evaluation_of(rescore_growth=1.0)), begun(evaluation_of(rescore_growth=1.0))
    for evaluation in (timed, other):
        evaluation.tell("a", np.full((1, 1), 60.0))
    assert other.estimates()["a"].samples == 40
    assert not timed.decision().decided
    assert timed.estimates()["a"].samples == 41
    for evaluation in (timed, other):
        evaluation.tell("a", np.full((39, 1), 1.0))
    assert timed.estimates()["a"] == other.estimates()["a"]


def test_other_means_are_decided_as_they_were():
    evaluation = begun(evaluation_of(timed=False), 6)
    assert evaluation.decision(pending={"a": 3}).decided
    with_time = begun(evaluation_of(timed=False), 6, seconds=0.5)
    assert with_time.decision(pending={"a": 3}).awaited == {"a": 3}
    for seconds in (-1.0, math.nan, math.inf):
        with pytest.raises(FixError, match="seconds"):
            evaluation.tell("a", np.ones((20, 1)), seconds=seconds)


def test_a_saved_one_goes_on(tmp_path: Path):
    evaluation = begun(evaluation_of(timed=False, rescore_growth=1.0), 6, seconds=0.5)
    evaluation.tell("a", np.full((1, 1), 60.0), seconds=1.0)
    evaluation.save(tmp_path / "saved.npz")
    loaded = Evaluation.load(tmp_path / "saved.npz")
    for pending in ({"a": 3}, None):
        assert loaded.decision(pending=pending) == evaluation.decision(pending=pending)
    assert loaded.estimates()["a"].timing == evaluation.estimates()["a"].timing


def held(service: LocalService) -> Pick:
    """The pick of a slow worker, for which the decision waits."""
    [slow] = service.ask("slow", None).picks
    begun(service.evaluation, seconds=1.0)
    reply = service.ask("fast", None)
    assert (reply.picks, reply.ended, reply.decision.awaited) == ([], False, {slow.generator: 1})
    assert reply.retry_after
    assert service.ask("slow", None).picks == [slow]
    return slow


def test_a_run_asks_for_nothing_meanwhile():
    service = LocalService(evaluation_of(), "x")
    slow = held(service)
    service.tell(slow.number, {"values": np.full((20, 1), 4.0)})
    assert service.ask("fast", None).picks, "the rule is not satisfied any more"


@pytest.mark.parametrize("ending", ["told", "given up", "lease"])
def test_a_run_ends_once_nothing_is_waited_for(ending: str):
    service = LocalService(evaluation_of(), "x")
    slow = held(service)
    if ending == "told":
        service.tell(slow.number, {"values": np.full((20, 1), 1.0 if slow.generator == "a" else 2.0)})
    elif ending == "given up":
        service.give_up(slow.number)
    else:
        service.evaluation.state.config = service.evaluation.state.config.model_copy(update={"lease": 0.0})
    reply = service.ask("fast", None)
    assert (reply.ended, reply.decision.best) == (True, "a")
    assert any("answers are missing" in said for said in reply.decision.warnings) == (ending != "told")


@pytest.mark.parametrize(
    ("higher_is_better", "cut", "is_doubtful"),
    [(False, "a", True), (False, "b", False), (True, "b", False), (True, "a", True)],
)
def test_calls_that_were_cut_off_count_as_told_and_are_named(higher_is_better: bool, cut: str, is_doubtful: bool):
    """Lower is better: `a` is best. Higher is better: `b` is. A true mean is higher than what is shown."""
    metric = Mean(higher_is_better=higher_is_better, censored_at=3.0)
    evaluation = begun(Evaluation(["a", "b"], metric=metric, paired=False), 6)
    evaluation.tell(cut, np.full((1, 1), 3.0))
    evaluation.tell(cut, np.full((20, 1), 1.0 if cut == "a" else 2.0))
    report = evaluation.report()
    assert (report.decision.decided, report.decision.best) == (True, "b" if higher_is_better else "a")
    said = {row.generator: [text for text in row.warnings if "cut off" in text] for row in report.standings}
    assert said == {
        name: ["1 of 141 values were cut off at 3: the mean is at least what is shown"] * (name == cut) for name in "ab"
    }
    assert [text for text in report.decision.warnings if "cut off" in text] == [
        f"values were cut off (1 of {cut}): {report.decision.best} is best by the values as sent; "
        "the true ones may say otherwise"
    ] * is_doubtful
