"""Skewness of influences and what it widens, beside the same by plain sums."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimist.estimates.skewness import against, against_widening, skewness, widening


def plain(values: list[float]) -> float:
    known = [value for value in values if not math.isnan(value)]
    mean = sum(known) / len(known)
    second = sum((value - mean) ** 2 for value in known) / len(known)
    return sum((value - mean) ** 3 for value in known) / len(known) / second**1.5


@given(st.integers(0, 10**6), st.integers(3, 40), st.integers(-50, 50))
def test_it_is_the_third_moment_over_the_third_power_of_the_deviation(seed: int, count: int, exponent: int):
    rng = np.random.default_rng(seed)
    rows = rng.standard_exponential((3, count + 5)) * 10.0**exponent
    for row in rows:
        row[rng.choice(count + 5, 5, replace=False)] = np.nan
    assert skewness(rows) == pytest.approx([plain(row.tolist()) for row in rows], rel=1e-9)
    assert skewness(rows[1]) == skewness(rows)[1]
    assert skewness(-rows) == pytest.approx(-skewness(rows))


@pytest.mark.parametrize("row", [[], [1.0, 5.0], [3.7] * 20, [1e300] * 9, [math.nan] * 4, [0.1 + 0.2, 0.3, 0.3]])
def test_too_few_numbers_and_equal_ones_have_none(row: list[float]):
    assert skewness(np.array(row)) == 0.0


def test_one_large_row_among_n_has_the_largest_one():
    for n in (10, 100):
        assert skewness(np.eye(n)[0] * 1e30) == pytest.approx((n - 2) / math.sqrt(n - 1))


def test_what_speaks_for_a_difference_does_not_count():
    found = against(np.array([1.0, 1.0, -2.0, -2.0, 3.0]), np.array([0.5, -0.5, 0.5, -0.5, 0.0]))
    assert found.tolist() == [0.0, 1.0, -2.0, 0.0, 0.0]


def test_a_variance_grows_by_the_squared_skewness_per_sample():
    assert widening(3.0, 90.0, 10.0) == pytest.approx(2.0)
    assert widening(np.array([0.0, -3.0]), np.array([5.0, 45.0]), 20.0).tolist() == pytest.approx([1.0, 5.0])


@pytest.mark.parametrize("shape", [4.0, 1.0])
def test_the_variance_of_a_claimed_difference_grows_as_the_quantile_of_t(shape: float):
    """Rows of a gamma law, n = 200: below its mean t has the quantile −2.8 of a normal one at −2.8 (1 + γ/√n)."""
    rng, n = np.random.default_rng(0), 200
    rows = rng.gamma(shape, size=(30_000, n)) - shape
    t = rows.mean(axis=1) / rows.std(axis=1, ddof=1) * math.sqrt(n)
    quantile = np.quantile(t, 0.5 * math.erfc(2.8 / math.sqrt(2.0)))
    factor = float(against_widening(np.array(2.0 / math.sqrt(shape)), n))
    assert math.sqrt(factor) == pytest.approx(-quantile / 2.8, rel=0.05)
