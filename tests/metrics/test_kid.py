import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from optimist.metrics.implementations import Setting, make_metric, make_reference
from optimist.metrics.kid import KEPT, KernelDistance, RealRows, cubic
from optimist.metrics.pair_sums import PairSums, PooledMean, standard_error
from optimist.numerics.real_data import RealData
from optimist_client.metrics import KID
from tests.support.streams import assert_bit_identical, fed, rows_of


def kid_of(real: torch.Tensor | np.ndarray, block: int = 2000) -> KernelDistance:
    return KernelDistance(RealRows(np.asarray(real), "cpu", block), block)


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
    data = RealData(file["y"].mean(0), np.cov(file["y"].T), file["y"])
    declared = KID(reference=make_reference(KID(), data))
    metric = make_metric(declared, Setting({"features": 6}))
    statistic = fed(metric, file["x"], batch)
    # The file's values take the real rows as they are, with the pairs of a row with itself.
    itself = float(file["reference_self"]) - metric.real.similarity
    assert metric.analyse(statistic).estimate + itself == pytest.approx(float(file["kid"]), rel=1e-9)
    (block,) = statistic.blocks
    assert block.unbiased_variance == pytest.approx(float(file["variance"]), rel=1e-9)
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


@pytest.mark.parametrize("told", [5, 20, 33])
def test_a_snapshot_goes_on_to_the_last_bit(told):
    metric, rows = kid_of(rows_of(0, 12, 3), 20), rows_of(1, 80, 3)
    one = fed(metric, rows[:told], 5)
    other = metric.statistic().restore({name: tensor.clone() for name, tensor in one.state().items()})
    for part in rows[told:].split(7):
        one.update(part)
        other.update(part)
    assert_bit_identical(one, other)
    common = {"features": rows[:30]}
    left, right = metric.analyse(one, common), metric.analyse(other, common)
    assert torch.equal(left.influence, right.influence)
    assert (left.estimate, left.selection_error) == (right.estimate, right.selection_error)


def test_only_the_open_block_and_the_last_rows_before_it_are_held():
    metric, rows = kid_of(rows_of(0, 12, 3), 700), rows_of(1, 1500, 3)
    statistic = fed(metric, rows, 90)
    assert len(statistic.blocks) == 3
    torch.testing.assert_close(statistic.last_rows, rows[1400 - KEPT :])
    assert sum(tensor.nbytes for tensor in statistic.state().values()) < 8 * (700 + KEPT) * 5


def test_what_does_not_fit_is_refused_and_changes_nothing():
    metric = kid_of(rows_of(0, 12, 3))
    statistic = fed(metric, rows_of(1, 6, 3))
    for batch, message in (
        (torch.zeros(2, 4), "shape"),
        (torch.full((2, 3), torch.nan), "finite"),
        (torch.full((2, 3), 1e21), "scale them"),
    ):
        with pytest.raises(ValueError, match=message):
            statistic.update(batch)
    assert_bit_identical(statistic, fed(metric, rows_of(1, 6, 3)))
    other = kid_of(rows_of(0, 12, 4))
    with pytest.raises(ValueError, match="another metric"):
        other.analyse(statistic)
    with pytest.raises(ValueError, match="another layout"):
        other.statistic().restore(statistic.state())
    with pytest.raises(ValueError, match="at least 2 samples"):
        metric.analyse(fed(metric, rows_of(1, 1, 3)))


def test_values_are_finite_at_the_largest_entries():
    metric = kid_of(1e20 * rows_of(0, 12, 3).sign())
    found = metric.analyse(fed(metric, 1e20 * rows_of(1, 40, 3).sign()))
    assert np.isfinite([found.estimate, found.selection_error, found.first_order]).all()


def test_of_one_sample_the_value_is_the_biased_one():
    metric, row = kid_of(rows_of(0, 12, 3)), rows_of(1, 1, 3)
    wanted = cubic(row, row) - 2 * metric.real.witness(row) + metric.real.similarity
    assert metric.plug_in(fed(metric, row)) == pytest.approx(float(wanted))


# What it says.


def test_a_perfect_generator_scores_zero_on_average_and_below_it_too():
    metric = kid_of(rows_of(0, 3000, 3))
    values = np.array([metric.analyse(fed(metric, rows_of(seed, 10, 3), 10)).estimate for seed in range(1, 200)])
    assert values.mean() == pytest.approx(0.0, abs=4 * values.std() / 200**0.5)
    assert (values < 0).mean() > 0.4


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


@pytest.mark.parametrize("known", [12, 30])
def test_the_influence_is_what_leaving_a_row_out_changes(known):
    metric, rows = kid_of(rows_of(0, 20, 3)), rows_of(1, 30, 3, 0.5)
    found = metric.analyse(fed(metric, rows), {"features": rows[:known]})
    without = [metric.analyse(fed(metric, torch.cat([rows[:row], rows[row + 1 :]]))).estimate for row in range(known)]
    change = 29 * (found.estimate - np.array(without))
    # The pairs' part changes by 29/28 times as much.
    assert np.corrcoef(found.influence.numpy(), change)[0, 1] > 0.998
    np.testing.assert_allclose(np.std(found.influence.numpy()), np.std(change), rtol=0.05)


def test_the_influence_of_real_rows_is_what_leaving_one_out_changes():
    real, rows, others = rows_of(0, 30, 3), rows_of(1, 40, 3, 0.5), rows_of(2, 40, 3, -0.3)
    whole = kid_of(real, 50)
    found = [whole.analyse(fed(whole, each), {"features": each}) for each in (rows, others)]
    influence = (found[1].reference - found[0].reference).numpy() * 30**0.5
    change = []
    for row in np.random.default_rng(0).permutation(30):
        less = kid_of(real[[place for place in range(30) if place != row]])
        left = [less.analyse(fed(less, each)).estimate for each in (rows, others)]
        change.append(29 * ((found[1].estimate - found[0].estimate) - (left[1] - left[0])))
    np.testing.assert_allclose(influence - influence.mean(), change, atol=1e-9)


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


def test_without_rows_it_is_refused():
    with pytest.raises(ValueError, match="'kid' compares samples with the rows of real features"):
        make_reference(KID(), RealData(np.zeros(3), np.eye(3)))
    for rows, message in ((np.zeros((1, 3)), "at least 2 rows"), (np.full((4, 3), 1e25), "scale them")):
        with pytest.raises(ValueError, match=message):
            make_reference(KID(), RealData(np.zeros(3), np.eye(3), rows))
    with pytest.raises(ValueError, match="needs a reference"):
        make_metric(KID(), Setting({"features": 3}))
