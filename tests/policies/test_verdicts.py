"""Verdicts on rivals, tolerances as shares, and the samples that a decision still takes, on estimates by hand."""

from __future__ import annotations

import math

import pytest

from optimist.estimates.estimate import Estimate, Scale
from optimist.policies import Arm, Policy, Stopping, deciding_tolerance, explained
from optimist_client.models.decisions import HardestRival

TOLD = 100


def arm(
    name: str, value: float, error: float | None, samples: int = 100, scale: Scale = "linear", active: bool = True
) -> Arm:
    lower_is_better = scale == "linear"
    estimate = Estimate(value, value, samples, -1.0, 1.0, 0.0, error, error, scale, lower_is_better)
    return Arm(name, estimate, samples, samples // 5, active=active)


def policy(tolerance: float | str = 0.0, name: str = "top-two") -> Policy:
    return Policy(name, 2, Stopping(0.05, tolerance))


def verdicts(arms: list[Arm], tolerance: float | str = 0.0) -> dict[str, str]:
    return {one.generator: one.verdict for one in explained(policy(tolerance), arms, TOLD).verdicts}


def hardest_of(arms: list[Arm], made: Policy | None = None) -> HardestRival:
    """The rival that is the hardest to decide about."""
    found = explained(made or policy(), arms, TOLD).hardest
    assert found is not None
    return found


def test_a_verdict_for_each_rival():
    arms = [arm("far", 9.0, 0.1), arm("best", 1.0, 0.1), arm("near", 1.2, 0.1), arm("same", 1.01, 0.001)]
    assert verdicts(arms) == {"far": "worse", "near": "close", "same": "close"}
    assert verdicts(arms, 0.5) == {"far": "worse", "near": "close", "same": "equal"}
    assert verdicts(arms, 5.0) == {"far": "worse", "near": "equal", "same": "equal"}


def test_too_few_samples_show_nothing():
    assert verdicts([arm("a", 0.0, 0.1), arm("b", 9.0, 0.1, samples=19)], 50.0) == {"b": "close"}


@pytest.mark.parametrize(
    "arms",
    [
        [],
        [Arm("a")],
        [arm("a", 1.0, 0.1)],
        [arm("a", 1.0, 0.1), Arm("b")],
        [arm("a", 1.0, None), arm("b", 2.0, None)],
    ],
)
def test_no_verdicts_without_rivals_or_errors(arms: list[Arm]):
    decision = explained(policy(), arms, TOLD)
    assert decision == policy().stopping.decide(arms, TOLD)
    assert (decision.decided, bool(decision.reason)) == (False, True)
    assert deciding_tolerance(policy(), arms, TOLD) is None


def test_a_share_is_of_the_best_score():
    fid = [arm("a", 10.0, 0.1), arm("b", 20.0, 0.1)]
    assert Stopping(tolerance="5%").tolerated(fid) == pytest.approx(0.5)
    below_zero = [arm("a", -0.1, 0.1), arm("b", 20.0, 0.1)]
    assert Stopping(tolerance="5%").tolerated(below_zero) == 0.0
    logs = [arm("a", 3.0, 0.1, scale="log"), arm("b", 2.0, 0.1, scale="log")]
    assert Stopping(tolerance="1%").tolerated(logs) == pytest.approx(math.log(1.01))
    assert Stopping(tolerance=0.25).tolerated(logs) == 0.25


def test_a_share_decides_like_the_number_that_it_is():
    arms = [arm("a", 10.0, 0.1), arm("b", 10.0, 0.1)]
    assert not Stopping(tolerance=0.1).decide(arms, TOLD).decided
    assert Stopping(tolerance="10%").decide(arms, TOLD) == Stopping(tolerance=1.0).decide(arms, TOLD)
    assert Stopping(tolerance="10%").decide(arms, TOLD).decided


def test_the_closest_rival_is_that_of_the_stopping_rule():
    arms = [arm("far but vague", 2.0, 2.0), arm("best", 1.0, 0.1), arm("near but sure", 1.5, 0.01)]
    hardest = hardest_of(arms, policy("2%"))
    assert (hardest.generator, hardest.difference, hardest.tolerance) == ("far but vague", 1.0, pytest.approx(0.02))
    assert hardest.separation == pytest.approx(1.02 / math.hypot(2.0, 0.1))
    assert hardest.needed == policy().stopping.threshold(3, TOLD)


@pytest.mark.parametrize("name", ["top-two", "ucb", "uniform"])
def test_so_many_more_samples_decide_if_the_difference_stays(name: str):
    """With all differences as they are the number lies in the range, and as many samples split so do decide."""
    arms = [arm("a", 1.0, 0.1), arm("b", 1.25, 0.1), arm("c", 4.0, 0.3)]
    made = policy(name=name)
    hardest = hardest_of(arms, made)
    assert hardest.more_samples is not None
    low, high = hardest.more_samples

    def at(n: int) -> list[Arm]:
        shrunk = math.sqrt(100 / n)
        return [arm("a", 1.0, 0.1 * shrunk, n), arm("b", 1.25, 0.1 * shrunk, n), arm("c", 4.0, 0.3 * shrunk, n)]

    n = next(n for n in range(100, 10_000) if made.stopping.decide(at(n), 3 * n // 5).decided)
    assert low < 3 * (n - 100) < high


def test_the_cheapest_split_leaves_out_what_is_decided():
    arms = [arm("a", 1.0, 0.1), arm("b", 1.25, 0.1), *(arm(f"far {i}", 9.0, 0.1) for i in range(8))]
    focused, even = (hardest_of(arms, policy(name=name)).more_samples for name in ("top-two", "uniform"))
    assert 3 * focused[0] < even[0]
    assert 3 * focused[1] < even[1]


def test_nothing_is_said_that_cannot_be():
    assert hardest_of([arm("a", 1.0, 0.1), arm("b", 1.01, 0.1)]).more_samples is None
    # Both are paused, so that no sample comes that could decide.
    paused = [arm("a", 1.0, 0.1, active=False), arm("b", 1.25, 0.1, active=False), arm("c", 9.0, 0.1)]
    assert hardest_of(paused).more_samples is None
    decided = [arm("a", 1.0, 0.1), arm("b", 9.0, 0.1)]
    assert explained(policy(), decided, TOLD).decided
    assert hardest_of(decided).more_samples is None


def test_more_of_the_other_one_where_one_is_paused():
    assert hardest_of([arm("a", 1.0, 0.01, active=False), arm("b", 1.25, 0.12)]).more_samples is not None


def test_few_samples_take_the_missing_ones():
    assert hardest_of([arm("a", 0.0, 0.01), arm("b", 9.0, 0.01, samples=15)]).more_samples == (5, 5)


def test_the_tolerance_that_would_decide_does():
    arms = [arm("a", 1.0, 0.1), arm("b", 1.25, 0.2), arm("c", 1.1, 0.01)]
    tolerance = deciding_tolerance(policy(), arms, TOLD)
    assert tolerance is not None
    assert not Stopping(0.05, tolerance * 0.999).decide(arms, TOLD).decided
    assert Stopping(0.05, tolerance * 1.001).decide(arms, TOLD).decided


def test_absurd_numbers_say_nothing():
    arms = [arm("a", 1.0, 1e200), arm("b", 1e300, 1e308)]
    found = explained(policy(), arms, TOLD)
    assert [one.verdict for one in found.verdicts] == ["close"]
    assert hardest_of(arms).more_samples is None
