"""Deciding by intervals that hold at all sample sizes: once they are apart, whatever the standard errors say."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimist.estimates.estimate import Estimate
from optimist.policies import Arm, Policy, Stopping, deciding_tolerance, explained, warmup_batches
from optimist_client.goals import Best
from optimist_client.metrics import WinRate
from tests.support.configs import config_of


def arm(name: str, lower: float, upper: float, *, lower_is_better: bool = False, samples: int = 9) -> Arm:
    value = (lower + upper) / 2
    end = lower if lower_is_better else upper
    estimate = Estimate(
        value, value, samples, lower, upper, end, 0.01, 0.01, "linear", lower_is_better, None, strict=True
    )
    return Arm(name, estimate, samples, samples)


def policy(tolerance: float | str = 0.0) -> Policy:
    return Policy("top-two", 2, Stopping(0.05, tolerance))


def test_intervals_that_are_apart_decide_from_few_samples():
    decision = explained(policy(), [arm("a", 0.0, 0.4), arm("b", 0.5, 0.9), arm("c", 0.1, 0.5)], 27)
    assert (decision.best, decision.decided, decision.confidence) == ("b", True, 0.95)
    assert decision.reason == "no interval overlaps the one of b, and all intervals hold at any time"
    assert {one.generator: one.verdict for one in decision.verdicts} == {"a": "worse", "c": "close"}
    assert decision.hardest is None


def test_intervals_that_overlap_do_not_decide_however_small_the_standard_errors_are():
    arms = [arm("a", 0.0, 0.55, samples=10_000), arm("b", 0.5, 0.9, samples=10_000)]
    decision = explained(policy(), arms, 20_000)
    assert (decision.best, decision.decided, decision.confidence) == ("b", False, None)
    assert decision.reason == "the intervals of a and b overlap, by 0.05"
    assert [one.verdict for one in decision.verdicts] == ["close"]
    assert policy().stopping.uniform_samples(arms, 20_000) is None
    assert deciding_tolerance(policy(), arms, 20_000) is None


def test_lower_scores_can_be_better():
    arms = [arm("a", 0.0, 0.4, lower_is_better=True), arm("b", 0.5, 0.9, lower_is_better=True)]
    assert policy().stopping.decide(arms, 9).best == "a"
    assert policy().stopping.decide(arms, 9).decided


def test_a_tolerance_lets_equal_generators_be_decided():
    arms = [arm("a", 0.50, 0.52), arm("b", 0.505, 0.53)]
    assert not policy().stopping.decide(arms, 9).decided
    decision = explained(policy(0.05), arms, 9)
    assert decision.decided
    assert decision.reason == (
        "no interval overlaps the one of b by more than the tolerance, and all intervals hold at any time"
    )
    assert [one.verdict for one in decision.verdicts] == ["equal"]
    assert policy("10%").stopping.decide(arms, 9).decided


def test_one_generator_is_never_decided():
    assert not explained(policy(), [arm("a", 0.0, 0.1)], 9).decided


@given(ends=st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=2, max_size=5), tolerance=st.floats(0, 0.5))
def test_a_decision_is_true_of_all_means_within_the_intervals(ends: list[tuple[float, float]], tolerance: float):
    arms = [arm(f"{place}", min(pair), max(pair)) for place, pair in enumerate(ends)]
    decision = explained(policy(tolerance), arms, 9)
    best = next(each for each in arms if each.name == decision.best)
    rivals = [each for each in arms if each is not best]
    beyond = max(each.estimate.upper - best.estimate.lower for each in rivals)
    assert beyond <= tolerance + 1e-12 if decision.decided else beyond > tolerance - 1e-12
    for verdict, each in zip(decision.verdicts, rivals, strict=True):
        if verdict.verdict == "worse":
            assert each.estimate.upper < best.estimate.lower
        if verdict.verdict == "equal":
            assert best.estimate.upper - each.estimate.lower <= tolerance


def test_strict_bounds_have_the_errors_that_policies_need():
    for bound in WinRate.strict:
        assert config_of(name="x", generators=["a"], metric=WinRate(), bound=bound).policy == "top-two"
        assert warmup_batches(WinRate, bound) == 2
    with pytest.raises(ValueError, match="needs standard errors"):
        Best.check(config_of(name="x", generators=["a"]).model_copy(update={"bound": "theorem"}))
