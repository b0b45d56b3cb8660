import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimist.metrics.pair_sums import PairSums, PooledMean, standard_error


def sums_of(values: np.ndarray) -> PairSums:
    """Of a symmetric matrix, whose diagonal does not count."""
    values = values - np.diag(np.diag(values))
    by_row = values.sum(1)
    return PairSums(len(values), values.sum(), np.square(by_row).sum(), np.square(values).sum())


def matrix(seed: int, n: int) -> np.ndarray:
    rows = np.random.default_rng(seed).standard_normal((n, 3)) + 0.3
    return rows @ rows.T


@given(seed=st.integers(0, 2**32), n=st.integers(4, 6))
def test_the_variance_is_the_square_of_the_mean_less_that_from_four_different_samples(seed, n):
    values = matrix(seed, n)
    apart = [values[a, b] * values[c, d] for a, b, c, d in itertools.permutations(range(n), 4)]
    found = sums_of(values)
    assert found.unbiased_variance == pytest.approx(found.mean**2 - np.mean(apart), abs=1e-9)


@given(seed=st.integers(0, 2**32), n=st.integers(4, 30))
def test_its_parts_add_up_to_it_where_none_is_floored_and_are_never_negative(seed, n):
    found = sums_of(matrix(seed, n))
    assert found.linear >= 0.0
    assert found.quadratic > 0.0
    assert found.variance >= found.unbiased_variance - 1e-12
    if found.linear and found.quadratic > 0.1 * found.squares / found.pairs**2:
        assert found.variance >= found.unbiased_variance - 1e-12
    elif found.linear:
        assert found.variance == pytest.approx(found.unbiased_variance)


def test_a_constant_added_to_all_values_leaves_the_variance():
    values = matrix(0, 20)
    assert sums_of(values + 5.0).unbiased_variance == pytest.approx(sums_of(values).unbiased_variance)


@pytest.mark.parametrize("n", [2, 3])
def test_of_two_and_three_samples_the_mean_square_bounds_the_variance(n):
    found = sums_of(matrix(1, n))
    assert (found.linear, found.quadratic) == (0.0, found.squares / found.pairs)


def test_without_a_pair_a_block_does_not_count():
    one, full = PairSums(1, 0.0, 0.0, 0.0), sums_of(matrix(2, 8))
    assert (one.mean, one.variance) == (0.0, 0.0)
    assert PooledMean.from_blocks([full, one]) == PooledMean(full.mean, full.linear, full.quadratic)


def test_blocks_weigh_as_much_as_they_have_pairs():
    parts = [sums_of(matrix(3, 4)), sums_of(matrix(4, 6))]
    found = PooledMean.from_blocks(parts)
    assert found.mean == pytest.approx((12 * parts[0].mean + 30 * parts[1].mean) / 42)
    assert found.linear + found.quadratic == pytest.approx(
        (12 / 42) ** 2 * parts[0].variance + (30 / 42) ** 2 * parts[1].variance
    )


def test_the_error_is_larger_with_few_samples():
    assert standard_error(4.0, 10) == pytest.approx(2.0 * 3.0**0.5)
    assert standard_error(4.0, 2000) == pytest.approx(2.0, rel=1e-4)
