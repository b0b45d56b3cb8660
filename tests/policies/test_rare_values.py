"""Differences of means whose rare values may not have come yet."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from optimist import Evaluation
from optimist.estimates.estimate import Estimate
from optimist.estimates.skewness import OF_MEANS
from optimist.policies.arms import Arm
from optimist.policies.contrasts import Contrasts
from optimist.policies.rare_values import Means, sampled
from optimist.policies.stopping import FEWEST_UNBOUNDED, Stopping
from optimist_client.metrics import Mean


def mean(value: float, variance: float, n: int, skewness: float | None) -> Estimate:
    """The estimate of a mean of n values of this variance and skewness, lower is better."""
    error = math.sqrt(variance / n)
    return Estimate(value, value, n, value - 1, value + 1, value, error, error, value_skewness=skewness)


def errors(one: Estimate, other: Estimate) -> tuple[float, float]:
    """sd_stop of the difference from the first one, and of independent estimates."""
    plain = math.hypot(one.stopping_error or 0.0, other.stopping_error or 0.0)
    return Contrasts([one, other]).errors(0, "stopping")[1], plain


def test_a_mean_borrows_as_many_samples_as_the_skewness_of_the_other_one_squared():
    one, other = mean(0.0, 0.01, 20, 0.5), mean(1.0, 1.0, 40, -3.0)
    found, _ = errors(one, other)
    own, third = (0.01 * 20 + 1.0 * 9) / 29, (0.5 * 0.01**1.5 * 20 - 3.0 * 9) / 29
    share = 0.25 / 40.25  # of the other one's third moment; its variance is the larger one
    skewed = (-3.0 + share * (0.5 * 0.01**1.5 + 3.0)) / 40**2 - third / 20**2
    variance = own / 20 + 1.0 / 40
    factor = 1.0 + OF_MEANS * min(skewed / variance**1.5, 0.0) ** 2
    assert found == pytest.approx(math.sqrt(variance * factor), rel=1e-12)


def test_means_that_are_not_skewed_have_their_own_errors():
    for values in ((0.0, 1.0), (1.0, 0.0)):
        found, plain = errors(mean(values[0], 0.04, 20, 0.0), mean(values[1], 1.0, 40, 0.0))
        assert found == pytest.approx(plain, rel=1e-15)


def test_other_metrics_and_ranking_are_left_alone():
    one, other = mean(0.0, 0.01, 20, None), mean(1.0, 1.0, 40, None)
    assert errors(one, other)[0] == errors(one, other)[1]
    skewed = Contrasts([mean(0.0, 0.01, 20, 2.0), mean(1.0, 1.0, 40, 3.0)])
    assert skewed.errors(0, "selection")[1] == math.hypot(*skewed.selection_errors)


def test_equal_values_vary_half_as_much_as_the_other_ones():
    found, _ = errors(mean(0.0, 0.0, 20, 0.0), mean(1.0, 1.0, 20, 0.0))
    assert found == pytest.approx(math.sqrt(0.5 / 20 + 1.0 / 20))


def test_rare_values_widen_the_side_on_which_they_would_speak_against_the_difference():
    """Rare high losses of the one that looks better would make it worse; of the other one they change nothing."""
    rare, plain = 4.0, 0.0
    better, worse = (errors(mean(value, 1.0, 50, rare), mean(0.5, 1.0, 50, plain)) for value in (0.0, 1.0))
    assert better[0] > 1.3 * better[1]
    borrowed = math.sqrt(1.0 / 50 + 1.0 / 50)
    assert worse[0] == pytest.approx(borrowed, rel=1e-12)


def test_the_direction_is_that_of_losses():
    one, other = (Means(np.array(50.0), np.array(0.02), np.array(skewness)) for skewness in (3.0, 0.0))
    found = sampled(one, other)
    assert found.skewness < 0.0
    assert found.factors(np.array(1.0)) > 1.0 == found.factors(np.array(-1.0))


def arms_of(*values: float, n: int = 60, farthest: tuple[float, float] | None = (0.5, 0.5), **fields: Any) -> list[Arm]:
    """Arms g0, g1, … with means of n values of variance 0.04, lower is better."""
    made = [replace(mean(value, 0.04, n, 0.0), farthest=farthest, **fields) for value in values]
    return [Arm(f"g{place}", each, n) for place, each in enumerate(made)]


def test_the_decision_says_which_values_may_not_have_come():
    unseen = "values rarer than one in 20 may not have come"
    decision = Stopping().decide(arms_of(-1.0, 1.0), 24)
    assert decision.decided
    assert decision.reason.endswith(f"are needed; {unseen}")
    assert unseen not in Stopping().decide(arms_of(-1.0, 1.0, farthest=None), 24).reason


@pytest.mark.parametrize(("below", "above", "decided"), [(0.5, 19.0, True), (0.5, 21.0, False), (21.0, 0.5, False)])
def test_a_lead_needs_more_samples_that_values_as_far_as_those_of_any_generator_would_overturn(
    below: float, above: float, decided: bool
):
    """3/60 of values that are 20 from their mean are 1; whose they are does not matter, and both directions do."""
    third = arms_of(9.0, farthest=(below, above))[0]
    decision = Stopping().decide([*arms_of(-1.0, 0.0), replace(third, name="far")], 36)
    assert decision.decided is decided
    assert decided or decision.reason.endswith("they would overturn the lead over g1")
    assert Stopping(tolerance=0.2).decide([*arms_of(-1.0, 0.0), replace(third, name="far")], 36).decided


def test_high_rewards_of_a_rival_that_has_few_samples_speak_against_a_lead():
    two = [
        Arm(name, replace(mean(value, 0.04, 60, 0.0), farthest=(0.1, 0.1), lower_is_better=False), 60)
        for name, value in (("a", 1.0), ("b", 0.0))
    ]
    assert Stopping().decide(two, 24).best == "a"
    assert Stopping().decide(two, 24).decided
    far = Arm("c", replace(mean(-9.0, 0.04, 600, 0.0), farthest=(0.1, 21.0), lower_is_better=False), 600)
    assert "overturn the lead over b" in Stopping().decide([*two, far], 24).reason


def test_of_pairs_the_differences_are_as_far_as_they_have_been():
    rng = np.random.default_rng(0)
    shared = rng.standard_normal(60)
    shared[7] = 40.0
    for odd, decided in ((0.0, True), (-30.0, False)):
        evaluation = Evaluation(["a", "b"], metric=Mean(higher_is_better=False))
        own = 0.05 * rng.standard_normal((2, 60))
        own[1, 3] += odd  # one pair that speaks against a
        for name, values in zip("ab", shared + own + [[0.0], [1.3]], strict=True):
            evaluation.tell(name, values[:, None])
        assert evaluation.decision(explain=False).decided is decided


def test_the_leader_of_latencies_needs_as_many_samples_as_show_values_of_a_share_of_3_per_cent():
    latencies = {n: Stopping().decide(arms_of(1.0, 9.0, n=n), 24) for n in (FEWEST_UNBOUNDED - 1, FEWEST_UNBOUNDED)}
    assert [decision.decided for decision in latencies.values()] == [False, True]
    few = latencies[FEWEST_UNBOUNDED - 1].reason
    assert few.startswith("fewer than 100 samples of g0")
    assert few.endswith("rarer than one in 33 may not have come")
    leader, rival = arms_of(1.0, n=100)[0], arms_of(9.0, n=20)[0]
    assert Stopping().decide([leader, replace(rival, name="g1")], 24).decided
    for other in (arms_of(0.4, 9.0), arms_of(1.0, 9.0, farthest=None), arms_of(9.0, 1.0, lower_is_better=False)):
        assert Stopping().decide(other, 24).decided  # below 0, of a known range, higher is better


@pytest.mark.long
def test_time_outs_that_are_still_to_come_seldom_decide():
    """3 % of the answers of a take 60 seconds, the others one; b's take one to three. b is better, and looks worse."""
    wrong = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        evaluation = Evaluation(["a", "b"], metric=Mean(higher_is_better=False), paired=False, seed=seed)
        while not (decision := evaluation.decision(explain=False)).decided and evaluation.told < 80:
            name, shares = evaluation.ask(), rng.random((5, 1))
            evaluation.tell(name, np.where(shares < 0.97, 1.0, 60.0) if name == "a" else 1.0 + 2.0 * shares)
        wrong += decision.decided and decision.best == "a"
    assert wrong <= 3


def test_related_latencies_are_sampled_together_until_the_leader_has_enough():
    """Alone, the leader's first rare value would be taken for one that the other one has at the same index."""
    evaluation = Evaluation(["a", "b"], metric=Mean(higher_is_better=False))
    rng = np.random.default_rng(0)
    shared, told = rng.random((400, 1)), dict.fromkeys("ab", 0)
    while not evaluation.decision(explain=False).decided:
        name = evaluation.ask()
        values = (1.0 if name == "a" else 3.0) + 0.1 * shared[told[name] : told[name] + 5] + 0.01 * rng.random((5, 1))
        evaluation.tell(name, values)
        told[name] += 5
    assert told["a"] == FEWEST_UNBOUNDED
    assert told["b"] >= FEWEST_UNBOUNDED - 5


@pytest.mark.parametrize(("delta", "until"), [(0.3, 500_000), (0.05, 4_000), (0.03, 900), (1e-6, 100)])
def test_the_promise_ends_where_it_was_measured_to_end(delta: float, until: int):
    assert Stopping(delta).holds_until == until


@pytest.mark.long
def test_equal_generators_are_seldom_told_apart_before_their_rare_values_come():
    """0 or 1 in a range that is not known; by errors of their own, 45 % of such runs stop."""
    stopped = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        evaluation = Evaluation(["a", "b"], metric=Mean(), paired=False, seed=seed)
        while not (done := evaluation.decision(explain=False).decided) and evaluation.told < 40:
            evaluation.tell(evaluation.ask(), (rng.random((5, 1)) < 0.97).astype(float))
        stopped += done
    assert stopped <= 4


def test_a_generator_of_equal_values_is_sampled_until_a_decision():
    """Its own error is 0, and what it borrows falls only with its own samples."""
    rng = np.random.default_rng(0)
    evaluation = Evaluation(["a", "b"], metric=Mean(), paired=False)
    while not evaluation.decision(explain=False).decided:
        name = evaluation.ask()
        evaluation.tell(name, rng.standard_normal((5, 1)) * (name == "b") + (name == "b") * 0.25)
        assert evaluation.told < 1_000
    made = evaluation.estimates()["a"]
    assert made is not None
    assert made.samples > 20
