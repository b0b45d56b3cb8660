"""Differences of means whose rare values may not have come yet."""

from __future__ import annotations

import math

import numpy as np
import pytest

from optimist import Evaluation
from optimist.numerics.estimate import Estimate
from optimist.numerics.skewness import OF_MEANS
from optimist.policies.contrasts import Contrasts
from optimist.policies.rare_values import Means, sampled
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
    assert made.samples > 20
