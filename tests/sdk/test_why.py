"""Tolerances as they are given and stored, and what reports say of a decision."""

from __future__ import annotations

import json
import math

import pytest

from optimist_client.metrics import Mean, declared
from optimist_client.models import DecisionInfo, ExperimentConfig, HardestRival, Verdict
from optimist_client.models.decisions import VerdictCode
from optimist_client.tolerance import checked, parsed, share_of
from tests.support.configs import config_of


@pytest.mark.parametrize(
    ("given", "canonical", "share"),
    [("1%", "1%", 0.01), (" 1.0 % ", "1%", 0.01), ("0.25%", "0.25%", 0.0025), (0, 0.0, None), (0.5, 0.5, None)],
)
def test_tolerances_have_one_form(given: object, canonical: float | str, share: float | None):
    assert checked(given) == canonical
    assert share_of(canonical) == (share if share is None else pytest.approx(share))
    assert parsed(str(given)) == canonical


@pytest.mark.parametrize("given", ["0.5", "one", "-1%", "100%", "%", -0.1, float("nan"), float("inf"), True, None, [1]])
def test_what_is_no_tolerance_is_refused(given: object):
    with pytest.raises(ValueError, match='such as "1%", got'):
        checked(given)


def config(**settings: object) -> ExperimentConfig:
    return config_of(**{"name": "e", "generators": ["a"], "reference": "r", **settings})


def test_the_stored_form_of_a_number_is_a_number():
    assert json.loads(config(tolerance=0).model_dump_json())["tolerance"] == 0.0
    assert '"tolerance":0.5,' in config(tolerance=0.5).model_dump_json()
    stored = config(tolerance="1.0 %").model_dump_json()
    assert '"tolerance":"1%"' in stored
    assert ExperimentConfig.model_validate_json(stored) == config(tolerance="1%")


def test_scores_that_may_be_negative_have_no_shares():
    for mean in (Mean(), Mean(range=(-1, 1))):
        mean.check_tolerance(0.5)
        with pytest.raises(ValueError, match="scores of 'mean' may be 0 or negative"):
            mean.check_tolerance("1%")
    Mean(range=(0, 1)).check_tolerance("1%")
    ours = [kind() for kind in declared().values() if kind.__module__.startswith("optimist_client.")]
    assert {"fid", "win-rate"} <= {made.name for made in ours if made.positive}
    for made in ours:
        if made.positive:
            made.check_tolerance("1%")
    with pytest.raises(ValueError, match="expected a number of at least 0, or a share below 100%"):
        config(tolerance="200%")


HARDEST = HardestRival(
    generator="b",
    difference=0.5,
    standard_error=0.25,
    tolerance=0.0,
    needed=3.0,
    more_samples=(1234, 45678),
    holds_until=4_000,
)


def decision(hardest: HardestRival | None = HARDEST, decided: bool = False, **fields: object) -> DecisionInfo:
    known = {"best": "a", "confidence": 0.4, "decided": decided, "reason": "no errors", "hardest": hardest}
    return DecisionInfo.model_validate({**known, **fields})


def test_why():
    start = "Open question: b (0.5 worse). Evidence 2.0 of 3.0 needed."
    far = HARDEST.model_copy(update={"difference": math.log(22.3), "standard_error": math.log(1.2)})
    said = decision(far, decided=True, confidence=0.97).why("log")
    assert said.startswith("Closest rival: b (a factor of 22.3 worse, 4.5% of the best). Evidence 17.0 of 3.0 needed. ")
    holds = "This allows for all rivals and for looking often, up to about 4,000 samples of each generator."
    assert said.endswith(holds)
    rare = HARDEST.model_copy(update={"rarer": 33})
    said = decision(rare, decided=True, confidence=0.97).why("linear")
    assert said.endswith(f"{holds} Values rarer than one in 33 may not have come.")
    next_step = "Next: stop here, or take about 1,200 to 46,000 more samples of this run, which would decide it."
    assert decision().why("linear") == f"{start} {next_step}"
    assert decision(decided=True).why("linear") == "Closest rival: b (0.5 worse). Evidence 2.0 of 3.0 needed."
    unknown = HARDEST.model_copy(update={"more_samples": None})
    said = f"{start} Too early to say how many more samples would decide it."
    assert decision(unknown).why("linear") == said
    assert decision(None).why("linear") == "No errors."
    for separation, shown in {2.96: "2.96 of 3.00", 104.17: "104.2 of 3.0", 4.6e7: "over 1,000 of 3.0"}.items():
        wide = HARDEST.model_copy(update={"difference": 1.0, "standard_error": 1.0 / separation})
        assert f"Evidence {shown} needed." in decision(wide).why("linear")
    same = HARDEST.model_copy(update={"difference": 0.0, "standard_error": 0.0})
    assert decision(same).why("linear").endswith("They are identical: no number of samples decides.")
    few = HARDEST.model_copy(update={"needed": 1.0, "more_samples": (0, 5)})
    said = decision(few, reason="fewer than 20 samples of b").why("linear")
    assert said.startswith("Fewer than 20 samples of b. Open question: b (0.5 worse). ")
    assert said.endswith("Next: stop here, or take at most about 5 more samples of this run, which would decide it.")


def test_differences_of_logarithms_are_shown_as_shares():
    close = HARDEST.model_copy(update={"difference": 0.01, "standard_error": 0.005, "tolerance": 0.02})
    said = "Open question: b (1.01% worse; 2.02% would not matter). Evidence 6.0 of 3.0 needed."
    assert said in decision(close).why("log")


def test_a_confidence_is_rounded_down():
    texts = {0.5: "50.0%", 0.97: "97.0%", 0.96789: "96.7%", 0.99999: "99.9%", 1.0: "99.9%"}
    for confidence, text in ({None: "", 0.0: "", 0.4999: ""} | texts).items():
        made = decision(confidence=confidence)
        assert made.confidence_text == text
        assert json.loads(made.model_dump_json())["confidence_text"] == text


def test_the_best_one_leads_until_it_is_decided():
    assert decision(confidence=0.97, decided=False).rank == "leads"
    assert decision(confidence=0.97, decided=True).rank == "best"


def test_verdicts_are_said_in_words():
    codes: dict[str, VerdictCode] = {"b": "worse", "c": "equal", "d": "close"}
    verdicts = [Verdict(generator=name, verdict=code) for name, code in codes.items()]
    assert decision(verdicts=verdicts).verdict_sentences("linear") == [
        "Worse: b.",
        "As good (within the tolerance of 0): c.",
        "Too close to call: d.",
    ]
    many = [Verdict(generator=f"g{n}", verdict="worse") for n in range(7)]
    assert decision(verdicts=many).verdict_sentences("linear") == ["Worse: all others."]
    [worse, _] = decision(verdicts=[*many, verdicts[1]]).verdict_sentences("linear")
    assert worse == "Worse: g0, g1, g2, g3, g4 and 2 more."


def test_decisions_open_with_and_without_verdicts():
    without = '{"best":"a","confidence":0.97,"decided":true,"reason":"every rival is behind"}'
    found = DecisionInfo.model_validate_json(without)
    assert (found.verdicts, found.hardest, found.why("log")) == ((), None, "Every rival is behind.")
    new = decision(verdicts=[Verdict(generator="b", verdict="worse")])
    assert DecisionInfo.model_validate_json(new.model_dump_json()) == new
