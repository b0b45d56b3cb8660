"""Limits that scores meet or not: margins and their errors, verdicts, and the cheapest that meets all."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest

from optimist import Evaluation
from optimist.estimates.estimate import Estimate
from optimist.policies import Arm, Cheapest, LimitOn
from optimist.policies.limits import Margins, gate, margins_of, scaled, sequence, threshold
from optimist_client.limits import Limit
from optimist_client.metrics import Mean

NAMES = ["small", "mid", "big"]


def mean_of(value: float, n: int = 400, error: float = 0.01, skewness: float = 0.0, **more: Any) -> Estimate:
    """An estimate of a mean of independent values, of which higher is better."""
    ends = value - 2.0 * error, value + 2.0 * error, value
    known = {"lower_is_better": False, "value_skewness": skewness, "floor": None, **more}
    return Estimate(value, value, n, *ends, error, error, **known)


def told(rows: np.ndarray, **how: Any) -> list[Estimate]:
    """The estimates of means of these rows (G, n), told in batches of ten, paired unless `how` says otherwise."""
    names = [f"g{place}" for place in range(len(rows))]
    evaluation = Evaluation(names, metric=Mean(**how.pop("metric", {})), rescore_growth=0.0, **how)
    for start in range(0, rows.shape[1], 10):
        for name, values in zip(names, rows, strict=True):
            evaluation.tell(name, values[start : start + 10, None])
    return [one for one in evaluation.estimates().values() if one is not None]


def arms_of(estimates: Sequence[Estimate | None], costs: Sequence[float | None] = (1.0, 4.0, 30.0)) -> list[Arm]:
    return [
        Arm(name, one, 0 if one is None else one.samples, 40, cost=cost)
        for name, one, cost in zip(NAMES, estimates, costs, strict=True)
    ]


def within(allowed: float, **more: Any) -> Cheapest:
    return Cheapest(0.05, (LimitOn("", Limit("best", allowed), "Mean"),), **more)


def test_every_look_counts_and_so_does_every_comparison():
    assert sequence(1) == 1.0
    assert math.isclose(sequence(100), (1.0 + math.log(100)) ** 1.5)
    assert math.isclose(threshold(0.05, 6, 100), NormalDist().inv_cdf(1.0 - 0.05 / (12.0 * sequence(100))))
    assert math.isclose(threshold(0.05, 6, None), NormalDist().inv_cdf(1.0 - 0.05 / 6.0))
    of = {text: margins_of(Limit.of(text), NAMES, [mean_of(0.5)] * 3) for text in ("within 1% of best", "> 0.4")}
    of["within 0.1 of big"] = margins_of(Limit.of("within 0.1 of big"), NAMES, [mean_of(0.5)] * 3)
    assert [one.comparisons for one in of.values()] == [2, 3, 2]


def test_a_margin_is_met_or_missed_by_its_own_error_and_open_otherwise():
    found = margins_of(Limit("best", 0.1), NAMES, [mean_of(0.0), mean_of(0.93), mean_of(1.0)])
    assert np.allclose(found.met.margin[:, 2], [0.9, -0.03, -0.1])
    assert np.allclose(found.met.error[:2, 2], math.hypot(0.01, 0.01))
    assert np.allclose(found.reach(3.5), 3.5 * (1.0 + (3.5**2 - 9.0) / 1600.0)), "about the t quantile"
    refused = found.refused(3.5)
    assert (refused.tolist(), found.accepted(3.5, refused).tolist()) == ([True, False, False], [False, False, True])
    assert found.accepted(2.0, refused).tolist() == [False, True, True]


def test_a_share_counts_the_error_of_the_best_value():
    low, high = mean_of(0.9, error=0.01), mean_of(1.0, error=0.05)
    share, names = Limit.of("within 20% of best"), ["a", "b"]
    found = margins_of(share, names, [low, high])
    assert math.isclose(found.met.margin[0, 1], 0.8 - 0.9)
    assert math.isclose(found.met.error[0, 1], math.hypot(0.01, 0.8 * 0.05))
    assert math.isclose(found.allowed[0, 1], 0.2)
    distance = replace(low, lower_is_better=True), replace(high, lower_is_better=True)
    assert math.isclose(margins_of(share, names, distance).met.margin[1, 0], 1 - 1.2 * 0.9)
    below_zero = replace(distance[0], value=-0.1), distance[1]
    assert math.isclose(margins_of(share, names, below_zero).met.margin[1, 0], 1.1)


def test_rare_values_widen_by_the_sign_of_the_margin():
    """Values that would raise a latency speak against a limit that it seems to meet, not against one that it misses."""
    skewed = mean_of(1.0, skewness=5.0, lower_is_better=True)
    errors = [margins_of(Limit.of(f"< {limit}"), ["a"], [skewed]).met.error[0, 0] for limit in (1.1, 0.9)]
    assert np.allclose(errors, [0.01 * math.sqrt(1.0 + 80.0 * 25.0 / 400), 0.01])
    flat = mean_of(0.9, lower_is_better=True)
    near, far = (margins_of(Limit("best", by), ["a", "b"], [skewed, flat]).met.error[0, 1] for by in (0.2, 0.05))
    assert near > 1.2 * far, "0.1 worse is within 0.2, unless rare values come; and beyond 0.05"


def test_pairs_that_mostly_agree_get_two_more_that_speak_against():
    rng = np.random.default_rng(0)
    base = (rng.random(200) < 0.7).astype(float)
    worse = base.copy()
    worse[np.flatnonzero(base)[:2]] = 0.0
    found = margins_of(Limit("best", 0.05), ["a", "b"], told(np.stack([worse, base]), metric={"range": (0, 1)}), (0, 1))
    for side, row in ((found.met, 1.0), (found.missed, -1.0)):
        rows = np.append(base - worse, [row, row])
        assert math.isclose(side.margin[0, 1], rows.mean() - 0.05, rel_tol=1e-9)
        least = rows.var() / 201 * (1 + 5 / 200)
        assert least < side.error[0, 1] ** 2 < 1.1 * least, "the correlation is believed a little less"


def test_what_has_changed_is_compared_to_the_last_bit_as_all_are_anew():
    rng = np.random.default_rng(1)
    rows = rng.standard_normal((5, 300)) + rng.standard_normal(300) + 2.0
    many, fewer = told(rows), told(rows[:, :120])
    for text in ("within 0.1 of best", "within 3% of best", "within 0.1 of g3"):
        limit, names = Limit.of(text), [f"g{place}" for place in range(5)]
        margins_of(limit, names, [*many[:2], fewer[2], *many[3:]])
        then = margins_of(limit, names, many)
        margins_of(limit, names, [replace(one) for one in many])  # nothing of it is the same
        anew = margins_of(limit, names, [replace(one) for one in many])
        for field in ("values", "allowed", "rows", "rho"):
            assert np.array_equal(getattr(then, field), getattr(anew, field), equal_nan=True), field
        for one, other in ((then.met, anew.met), (then.missed, anew.missed)):
            assert np.array_equal(np.array(one), np.array(other), equal_nan=True)


def test_an_estimate_times_a_number_is_that_of_all_values_times_it():
    rows = np.random.default_rng(2).standard_normal((2, 200)) + np.random.default_rng(3).standard_normal(200)
    one, other = told(rows)[0], told(1.5 * rows)[0]
    made = scaled(one, 1.5)
    assert made is scaled(one, 1.5)
    assert math.isclose(made.value, other.value)
    assert made.pairing is not None
    assert other.pairing is not None
    assert np.allclose(made.pairing.influence, other.pairing.influence, atol=1e-5, equal_nan=True)
    for own, its in zip(made.pairing.history, other.pairing.history, strict=True):
        assert np.allclose([*own[:4], own.systematic], [*its[:4], its.systematic])


def test_nothing_is_said_of_few_samples_nor_of_values_that_are_all_equal():
    few = margins_of(Limit("best", 5.0), NAMES, [mean_of(0.0, n=19), mean_of(0.0), None])
    assert not few.refused(1.0).any()
    assert not few.accepted(1.0, few.refused(1.0)).any(), "the third may yet be the best"
    equal = margins_of(Limit.of("< 5"), ["a"], [mean_of(1.0, error=0.0, lower_is_better=True)])
    assert not equal.accepted(1.0, equal.refused(1.0)).any()


def test_a_generator_that_is_gone_leaves_what_is_relative_to_it_open():
    rule = Cheapest(0.05, (LimitOn("", Limit.of("within 0.1 of gone"), "Mean"),))
    found = rule.decide(arms_of([mean_of(0.0), mean_of(0.97), mean_of(1.0)]), 100, explain=True)
    assert not found.decided
    assert {one.verdict for one in found.limits} == {"open"}


def test_strict_intervals_judge_by_their_ends():
    strict = [mean_of(value, strict=True) for value in (0.9, 0.95, 1.0)]
    found = margins_of(Limit("best", 0.1), NAMES, strict)
    assert np.allclose(found.met.margin[:, 2], [0.04, -0.01, -0.06])
    assert np.allclose(found.missed.margin[0, 2], -0.04)
    assert found.accepted(3.0, found.refused(3.0)).tolist() == [False, True, True]


def test_the_cheapest_is_named_once_all_cheaper_ones_miss_a_limit():
    estimates = [mean_of(0.0), mean_of(0.97), mean_of(1.0)]
    found = within(0.1).decide(arms_of(estimates), 100, explain=True)
    assert (found.best, found.decided, found.none_meets) == ("mid", True, False)
    assert found.confidence is not None
    assert found.confidence > 0.95
    assert [one.verdict for one in found.limits] == ["not met", "met", "met"]
    assert "0.1 allowed" in found.limits[0].text
    open_ = within(0.1).decide(arms_of([mean_of(0.9), *estimates[1:]]), 100, explain=True)
    assert (open_.best, open_.decided, open_.limits[0].verdict) == ("mid", False, "open")
    assert open_.confidence is not None
    assert open_.confidence < 0.95


@pytest.mark.parametrize(
    ("costs", "best"),
    [((4.0, 4.0, 30.0), "mid"), ((None, 4.0, 30.0), "mid"), ((1.0, None, 30.0), None), ((None, None, None), None)],
)
def test_equal_costs_do_not_block_and_unknown_ones_cannot_be_named(costs: Sequence[float | None], best: str | None):
    estimates = [mean_of(0.9), mean_of(0.99), mean_of(1.0)]
    found = within(0.1).decide(arms_of(estimates, costs), 100)
    assert (found.best if found.decided else None) == best


def test_a_measured_cost_is_higher_by_its_error_or_the_other_must_be_refused():
    def arms(cheap: float) -> list[Arm]:
        spent = [mean_of(cost, error=0.1, lower_is_better=True) for cost in (cheap, 1.0, 9.0)]
        scores = [mean_of(0.99), mean_of(0.99), mean_of(1.0)]
        return [replace(arm, watched={"$": one}) for arm, one in zip(arms_of(scores), spent, strict=True)]

    rule = within(0.1, measured="$")
    assert rule.table(arms(1.1), 100).comparisons == 4
    assert [rule.decide(arms(cheap), 100).decided for cheap in (1.1, 2.5)] == [False, True]
    assert rule.decide(arms(2.5), 100).best == "mid"


def test_where_every_generator_misses_a_limit_none_is_named():
    rule = Cheapest(0.05, (LimitOn("", Limit.of("> 2")),))
    found = rule.decide(arms_of([mean_of(0.0), mean_of(0.97), mean_of(1.0)]), 100)
    assert (found.best, found.decided, found.none_meets) == (None, True, True)
    unknown = rule.decide(arms_of([mean_of(0.0), None, mean_of(1.0)]), 100)
    assert not unknown.decided, "the one without data may meet it"
    costly = rule.decide(arms_of([mean_of(3.0), mean_of(0.0), None]), 100)
    assert costly.best == "small", "a dearer one need not be known"


def test_it_samples_what_is_open_and_nothing_else():
    rule = within(0.1)
    independent = [mean_of(0.0), mean_of(0.92), mean_of(1.0)]
    assert NAMES[rule.pick(arms_of(independent), 100)] in ("mid", "big")
    refused = rule.table(arms_of(independent), 100)
    needed = refused.open_comparisons(np.ones(3), np.ones(3))
    assert {NAMES[arm] for one in needed for arm in one.arms} == {"mid", "big"}
    dear = [mean_of(0.92), mean_of(0.97), mean_of(1.0)]
    picked = {NAMES[rule.pick(arms_of(dear, costs), 100)] for costs in ((1.0, 4.0, 30.0), (1.0, 4.0, 4000.0))}
    assert "big" not in picked, "its samples cost more than they decide"
    assert NAMES[rule.pick(arms_of([replace(dear[0], samples=10), *dear[1:]]), 100)] == "small"


def test_gates_need_no_union_for_a_yes():
    def margins(value: float) -> Margins:
        return margins_of(Limit.of("within 0.05 of mid"), ["new", "mid"], [mean_of(value), mean_of(1.0)])

    answers = [gate([margins(value)], 0, 0.05, 100) for value in (1.05, 0.96, 0.8)]
    assert answers == ["yes", "open", "no"]
    assert gate([margins(1.05), margins(0.8)], 0, 0.05, 100) == "no"
    assert gate([margins(1.05), margins(0.96)], 0, 0.05, 100) == "open"
