"""How many samples of each generator to take next: counts that make up for what earlier ones rounded."""

from __future__ import annotations

import math

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from optimist.policies import blend_counts

weights = st.lists(st.one_of(st.just(0.0), st.floats(1e-6, 1.0)), min_size=1, max_size=12).filter(any)
sizes = st.lists(st.integers(0, 40), min_size=1, max_size=40)


@settings(max_examples=200, deadline=None)
@given(weights, sizes)
# By the largest remainder it would be 1.03 here.
@example(
    [150.0, 2.0, 2.0, 58.0, 6.0], [int(size) for size in "34453223534523111442133412544343225251232143314213543514322"]
)
def test_all_counts_together_differ_from_the_mixture_by_less_than_one_sample(parts: list[float], asked: list[int]):
    shares = [part / math.fsum(parts) for part in parts]
    credits, totals = [0.0] * len(parts), [0] * len(parts)
    for size in asked:
        counts, credits = blend_counts(parts, credits, size)
        assert sum(counts) == size
        assert min(counts) >= 0
        totals = [total + count for total, count in zip(totals, counts, strict=True)]
        for share, total in zip(shares, totals, strict=True):
            assert abs(total - share * sum(totals)) < 1.0 + 1e-9
            assert share or not total


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.lists(st.floats(0.0, 1.0), min_size=4, max_size=4).filter(any), st.integers(0, 30))))
def test_counts_are_right_while_weights_change(asked: list[tuple[list[float], int]]):
    credits = [0.0] * 4
    for parts, size in asked:
        counts, credits = blend_counts(parts, credits, size)
        assert sum(counts) == size
        assert min(counts) >= 0


def test_many_at_once():
    counts, credits = blend_counts([0.5, 0.3, 0.2], [0.0, 0.0, 0.0], 1_000_001)
    assert counts == [500_001, 300_000, 200_000]
    assert credits == pytest.approx([-0.5, 0.3, 0.2])


@pytest.mark.parametrize("parts", [[0.0, 0.0], [-0.1, 1.1], [math.nan, 1.0]])
def test_weights_that_are_none_are_refused(parts: list[float]):
    with pytest.raises(ValueError, match="weights"):
        blend_counts(parts, [0.0, 0.0], 5)
