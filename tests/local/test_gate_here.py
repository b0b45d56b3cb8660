"""`optimist.gate` and `optimist gate`: on sets of samples, on files and logs, and on functions until it is sure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from numpy.typing import NDArray

import optimist
from optimist import Evaluation
from optimist_client import FixError, NotFoundError
from optimist_client.metrics import Mean
from tests.support.commands import invoked

ROWS = np.random.default_rng(0).normal(0.8, 0.2, (300, 1))
OTHERS = np.random.default_rng(1).normal(0.0, 0.02, (300, 1))
OTHERS -= OTHERS.mean()


def run(*arguments: object, code: int) -> tuple[str, str]:
    done = invoked("gate", *arguments, code=code)
    return done.stdout, " ".join(done.stderr.split())


@pytest.mark.parametrize(("worse", "answer"), [(0.0, "yes"), (-0.1, "yes"), (0.03, "no"), (0.008, "open")])
def test_sets_in_pairs_are_compared_at_once(worse: float, answer: str):
    found = optimist.gate({"new": ROWS + OTHERS - worse, "old": ROWS}, "1%", paired=True)
    assert (found.answer, found.samples, found.units) == (answer, 300, "pairs")
    apart = optimist.gate({"new": ROWS + OTHERS - worse, "old": ROWS}, "1%")
    assert apart.answer == ("yes" if worse < -0.05 else "no" if worse > 0.1 else "open")
    assert apart.units == "samples of each"


def test_one_look_is_one_test_to_each_side():
    """Against numpy: by the paired differences at a fixed n."""
    answers = {"yes": 0, "open": 0}
    for seed in range(40):
        rng = np.random.default_rng(seed)
        apart = rng.normal(0.1, 1.0, (400, 1))
        base = rng.normal(0.0, 1.0, (400, 1))
        found = optimist.gate({"new": base - apart, "old": base}, 0.2, paired=True)
        z = (0.2 - apart.mean()) / (apart.std(ddof=1) / 20.0)
        if abs(z - 1.645) > 0.15:
            assert found.answer == ("yes" if z > 1.645 else "no" if z < -1.645 else "open")
            answers[found.answer] += 1
    assert min(answers.values()) > 5


def test_all_metrics_are_to_be_met():
    seconds = np.random.default_rng(2).lognormal(0.0, 0.2, (300, 1))
    arrays = {"score": ROWS, "latency": seconds}
    metrics = [Mean(reads="score"), Mean(reads="latency", higher_is_better=False)]
    how: Any = {"metric": metrics[0], "watch": metrics[1:], "paired": True}
    slow = {"score": ROWS, "latency": 1.3 * seconds}
    found = optimist.gate({"new": slow, "old": arrays}, {"mean-score": 0.05, "mean-latency": "10%"}, **how)
    assert (found.answer, [one.verdict for one in found.verdicts]) == ("no", ["met", "not met"])
    assert optimist.gate({"new": slow, "old": arrays}, {"mean-score": 0.05}, **how).answer == "yes"
    assert optimist.gate({"new": slow, "old": arrays}, "50%", **how).answer == "yes"


def model(mean: float) -> Any:
    def sample(size: int, seeds: list[int]) -> NDArray[np.float64]:
        rows = [
            np.random.default_rng(seed).normal(0.0, 1.0) + np.random.default_rng((seed, 1)).normal(mean, 0.3)
            for seed in seeds
        ]
        return np.array(rows)[:, None]

    return sample


@pytest.mark.long
def test_functions_are_sampled_until_it_is_sure():
    found = optimist.gate({"new": model(1.0), "old": model(1.0)}, 0.3, max_samples=2_000, seed=3)
    assert (found.answer, found.units) == ("yes", "pairs")
    assert found.samples <= 100
    far = optimist.gate({"new": model(0.0), "old": model(1.0)}, 0.3, max_samples=2_000, seed=3)
    assert (far.answer, far.exit_code) == ("no", 1)
    spent = optimist.gate({"new": model(0.7), "old": model(1.0)}, 0.3, max_samples=200, seed=3)
    assert (spent.answer, spent.exit_code) == ("open", 2)
    assert 80 <= spent.samples <= 100


def test_an_evaluation_is_asked_at_every_look():
    evaluation = Evaluation(["new", "old", "late"], metric="mean", watch=[Mean(label="again")])
    for start in range(0, 300, 50):
        evaluation.tell("old", ROWS[start : start + 50])
        evaluation.tell("new", ROWS[start : start + 50] + OTHERS[start : start + 50])
    assert evaluation.gate("new", "old", "1%").text.startswith("yes: new is ")
    assert [one.label for one in evaluation.gate("new", "old", {"mean": 0.01, "again": 0.01}).verdicts] == [
        "mean",
        "again",
    ]
    assert evaluation.gate("late", "old", 0.5).answer == "open"
    with pytest.raises(NotFoundError, match="'none'"):
        evaluation.gate("none", "old", 0.5)
    with pytest.raises(FixError, match="margin: unknown metric 'other'"):
        evaluation.gate("new", "old", {"other": 0.5})


@pytest.mark.parametrize(
    ("samples", "settings", "says"),
    [
        ({"a": ROWS}, {}, "expected the candidate and the baseline by name"),
        ({"a": ROWS, "b": len}, {}, "expected two sets of samples, or two functions"),
        ({"a": model(1.0), "b": model(1.0)}, {}, "max_samples: expected a number"),
        ({"a": ROWS, "b": ROWS}, {"margin": -1.0}, "margin: expected a number of at least 0"),
        ({"a": ROWS, "b": ROWS}, {"margin": {}}, "margin: expected one metric or more"),
        ({"a": ROWS, "b": ROWS}, {"margin": {"x": 1.0}}, "margin: unknown metric 'x'; expected mean"),
    ],
)
def test_wrong_calls_are_refused(samples: Mapping[str, Any], settings: Mapping[str, Any], says: str):
    with pytest.raises(FixError, match=says):
        optimist.gate(samples, **{"margin": 0.1, **settings})


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """Logs of a model alone, and of two in one file."""
    rng = np.random.default_rng(0)
    passes = rng.random(200) < 0.8
    rows = {"new": passes | (rng.random(200) < 0.1), "old": passes, "worse": passes & (rng.random(200) < 0.7)}
    for name, each in rows.items():
        lines = [json.dumps({"id": f"q{place}", "score": float(one)}) for place, one in enumerate(each)]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(lines))
    both = [
        json.dumps({"id": f"q{place}", "model": name, "score": float(one)})
        for name in ("new", "worse")
        for place, one in enumerate(rows[name])
    ]
    (tmp_path / "both.jsonl").write_text("\n".join(both))
    return tmp_path


def test_the_exit_code_is_the_answer(logs: Path):
    said, _ = run(logs / "new.jsonl", logs / "old.jsonl", "--margin", "2%", "--id", "id", code=0)
    assert said == "yes: new is at most 0.00793 worse than old, 0.0145 allowed (200 pairs)\n"
    said, _ = run(logs / "worse.jsonl", logs / "old.jsonl", "--margin", "2%", "--id", "id", code=1)
    assert said.startswith("no: worse is 0.")
    assert run(logs / "new.jsonl", logs / "old.jsonl", "--margin", "0.02", code=2)[0].startswith("open: new is ")
    said, _ = run(f"{logs}/both.jsonl:worse", f"{logs}/both.jsonl:new", "--margin", "2%", "--id", "id", code=1)
    assert said.startswith("no: worse is 0.")


def test_markdown_junit_and_json_say_the_same(logs: Path):
    files, how = (logs / "new.jsonl", logs / "old.jsonl"), ("--margin", "2%", "--id", "id")
    said, _ = run(*files, *how, "--markdown", "--junit", logs / "gate.xml", code=0)
    assert said.splitlines()[0] == "**Gate: yes: new is at most 0.00793 worse than old, 0.0145 allowed (200 pairs)**"
    (suite,) = ElementTree.parse(logs / "gate.xml").getroot()
    assert (suite.get("tests"), suite.get("failures"), suite[0].get("name")) == ("1", "0", "Mean within 2% of old")
    known = json.loads(run(*files, *how, "--json", code=0)[0])
    assert (known["answer"], known["verdicts"][0]["verdict"]) == ("yes", "met")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("new.jsonl", "old.jsonl"), "Missing option '--margin'"),
        (("new.jsonl", "old.jsonl", "--margin", "much"), "margin: expected a number of at least 0, or a share"),
        (("new.jsonl", "none.jsonl", "--margin", "1%"), "none.jsonl: no such file"),
        (("both.jsonl", "old.jsonl", "--margin", "1%"), "expected one generator, or both.jsonl:new; found new, worse"),
        (("both.jsonl:x", "old.jsonl", "--margin", "1%"), "expected a generator x; found new, worse"),
        (("new.jsonl", "new.jsonl", "--margin", "1%"), "expected different sets of samples"),
        (("new.jsonl", "old.jsonl", "--margin", "1%", "--delta", "2"), "delta"),
        (("new.jsonl", "old.jsonl", "--margin", "1%", "--junit", "no/folder.xml"), "no/folder.xml: No such file"),
    ],
)
def test_errors_are_no_answers(logs: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], says: str):
    monkeypatch.chdir(logs)
    assert says in run(*arguments, code=3)[1]
