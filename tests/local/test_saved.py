"""An evaluation in one object: its report is the service's, and a saved one goes on as if it had not been."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from optimist import Evaluation
from optimist_client import FixError, NotFoundError
from optimist_client.metrics import FID, KID, RKE, Gaussian
from optimist_client.models import Report

RNG = np.random.default_rng(0)
REAL = RNG.standard_normal((300, 4))
OPEN = Gaussian(sigma="median", features=16)
SETTINGS: dict[str, dict[str, Any]] = {
    "several": {"metric": FID(reference=REAL), "watch": [KID(reference=REAL), RKE(kernel=OPEN)], "seed": 3},
    "thompson": {"metric": "rke", "kernel": {"sigma": "median", "features": 16}, "policy": "thompson"},
    "exactly given": {"metric": "vendi", "order": np.inf, "kernel": {"omegas": RNG.standard_normal((4, 9))}},
    "published": {
        "metric": "fid",
        "reference": REAL,
        "bound": "theorem",
        "rescore_growth": 0.0,
        "bound_options": {"sigma2": 2.0},
    },
    "blend": {"metric": "rke", "kernel": {"sigma": 2.0, "features": 16}, "goal": "mixture", "costs": {"a": 1.0}},
    "list": {"metric": "rke", "kernel": {"sigma": 2.0, "features": 16}, "prompts": ["p", "q"], "prompts_are": "list"},
}
SHIFTS = {"a": 0.0, "b": 0.5, "c": 1.0}


def played(evaluation: Evaluation, rounds: int) -> None:
    for _ in range(rounds):
        name = evaluation.ask()
        start = evaluation.next_start(name)
        rows = [np.random.default_rng(start + row).standard_normal(4) for row in range(5)]
        listed = {"prompt_indices": [0, 1, 0, 1, 0]} if evaluation.settings.get("prompts_are") == "list" else {}
        evaluation.tell(name, np.stack(rows) + SHIFTS[name], **listed)


@pytest.mark.parametrize(
    "kind", [pytest.param(each, marks=[pytest.mark.long] if each in ("several", "blend") else []) for each in SETTINGS]
)
def test_a_saved_evaluation_goes_on_as_the_one_that_was_not(kind: str, tmp_path: Path):
    evaluation = Evaluation(list(SHIFTS), **SETTINGS[kind])
    for rounds in (0, 2, 30):  # nothing; batches that wait for their kernels; estimates
        played(evaluation, rounds)
        evaluation.save(tmp_path / "e.npz")
        loaded = Evaluation.load(tmp_path / "e.npz")
        assert loaded.report() == evaluation.report()
        assert [path.name for path in tmp_path.iterdir()] == ["e.npz"]
    played(evaluation, 12)
    played(loaded, 12)
    if kind != "published":  # the cache that makes its estimates cheap is not saved
        assert loaded.estimates() == evaluation.estimates()
        assert loaded.watched == evaluation.watched
        assert loaded.report() == evaluation.report()
    assert [row.batches for row in loaded.report().standings] == [row.batches for row in evaluation.report().standings]


def test_what_is_no_saved_evaluation_is_refused_with_its_name(tmp_path: Path):
    file = tmp_path / "e.npz"
    with pytest.raises(FixError, match=r"e\.npz: no such file"):
        Evaluation.load(file)
    np.savez(file, a=REAL)
    with pytest.raises(FixError, match=r"e\.npz: expected a file that Evaluation\.save wrote"):
        Evaluation.load(file)


def test_the_report_is_that_of_a_service():
    evaluation = Evaluation(list(SHIFTS), **SETTINGS["several"], costs={"a": 2.0, "b": 1.0, "c": 1.0})
    assert evaluation.report().state == "warming up"
    while not evaluation.decision().decided:
        played(evaluation, 1)
    report = evaluation.report("mine")
    assert isinstance(report, Report)
    assert (report.state, report.ended, report.experiment, report.decision.best) == ("decided", True, "mine", "a")
    assert report.decision.verdicts
    assert report.cost == sum(row.cost or 0.0 for row in report.standings)
    assert set(report.watched) == {"kid", "rke"}
    assert report.optimal_pick_ratio is not None
    assert "\nBest: a with " in f"{report}"
    assert evaluation.plot(metric="kid").get_xlabel().startswith("KID")
    undecided = Evaluation(list(SHIFTS), **SETTINGS["several"])
    played(undecided, 3)
    assert undecided.report(budget=15).state == "out of budget"


def test_generators_that_cannot_be_sampled_and_batches_on_their_way():
    evaluation = Evaluation(list(SHIFTS), **SETTINGS["several"])
    assert evaluation.ask() == "a"
    assert evaluation.ask(pending={"a": 1}) == "b"
    assert evaluation.ask(among=["c"]) == "c"
    with pytest.raises(NotFoundError, match="unknown generator 'x'"):
        evaluation.ask(among=["x"])
    with pytest.raises(ValueError, match="no generator is active"):
        evaluation.ask(among=[])
