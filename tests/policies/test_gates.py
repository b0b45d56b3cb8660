"""The gate: yes, no or open, by the margin of each metric; at one look and at every one."""

from __future__ import annotations

import math
from statistics import NormalDist
from xml.etree import ElementTree

import numpy as np
import pytest

from optimist.estimates.estimate import Estimate
from optimist.policies.gates import GateSides, gate_of
from optimist_client import FixError
from optimist_client.metrics import FID, Mean
from optimist_client.models import Gate

METRIC, DELTA, ERROR = FID(reference="r"), 0.05, 0.1
NAMES = "new", "old"


def estimate(value: float, samples: int = 100, error: float = ERROR) -> Estimate:
    return Estimate(value, value, samples, value - 1.0, value + 1.0, value, error, error)


def asked(*worse: float, margin: float | str = 1.0, told: int | None = 40, samples: int = 100) -> Gate:
    """The answer on a candidate that is so much worse by one metric or more, of which the baseline has 5."""
    compared = {
        f"m{place}": GateSides(METRIC, estimate(5.0 + each, samples), estimate(5.0)) for place, each in enumerate(worse)
    }
    return gate_of(*NAMES, compared, dict.fromkeys(compared, margin), DELTA, told)


def quantile(comparisons: int, told: int | None) -> float:
    looks = 1.0 if told is None else 2.0 * (1.0 + math.log(told)) ** 1.5
    return NormalDist().inv_cdf(1.0 - DELTA / (comparisons * looks))


@pytest.mark.parametrize("told", [None, 1, 40, 5_000])
@pytest.mark.parametrize("metrics", [1, 2, 5])
def test_all_metrics_must_be_met_and_one_that_is_not_suffices(metrics: int, told: int | None):
    sd = math.sqrt(2.0) * ERROR
    rng = np.random.default_rng(metrics)
    answers = set[str]()
    for _ in range(60):
        worse = (1.0 + sd * rng.uniform(-6.0, 4.0, metrics)).tolist()
        z = [(each - 1.0) / sd for each in worse]
        is_yes = all(-each > quantile(1, told) for each in z)
        is_no = any(each > quantile(metrics, told) for each in z)
        found = asked(*worse, told=told)
        assert found.answer == ("yes" if is_yes else "no" if is_no else "open")
        assert found.exit_code == {"yes": 0, "no": 1, "open": 2}[found.answer]
        answers.add(found.answer)
    assert answers >= ({"yes", "no", "open"} if metrics < 5 else {"no", "open"})


def test_the_ends_say_at_which_margins_the_answer_would_be_another():
    sd, z = math.sqrt(2.0) * ERROR, quantile(1, 40)
    (only,) = asked(0.9).verdicts
    assert (only.verdict, only.value) == ("open", pytest.approx(0.9))
    assert (only.lower, only.upper) == (pytest.approx(0.9 - z * sd), pytest.approx(0.9 + z * sd))
    assert asked(0.9, margin=(only.upper or 0.0) + 1e-9).answer == "yes"
    assert asked(0.9, margin=(only.lower or 0.0) - 1e-9).answer == "no"


def test_a_share_is_of_the_baselines_score_and_its_error_counts():
    sd = math.hypot(ERROR, 1.2 * ERROR)
    (only,) = asked(0.5, margin="20%").verdicts
    assert (only.allowed, only.value) == (pytest.approx(1.0), pytest.approx(0.5))
    assert only.upper == pytest.approx(0.5 + quantile(1, 40) * sd)
    assert only.limit == "within 20% of old"


def test_few_samples_leave_it_open():
    found = asked(-9.0, samples=19)
    assert (found.answer, found.samples) == ("open", 19)
    assert found.text == "open: new is not compared by FID yet (19 samples of each)"
    missing = gate_of(*NAMES, {"fid": GateSides(METRIC, None, estimate(1.0))}, {"fid": 1.0}, DELTA, 40)
    assert (missing.answer, missing.verdicts[0].value) == ("open", None)


def test_the_same_generator_and_unknown_metrics_are_refused():
    compared = {"fid": GateSides(METRIC, estimate(1.0), estimate(1.0))}
    with pytest.raises(FixError, match="expected two different generators, got 'a' twice"):
        gate_of("a", "a", compared, {"fid": 1.0}, DELTA, 1)
    with pytest.raises(FixError, match="margin: unknown metric 'is'; expected fid"):
        gate_of("a", "b", compared, {"is": 1.0}, DELTA, 1)


def test_a_share_of_what_is_not_above_0_means_nothing():
    compared = {
        "mean": GateSides(Mean(), estimate(1.0), Estimate(-0.5, -0.5, 100, -1.0, 1.0, 0.0, ERROR, ERROR, floor=None))
    }
    with pytest.raises(FixError, match=r"margin: 2% of old.s score of -0\.5 means nothing; expected a number"):
        gate_of(*NAMES, compared, {"mean": "2%"}, DELTA, 40)
    assert gate_of(*NAMES, compared, {"mean": 0.1}, DELTA, 40).answer == "no"


def test_one_line_says_the_answer():
    assert asked(0.2).text == "yes: new is at most 0.598 worse than old, 1 allowed (100 samples of each)"
    assert asked(-2.0).text == "yes: new is at least as good as old, 1 allowed (100 samples of each)"
    assert asked(2.0).text == "no: new is 1.6 to 2.4 worse than old, 1 allowed (100 samples of each)"
    assert asked(0.3, margin=0.4).text == (
        "open: new is 0.0977 better to 0.698 worse than old, 0.4 allowed (100 samples of each)"
    )
    both = asked(0.2, 2.0).text
    assert both.startswith(
        "no: new against old (100 samples of each): FID at most 0.628 worse than old, 1 allowed; FID "
    )


def test_markdown_has_a_row_and_junit_a_test_for_each_metric():
    found = asked(-9.0, 2.0, 1.0)
    lines = found.markdown().splitlines()
    assert lines[0] == f"**Gate: {found.text}**"
    assert lines[2] == "| metric | worse than old by | allowed | verdict |"
    assert [line.split(" | ")[-1] for line in lines[4:]] == ["met |", "not met |", "open |"]
    (suite,) = ElementTree.fromstring(found.junit())
    assert {name: suite.get(name) for name in ("tests", "failures", "skipped")} == {
        "tests": "3",
        "failures": "1",
        "skipped": "1",
    }
    assert [case[0].tag for case in suite] == ["system-out", "failure", "skipped"]
    assert suite[0].get("classname") == "new against old"
    assert suite[1][0].get("message") == found.verdicts[1].text


def test_warnings_are_those_of_both_and_each_once():
    warned = Estimate(1.0, 1.0, 100, 0.0, 2.0, 1.0, ERROR, ERROR, warnings=("few rows",))
    compared = {label: GateSides(Mean(), warned, estimate(1.0)) for label in ("a", "b")}
    found = gate_of(*NAMES, compared, {"a": 1.0, "b": 1.0}, DELTA, 1)
    assert found.warnings == ("new: few rows",)
    assert str(found).splitlines()[-1] == "Warning: new: few rows."
