"""The papers' experiments: all problems can be used, a quick run writes its files, and the table has right ratios."""

from __future__ import annotations

import json
import runpy
import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import optimist
from tests.support.places import ROOT

pytestmark = pytest.mark.long
PAPERS = ROOT / "benchmarks" / "papers"


@pytest.fixture(autouse=True)
def fitted(digits_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The demo's fit, where tests and benchmarks find it."""
    monkeypatch.setenv("OPTIMIST_CACHE", str(digits_cache))


@pytest.fixture
def papers(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(PAPERS)
    return import_module


def test_every_problem_is_played_by_every_policy_of_its_metric(papers):
    problems = papers("problems")
    for name, comparison in problems.COMPARISONS.items():
        problem = comparison.make(20)
        policies = problems.POLICIES[comparison.metric]
        result = optimist.simulate(
            problem,
            metric=comparison.metric,
            policies=policies,
            rounds=2,
            trials=1,
            truth={source: float(place + 1) for place, source in enumerate(problem.sources)},
        )
        assert result.policies == tuple(policies), name
        assert result.policies[0] == problems.OURS


def test_feature_files_that_are_not_there_are_left_out(papers, tmp_path: Path):
    recorded = papers("recorded")
    assert recorded.comparisons(tmp_path) == {}
    rows = np.random.default_rng(0).standard_normal((2, 4, 3, 384)).astype(np.float16)
    tasks = {"human_eval": rows, "human_eval_x_java2cpp": rows}
    np.savez(tmp_path / "pakucb_code_minilm.npz", models=np.array(["a", "b"]), **tasks)
    found = recorded.comparisons(tmp_path)
    assert list(found) == ["pakucb-rke"]
    assert [source.samples for source in found["pakucb-rke"].make(0).sources.values()] == [12] * 4


def test_a_quick_comparison_writes_figure_numbers_and_table(
    papers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(sys, "argv", [str(PAPERS), "kinds-is", "table", "--quick", "--out", str(tmp_path)])
    runpy.run_path(str(PAPERS / "__main__.py"), run_name="__main__")
    printed = capsys.readouterr().out
    assert {file.name for file in tmp_path.iterdir()} == {"kinds-is.json", "kinds-is.png", "kinds-is.svg"}
    found = json.loads((tmp_path / "kinds-is.json").read_text())
    regrets = {each["policy"]: each["regret"] for each in found["policies"]}
    ratio = regrets["is-ucb"] / regrets["ucb"]
    assert "| kinds-is | 7, 60, 2 |" in printed
    assert f" | {ratio:.2g} | " in printed


def test_ratios_are_of_ours_and_what_never_came_is_said(papers):
    policies = papers("problems").POLICIES["is"]
    samples = {"ucb": 100.0, "is-ucb": 250.0, "naive-ucb": None}

    def problem(scale: float) -> dict[str, object]:
        rows = [
            {
                "policy": name,
                "regret": 1.0,  # of the others it does not tell: their trials may have ended early
                "regret_se": 0.5,
                "average_regret": (1.0 + place) * (scale if place else 1.0) / 60,
                "samples_to_95": samples.get(name, 50.0),
            }
            for place, name in enumerate(policies)
        ]
        return {"metric": "is", "rounds": 60, "batch": 5, "trials": 2, "truth": {"a": 1.0}, "policies": rows}

    text = papers("table").markdown({"one": problem(1.0), "two": problem(3.0)})
    assert "| one | 1, 60, 2 | 1 ± 0.5 | 2 | 3 | 4 | 5 |" in text
    assert "| median |  |  | 4 | 6 | 8 | 10 |" in text
    assert "| one | 100 | 2.5 | > 3 | 0.5 | 0.5 |" in text
