import itertools

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from optimist.metrics.kid import KEPT, KernelDistance, RealRows, cubic
from optimist.metrics.pair_sums import PairSums, PooledMean, standard_error
from optimist_client.metrics import KID
from tests.support.real_rows import kid_of, score_of
from tests.support.streams import fed, rows_of


def brute(metric: KernelDistance, rows: torch.Tensor) -> PairSums:
    witness = metric.real.witness(rows)
    values = cubic(rows, rows) - witness[:, None] - witness + metric.real.similarity
    values.fill_diagonal_(0.0)
    by_row = values.sum(1)
    return PairSums(len(rows), *(float(each.sum()) for each in (by_row, by_row.square(), values.square())))


def assert_close(found: PairSums, wanted: PairSums) -> None:
    assert found.n == wanted.n
    for name in ("total", "row_squares", "squares"):
        assert getattr(found, name) == pytest.approx(getattr(wanted, name), rel=1e-9, abs=1e-9)


# The stored reference numbers.


@pytest.mark.parametrize("batch", [1, 4, 25])
def test_value_and_variance_are_the_stored_ones(stored, batch):
    file = stored("kid")
    metric = score_of(KID(), file["y"])
    statistic = fed(metric, file["x"], batch)
    # The file's values take the real rows as they are, with the pairs of a row with itself.
    itself = float(file["reference_self"]) - metric.real.similarity
    assert metric.analyse(statistic).estimate + itself == pytest.approx(float(file["kid"]), rel=1e-9)
    (block,) = statistic.blocks
    assert block.mean**2 - block.squared_mean == pytest.approx(float(file["variance"]), rel=1e-9)
    torch.testing.assert_close(
        metric.real.witness(torch.from_numpy(file["x"])), torch.from_numpy(file["witness"]), rtol=1e-9, atol=1e-12
    )
    metric.real.similarity = float(file["reference_self"])
    (block,) = fed(metric, file["x"], batch).blocks
    for name, stored_name in (("total", "S"), ("row_squares", "R"), ("squares", "F")):
        assert getattr(block, name) == pytest.approx(float(file[stored_name]), rel=1e-9)


# The statistic.


@given(
    cuts=st.lists(st.integers(1, 30), min_size=1, max_size=6),
    block=st.integers(4, 40),
    seed=st.integers(0, 1000),
)
def test_blocks_are_of_consecutive_rows_however_they_come(cuts, block, seed):
    metric, rows = kid_of(rows_of(seed, 12, 3), block), rows_of(seed + 1, sum(cuts), 3)
    statistic = metric.statistic()
    for part in rows.split(cuts):
        statistic.update(part)
    wanted = [brute(metric, part) for part in rows.split(block)]
    found = [each for each in statistic.blocks if each.n]
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted, strict=True):
        assert_close(one, other)
    assert statistic.samples == len(rows)
    assert len(statistic.rows) == len(rows) % block
    if len(rows) > 1:
        pooled = PooledMean.from_blocks(wanted)
        found = metric.analyse(statistic)
        assert found.estimate == pytest.approx(pooled.mean, abs=1e-9)
        variance = pooled.linear + pooled.quadratic
        assert found.selection_error == pytest.approx(standard_error(variance, len(rows)), rel=1e-6)


def test_only_the_open_block_and_the_last_rows_before_it_are_held():
    metric, rows = kid_of(rows_of(0, 12, 3), 700), rows_of(1, 1500, 3)
    statistic = fed(metric, rows, 90)
    assert len(statistic.blocks) == 3
    torch.testing.assert_close(statistic.last_rows, rows[1400 - KEPT :])
    assert sum(tensor.nbytes for tensor in statistic.state().values()) < 8 * (700 + KEPT) * 5


def test_values_are_finite_at_the_largest_entries():
    metric = kid_of(1e20 * rows_of(0, 12, 3).sign())
    found = metric.analyse(fed(metric, 1e20 * rows_of(1, 40, 3).sign()))
    assert np.isfinite([found.estimate, found.selection_error, found.first_order]).all()


def test_of_one_sample_the_value_is_the_biased_one():
    metric, row = kid_of(rows_of(0, 12, 3)), rows_of(1, 1, 3)
    wanted = cubic(row, row) - 2 * metric.real.witness(row) + metric.real.similarity
    assert metric.plug_in(fed(metric, row)) == pytest.approx(float(wanted))


# What it says.


def test_the_published_mean_over_subsets_lies_within_its_error():
    """torch-fidelity: the mean over random subsets of both sets of the unbiased estimate of each."""
    rng, real, rows = np.random.default_rng(0), rows_of(0, 600, 8), 1.1 * rows_of(1, 500, 8, 0.1)
    subsets = []
    for _ in range(40):
        x, y = (each[torch.from_numpy(rng.choice(len(each), 200, replace=False))] for each in (rows, real))
        own, among = cubic(x, x), cubic(y, y)
        pairs = 200 * 199
        off = (float((own.sum() - own.trace()) / pairs), float((among.sum() - among.trace()) / pairs))
        subsets.append(sum(off) - 2 * float(cubic(x, y).mean()))
    metric = kid_of(real)
    found = metric.analyse(fed(metric, rows, 50))
    # Subsets overlap: their own spread over √40 is too small an error.
    assert found.estimate == pytest.approx(np.mean(subsets), abs=2 * np.std(subsets))
    assert found.estimate == pytest.approx(np.mean(subsets), abs=3 * found.selection_error)


def test_influence_of_rows_that_are_no_longer_held_is_nearly_that_from_all_rows():
    real, rows = rows_of(0, 200, 3), rows_of(1, 1500, 3, 0.5)
    few, whole = kid_of(real, 700), kid_of(real, 2000)
    common = {"features": rows[:256]}
    one = few.analyse(fed(few, rows, 100), common).influence
    other = whole.analyse(fed(whole, rows, 100), common).influence
    assert float(torch.corrcoef(torch.stack([one, other]))[0, 1]) > 0.98
    newest = few.analyse(fed(few, rows, 100), {"features": rows[-256:]})
    torch.testing.assert_close(newest.recent, newest.influence)


# The reference.


def test_its_mean_kernel_leaves_out_pairs_of_a_row_with_itself():
    rows = rows_of(0, 30, 3)
    kernel = cubic(rows, rows)
    assert RealRows(rows.numpy(), "cpu", 2000).similarity == pytest.approx(
        float((kernel.sum() - kernel.trace()) / (30 * 29))
    )
    # In blocks not all pairs count.
    assert RealRows(rows.numpy(), "cpu", 10).similarity == pytest.approx(float(kernel.mean()), abs=1.0)
    assert (RealRows(rows.numpy(), "cpu", 10).dimension, RealRows(rows.numpy(), "cpu", 10).bytes) == (3, 8 * 2 * 90)


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
    assert found.mean**2 - found.squared_mean == pytest.approx(found.mean**2 - np.mean(apart), abs=1e-9)


@given(seed=st.integers(0, 2**32), n=st.integers(4, 30))
def test_its_parts_add_up_to_it_where_none_is_floored_and_are_never_negative(seed, n):
    found = sums_of(matrix(seed, n))
    assert found.linear >= 0.0
    assert found.quadratic > 0.0
    assert found.variance >= found.mean**2 - found.squared_mean - 1e-12
    if found.linear and found.quadratic > 0.1 * found.squares / found.pairs**2:
        assert found.variance >= found.mean**2 - found.squared_mean - 1e-12
    elif found.linear:
        assert found.variance == pytest.approx(found.mean**2 - found.squared_mean)


def test_a_constant_added_to_all_values_leaves_the_variance():
    values = matrix(0, 20)
    plain, raised = (sums.mean**2 - sums.squared_mean for sums in (sums_of(values), sums_of(values + 5.0)))
    assert raised == pytest.approx(plain)


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
