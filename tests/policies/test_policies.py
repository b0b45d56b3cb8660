"""The policies of rules/stopping.md on estimates written by hand."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest

from optimist.estimates.estimate import Estimate, is_due
from optimist.policies import Arm, Policy, Stopping, warmup_batches
from optimist.records import codec
from optimist_client.metrics import FID, InceptionScore
from tests.support.configs import config_of


def arm(name: str, value: float, error: float | None = 1.0, samples: int = 100, **counts: int) -> Arm:
    return Arm(name, estimate(value, error, samples), samples, counts.pop("batches", samples // 5), **counts)


def estimate(value: float, error: float | None, samples: int, *, lower_is_better: bool = True, width: float = 3.0):
    stopping = None if error is None else 1.5 * error
    return Estimate(value, value, samples, value - width, value + width, value - width if lower_is_better else
                    value + width, error, stopping, "linear", lower_is_better)  # fmt: skip


def priced(of: Arm, cost: float | None) -> Arm:
    return replace(of, cost=cost)


def policy(name: str, seed: int = 0, warmup: int = 2, delta: float = 0.05) -> Policy:
    return Policy(name, warmup, Stopping(delta), seed)


class TestWarmup:
    def test_goes_round_in_index_order(self):
        counts = [0, 0, 0]
        picks = []
        for told in range(6):
            arms = [Arm(str(i), None, 5 * c, c) for i, c in enumerate(counts)]
            picks.append(policy("ucb").pick(arms, told, told + 1))
            counts[picks[-1]] += 1
        assert picks == [0, 1, 2, 0, 1, 2]

    def test_open_picks_count(self):
        arms = [Arm("a", None, 0, 0, 10, 2), Arm("b", None, 0, 0, 5, 1), Arm("c", None, 0, 0, 5, 1)]
        assert policy("ucb").pick(arms, 0, 5) == 1

    def test_paused_arms_are_never_asked(self):
        arms = [Arm("a", active=False), Arm("b")]
        assert policy("ucb").pick(arms, 0, 1) == 1
        with pytest.raises(ValueError, match="active"):
            policy("ucb").pick([Arm("a", active=False)], 0, 1)

    def test_after_it_the_arm_without_estimate_comes_first(self):
        arms = [arm("a", 1.0), Arm("b", None, 10, 2), Arm("c", None, 5, 2)]
        assert policy("ucb").pick(arms, 40, 41) == 2

    def test_defaults(self):
        assert warmup_batches(FID, "influence") == 2
        assert warmup_batches(FID, "theorem") == 1
        assert warmup_batches(InceptionScore, "influence") == 4

    def test_it_lasts_until_open_kernels_can_be_fixed(self):
        assert warmup_batches(FID, "influence", given=3) == 3
        assert warmup_batches(FID, "influence", given=3, needed=41, batch_size=10) == 5


class TestUcb:
    def test_is_value_minus_root_two_log_t_errors(self):
        told = 50
        bonus = math.sqrt(2 * math.log(told))
        near = arm("b", 1.0 + bonus * (2.0 - 1.0) - 0.01, 2.0)
        far = arm("b", 1.0 + bonus * (2.0 - 1.0) + 0.01, 2.0)
        assert policy("ucb").pick([arm("a", 1.0), near], told, 51) == 1
        assert policy("ucb").pick([arm("a", 1.0), far], told, 51) == 0

    def test_open_picks_narrow_the_error(self):
        wide = arm("b", 1.0, 2.0)
        crowded = arm("b", 1.0, 2.0, pending_samples=300, pending_batches=60)  # half the error of `wide`
        assert policy("ucb").pick([arm("a", 1.0, 1.5), wide], 50, 51) == 1
        assert policy("ucb").pick([arm("a", 1.0, 1.5), crowded], 50, 51) == 0

    def test_papers_bounds_rank_by_their_optimistic_value_narrowed_by_open_picks(self):
        a = Arm("a", estimate(5.0, None, 100, width=2.0), 100, 20)
        b = Arm("b", estimate(6.0, None, 100, width=3.5), 100, 20)
        crowded = replace(b, pending_samples=300, pending_batches=60)
        assert policy("ucb").pick([a, b], 50, 51) == 1
        assert policy("ucb").pick([a, crowded], 50, 51) == 0
        assert policy("ucb").pick([priced(a, 1.0), priced(b, 100.0)], 50, 51) == 1, "costs are not weighed"

    def test_infinite_ends_tie_and_the_fewest_samples_win(self):
        arms = [Arm(n, estimate(5.0, None, s, width=math.inf), s, s // 5) for n, s in (("a", 30), ("b", 20), ("c", 20))]
        assert policy("ucb").pick(arms, 14, 15) == 1

    def test_a_score_is_maximised(self):
        arms = [Arm(n, estimate(v, 1.0, 100, lower_is_better=False), 100, 20) for n, v in (("a", 1.0), ("b", 2.0))]
        assert policy("ucb").pick(arms, 40, 41) == 1
        assert policy("greedy").pick(arms, 40, 41) == 1


class TestRandomised:
    def test_the_same_seed_and_round_make_the_same_pick(self):
        arms = [arm("a", 1.0), arm("b", 1.1), arm("c", 1.2)]
        for name in ("thompson", "top-two"):
            first = [policy(name, seed=3).pick(arms, 60, r) for r in range(50)]
            assert first == [policy(name, seed=3).pick(arms, 60, r) for r in range(50)]
            assert first != [policy(name, seed=4).pick(arms, 60, r) for r in range(50)]

    def test_thompson_draws_from_the_errors(self):
        arms = [arm("a", 0.0, 1.0), arm("b", 1.0, 1.0)]
        share = np.mean([policy("thompson").pick(arms, 40, r) == 0 for r in range(4000)])
        assert share == pytest.approx(NormalDist().cdf(1 / math.sqrt(2)), abs=0.03)

    def test_top_two_splits_by_variance(self):
        arms = [arm("a", 0.0, 2.0), arm("b", 0.5, 1.0), arm("c", 50.0, 1.0)]
        picks = [policy("top-two").pick(arms, 60, r) for r in range(4000)]
        assert picks.count(2) == 0
        assert picks.count(0) / 4000 == pytest.approx(0.8, abs=0.03)

    def test_top_two_challenges_whom_it_has_hardly_seen(self):
        arms = [arm("a", 0.0, 0.1, 500), arm("b", 5.0, 1.0, 100), arm("c", 5.0, 1.0, 10)]
        picks = [policy("top-two").pick(arms, 122, r) for r in range(200)]
        assert picks.count(2) > 150
        assert picks.count(1) == 0

    def test_top_two_unblocks_the_stop(self):
        """Once sd_select would stop, the rival that keeps sd_stop from stopping is sampled."""
        blocking = Estimate(10.0, 10.0, 100, 0.0, 20.0, 0.0, 0.1, 6.0)
        arms = [arm("a", 0.0, 0.1, 500), arm("b", 1.0, 0.1, 100), Arm("c", blocking, 100, 20)]
        picks = [policy("top-two").pick(arms, 140, r) for r in range(300)]
        assert picks.count(2) > 250

    def test_top_two_first_gives_every_contender_the_samples_a_stop_needs(self):
        arms = [arm("a", 0.0, 0.1, 500), arm("b", 50.0, 1.0, 15), arm("c", 60.0, 1.0, 10)]
        assert {policy("top-two").pick(arms, 105, r) for r in range(50)} == {2}
        crowded = [*arms[:2], arm("c", 60.0, 1.0, 10, pending_samples=10, pending_batches=2)]
        assert {policy("top-two").pick(crowded, 105, r) for r in range(50)} == {1}

    def test_top_two_samples_what_a_unit_of_cost_brings_most_of(self):
        """The leader by (sd_l²/c_l)/(sd_l²/c_l + sd_c²/c_c)."""
        arms = [priced(arm("a", 0.0, 2.0), 3.0), priced(arm("b", 0.5, 1.0), 0.5), priced(arm("c", 50.0, 1.0), 0.1)]
        picks = [policy("top-two").pick(arms, 60, r) for r in range(4000)]
        assert picks.count(2) == 0
        assert picks.count(0) / 4000 == pytest.approx((4 / 3) / (4 / 3 + 2), abs=0.03)

    def test_top_two_challenges_the_cheaper_of_two_equal_rivals(self):
        """½ gap²/(sd_l² + sd_c²) + log(c_j · picks_j)"""
        arms = [priced(arm("a", 0.0), 1.0), priced(arm("b", 1.0), 2.0), priced(arm("c", 1.0), 1.0)]
        picks = [policy("top-two").pick(arms, 60, r) for r in range(200)]
        assert picks.count(1) == 0
        assert picks.count(2) > 0

    @pytest.mark.parametrize("costs", [(7.0, 7.0, 7.0), (0.0, 2.0, 1.0), (None, 2.0, 1.0)])
    def test_top_two_weighs_no_costs_that_are_equal_or_zero_or_not_known(self, costs: tuple[float | None, ...]):
        arms = [arm("a", 0.0, 2.0), arm("b", 0.5, 1.0), arm("c", 0.6, 1.5)]
        with_costs = [priced(one, cost) for one, cost in zip(arms, costs, strict=True)]
        plain, weighed = ([policy("top-two").pick(of, 60, r) for r in range(200)] for of in (arms, with_costs))
        assert weighed == plain

    def test_the_samples_of_two_arms_settle_at_the_cheapest_ratio(self):
        """n_l/n_c = (σ_l/σ_c)·√(c_c/c_l), as the errors fall with the samples."""
        (sigma, tau), (cheap, costly) = (3.0, 1.0), (0.2, 5.0)
        n = [100, 150]
        for r in range(2000):
            arms = [
                priced(arm("a", 0.0, sigma / math.sqrt(n[0]), n[0]), costly),
                priced(arm("b", 0.1, tau / math.sqrt(n[1]), n[1]), cheap),
            ]
            n[policy("top-two").pick(arms, 60, r)] += 5
        assert n[0] / n[1] == pytest.approx(sigma / tau * math.sqrt(cheap / costly), rel=0.1)


def test_uniform_evens_out():
    arms = [arm("a", 1.0, samples=15), arm("b", 9.0, samples=10), arm("c", 0.0, samples=20)]
    assert policy("uniform").pick(arms, 9, 10) == 1


class TestStopping:
    @pytest.mark.parametrize(("contenders", "looks"), [(2, 3.0), (3, 3.0), (4, 3.75), (8, 8.75)])
    def test_threshold_is_bonferroni_over_rivals_and_log_time(self, contenders: int, looks: float):
        expected = NormalDist().inv_cdf(1 - 0.05 / (looks * (1 + math.log(200))))
        assert Stopping(0.05).threshold(contenders, 200) == pytest.approx(expected)

    @pytest.mark.parametrize("gap", [0.0, 0.02])
    def test_a_nearly_tied_pair_is_named_wrong_at_most_as_often_as_delta(self, gap: float):
        """Means of normal samples, σ = 1, to 2,500 samples of each; the full table: benchmarks/near_ties.py."""
        rng, rule, runs = np.random.default_rng(0), Stopping(0.05), 20_000
        difference, counts = np.zeros(runs), np.unique(np.round(20 * 1.04 ** np.arange(124)))
        wrong, before = 0, 0.0
        for count in counts:
            new, before = count - before, count
            difference += gap * new + math.sqrt(2.0 * new) * rng.standard_normal(len(difference))
            z = difference / math.sqrt(2.0 * count)
            threshold = rule.threshold(2, round(2 * count / 5))
            wrong += int((z < -threshold).sum())
            difference = difference[np.abs(z) <= threshold]
        assert wrong / runs < 0.05

    def test_stops_just_past_the_threshold(self):
        told, rule = 100, Stopping(0.05)
        step = rule.threshold(2, told) * 1.5 * math.sqrt(2)  # errors of 1.5 each
        assert rule.decide([arm("a", 0.0), arm("b", step + 0.01)], told).decided
        assert not rule.decide([arm("a", 0.0), arm("b", step - 0.01)], told).decided

    def test_confidence_reaches_one_minus_delta_exactly_when_it_stops(self):
        rule = Stopping(0.05)
        for gap in np.linspace(3, 9, 40):
            decision = rule.decide([arm("a", 0.0), arm("b", gap), arm("c", gap + 1)], 60)
            assert decision.confidence is not None
            assert decision.decided == (decision.confidence > 0.95)

    def test_tolerance_adds_to_the_gap(self):
        arms = [arm("a", 0.0), arm("b", 0.0)]
        assert not Stopping(0.05).decide(arms, 100).decided
        assert Stopping(0.05, tolerance=100.0).decide(arms, 100).decided

    def test_no_contender_with_few_samples(self):
        decision = Stopping(0.05).decide([arm("a", 0.0), arm("b", 1000.0, samples=19)], 30)
        assert not decision.decided
        assert "b" in decision.reason

    def test_samples_told_but_not_scored_do_not_count(self):
        behind = Arm("b", estimate(1000.0, 1.0, 5), samples=40, batches=8)
        assert not Stopping(0.05).decide([arm("a", 0.0), behind], 30).decided

    def test_a_tiny_delta_has_a_threshold(self):
        assert 7.0 < Stopping(1e-12).threshold(2, 100) < 8.0

    def test_uniform_samples_stop_an_even_split(self):
        rule = Stopping(0.05)
        arms = [arm("a", 0.0, 1.0, 400), arm("b", 2.0, 2.0, 100), arm("c", 9.0, 1.0, 100)]
        total = rule.uniform_samples(arms, 120)
        assert total is not None
        each = total / 3
        even = [
            arm(a.name, a.estimate.value, a.estimate.standard_error * math.sqrt(a.samples / each), round(each))
            for a in arms
            if a.estimate and a.estimate.standard_error
        ]
        told = round(total / 5)
        assert rule.decide(even, told).confidence == pytest.approx(0.95, abs=2e-3)


KNOWN: dict[str, Any] = {"name": "x", "generators": ["a", "b"]}


def test_the_default_policy_is_one_that_the_bound_serves():
    assert [config_of(**KNOWN, bound=bound).policy for bound in ("influence", "theorem")] == ["top-two", "ucb"]


def test_estimates_are_due_first_at_two_samples_then_by_growth():
    dues, last = [], 0
    for samples in range(1, 60):
        if is_due(samples, last, 0.25):
            dues.append(samples)
            last = samples
    assert dues == [2, 3, 4, 5, 7, 9, 12, 15, 19, 24, 30, 38, 48]
    assert all(is_due(n, n - 1, 0.0) for n in range(2, 10))


def test_estimates_survive_json():
    whole = Estimate(1.0, 2.0, 3, -math.inf, math.inf, -math.inf, None, None, "log", True, None, ("few",))
    assert codec.decode(Estimate, codec.encode(whole)) == whole
    bracketed = replace(whole, floor=0.0, bracket=(1.0, 2.5))
    assert json.loads(codec.encode(bracketed))["bracket"] == [1.0, 2.5]
    assert codec.decode(Estimate, codec.encode(bracketed)) == bracketed
    assert codec.decode(Estimate, codec.encode(whole).replace("{", '{"of a later version":1,', 1)) == whole
