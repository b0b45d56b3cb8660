"""No difference that is shown contradicts its verdict."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimist.estimates.estimate import Estimate
from optimist.policies import Arm, Policy, Stopping
from optimist.policies.reports import contrasts_from_best
from optimist.policies.verdicts import explained


def arm(name: str, value: float, error: float, samples: int, *, strict: bool = False) -> Arm:
    ends = (value - 2.0 * error, value + 2.0 * error)
    made = Estimate(value, value, samples, *ends, ends[0], error, error, strict=strict)
    return Arm(name, made, samples, samples // 5)


@given(
    st.lists(st.tuples(st.floats(0.1, 5.0), st.floats(0.01, 1.0), st.integers(5, 300)), min_size=2, max_size=6),
    st.sampled_from([0.0, 0.1, 1.0]),
    st.integers(1, 10_000),
)
def test_an_interval_is_above_0_exactly_where_the_rival_is_worse(
    made: list[tuple[float, float, int]], tolerance: float, told: int
):
    arms = [arm(f"g{place}", *each) for place, each in enumerate(made)]
    rule = Stopping(0.05, tolerance)
    decision = explained(Policy("top-two", len(arms), rule), arms, told)
    shown = {one.generator: one for one in contrasts_from_best(arms, rule, told, decision.best)}
    for one in decision.verdicts:
        lower, upper = shown[one.generator].lower, shown[one.generator].upper
        if lower is None or upper is None:
            assert one.verdict == "close"
        else:
            assert (one.verdict == "worse") == (lower > 0.0)
            if one.verdict == "equal":
                assert upper <= tolerance * (1.0 + 1e-12)


def test_where_all_intervals_hold_at_once_that_of_a_difference_follows_from_them():
    arms = [arm("a", 1.0, 0.1, 50, strict=True), arm("b", 2.0, 0.2, 50, strict=True)]
    (one,) = contrasts_from_best(arms, Stopping(), 20, "a")
    assert (one.lower, one.upper) == (pytest.approx(1.6 - 1.2), pytest.approx(2.4 - 0.8))
    assert explained(Policy("top-two", 2, Stopping()), arms, 20).verdicts[0].verdict == "worse"


def test_a_difference_of_few_samples_has_no_interval():
    (one,) = contrasts_from_best([arm("a", 1.0, 0.1, 50), arm("b", 9.0, 0.1, 15)], Stopping(), 13, "a")
    assert (one.difference, one.lower, one.upper) == (pytest.approx(8.0), None, None)
    assert np.isfinite(one.standard_error or math.nan)
