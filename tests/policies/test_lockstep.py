"""Lockstep elimination: who is sampled among generators of common seeds, and who no longer is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from optimist.estimates.pairing import COMMON
from optimist.policies import Arm, Policy, Stopping
from optimist.policies.policy import UNRELATED
from tests.support.paired_arms import correlated, estimate, pairing

TOLD = 200
POLICY = Policy("top-two", 2, Stopping())
SHARED = 0.9


def alike(rho: float, count: int) -> tuple[np.ndarray, list[np.ndarray]]:
    """Influences, and others that each have this ρ_L with them."""
    base, other = correlated(rho)
    own = np.random.default_rng(1).standard_normal((COMMON, count))
    own -= own.mean(axis=0)
    own = np.linalg.qr(np.column_stack([base, own]))[0].T[1:]
    shared = base * (base @ other)
    return base, [shared + np.linalg.norm(other - shared) * each for each in own]


def arms_of(gaps: Sequence[float], rho: float = SHARED, n: int = 100, counts: Sequence[int] | None = None) -> list[Arm]:
    """Arms that are these numbers of the threshold behind the first one, each with this correlation to it."""
    base, others = alike(rho, len(gaps) - 1)
    needed = POLICY.stopping.threshold(len(gaps), TOLD)
    made = [
        estimate(gap * needed * np.sqrt(2.0 - 2.0 * rho), 1.0, 1.0, n, pairing(influence, n))
        for gap, influence in zip(gaps, [base, *others], strict=True)
    ]
    told = [n] * len(gaps) if counts is None else counts
    return [Arm(f"g{place}", one, count, count // 5) for place, (one, count) in enumerate(zip(made, told, strict=True))]


def picks(arms: Sequence[Arm], rounds: int = 40) -> set[int]:
    return {POLICY.pick(arms, TOLD, round_) for round_ in range(rounds)}


def test_the_one_in_question_with_the_fewest_samples_is_picked_whatever_chance_says():
    assert picks(arms_of([0.0, 0.3, 0.6], counts=[105, 105, 100])) == {2}
    assert picks(arms_of([0.0, 0.3, 0.6], counts=[105, 100, 100])) == {1}
    assert picks(arms_of([0.0, 0.3, 0.6])) == {0}


def test_open_picks_count():
    arms = arms_of([0.0, 0.3, 0.6])
    assert picks([replace(arms[0], pending_samples=5), *arms[1:]]) == {1}
    on_their_way = [replace(arms[0], pending_samples=5), replace(arms[1], pending_samples=5), arms[2]]
    assert picks(on_their_way) == {2}


def test_one_that_is_sure_to_be_worse_is_not_sampled_any_more():
    assert picks(arms_of([0.0, 0.3, 1.1], counts=[200, 200, 100])) == {0}


def test_one_close_to_the_threshold_waits_until_no_other_is_in_question():
    needed = POLICY.stopping.threshold(3, TOLD)
    close = 1.0 - 0.25 / needed
    assert picks(arms_of([0.0, 0.3, close], counts=[200, 200, 100])) == {0}
    assert picks(arms_of([0.0, 1.1, close], counts=[200, 200, 100])) == {2}
    assert picks(arms_of([0.0, 1.0 - 0.55 / needed, close], counts=[200, 200, 100])) == {0}


def test_nobody_is_dropped_before_it_can_be_judged():
    few = arms_of([0.0, 0.3, 5.0], n=15)
    assert picks([replace(few[0], samples=20), replace(few[1], samples=20), few[2]]) == {2}
    enough = arms_of([0.0, 0.3, 5.0])
    assert picks([*enough[:2], replace(enough[2], samples=15)]) == {0}, "its estimate is what counts"


def test_one_comes_back_when_another_is_the_best():
    arms = arms_of([0.0, 0.3, 1.1], counts=[200, 200, 100])
    assert picks(arms) == {0}
    fallen = replace(arms[0].estimate, value=0.95 * arms[2].estimate.value)  # pyright: ignore
    assert picks([replace(arms[0], estimate=fallen), *arms[1:]]) == {2}


def test_in_a_round_the_cheapest_comes_first():
    priced = [replace(arm, cost=cost) for arm, cost in zip(arms_of([0.0, 0.3, 0.6]), (3.0, 2.0, 1.0), strict=True)]
    assert picks(priced) == {2}
    assert picks([*priced[:2], replace(priced[2], samples=105)]) == {1}
    assert picks([*priced[:2], replace(priced[2], cost=None)]) == {0}, "costs that are not known are not weighed"


def test_among_the_unrelated_it_is_chance_that_chooses():
    assert picks(arms_of([0.0, 0.3, 0.6], 0.0)) == {0, 1}
    assert picks(arms_of([0.0, 0.3, 0.6], UNRELATED - 0.01)) == {0, 1}
    assert picks(arms_of([0.0, 0.3, 0.6], UNRELATED + 0.01)) == {0}


def test_one_unrelated_arm_matters_only_while_it_is_in_question():
    related = arms_of([0.0, 0.3, 0.6], counts=[205, 205, 200])
    stranger = replace(related[2].estimate, value=related[1].estimate.value, pairing=None)  # pyright: ignore
    assert picks([*related, Arm("stranger", stranger, 200, 40)]) >= {0, 3}
    far = replace(stranger, value=100.0)
    assert picks([*related, Arm("stranger", far, 100, 20)]) == {2}
