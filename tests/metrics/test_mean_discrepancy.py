import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from optimist.estimation.arrays import check_arrays
from optimist.metrics.bound import InfluenceBound
from optimist.metrics.feature_maps import Cosine, GaussianFourier
from optimist.metrics.implementations import Setting, make_metric, make_reference
from optimist.metrics.mmd import MeanDiscrepancy, MeanMap, RealMean, moments_of, orthogonal_normals, pair_sums
from optimist.metrics.pair_sums import PairSums
from optimist.numerics.real_data import RealData
from optimist_client import FixError
from optimist_client.metrics import CMMD, MMD, Gaussian, Nystrom
from optimist_client.metrics import Cosine as CosineKernel
from tests.support.streams import assert_bit_identical, fed, rows_of


def data_of(rows: torch.Tensor | np.ndarray) -> RealData:
    rows = np.asarray(rows)
    return RealData(rows.mean(0), np.cov(rows.T), rows)


def score_of(declared: MMD, real: torch.Tensor | np.ndarray) -> MeanDiscrepancy:
    prepared = make_reference(declared, data_of(real))
    return make_metric(declared.model_copy(update={"reference": prepared}), Setting({"features": real.shape[1]}))


def few_features(real: torch.Tensor, factor: float = 1.0, frequencies: int = 4) -> MeanDiscrepancy:
    """By so few features that a statistic soon drops its rows."""
    omegas = np.random.default_rng(3).standard_normal((real.shape[1], frequencies)) / 2.0
    return MeanDiscrepancy(MMD(factor=factor), RealMean(MeanMap(GaussianFourier(omegas), False), np.asarray(real)))


def gaussian(x: np.ndarray, y: np.ndarray, sigma: float) -> np.ndarray:
    return np.exp(-np.square(x[:, None] - y).sum(-1) / (2 * sigma**2))


# The stored reference numbers.


def test_value_and_variance_are_the_stored_ones(stored):
    file = stored("kid")
    metric = MeanDiscrepancy(MMD(), RealMean(MeanMap(GaussianFourier(file["rff_W"]), False), file["y"]))
    torch.testing.assert_close(metric.real.mean, torch.from_numpy(file["rff_reference_mean"]), rtol=1e-9, atol=1e-12)
    for batch, rows in ((5, file["x"]), (25, file["x"])):
        statistic = fed(metric, rows, batch)
        assert statistic.rows is None
        sums = pair_sums(statistic, metric.real.mean)
        assert sums.mean == pytest.approx(float(file["rff_mmd"]), rel=1e-9)
        assert sums.unbiased_variance == pytest.approx(float(file["rff_variance_unbiased"]), rel=1e-9)
        # The file's value takes the real rows as they are, with the pairs of a row with itself.
        found = metric.analyse(statistic)
        assert found.estimate + metric.real.excess == pytest.approx(float(file["rff_mmd"]), rel=1e-9)


def test_cmmd_is_the_stored_one_by_exact_kernels(stored):
    file = stored("kid")
    x, y = (file[name] / np.linalg.norm(file[name], axis=1, keepdims=True) for name in "xy")
    own, across, real = gaussian(x, x, 10.0), gaussian(x, y, 10.0), gaussian(y, y, 10.0)
    assert 1000 * (own.mean() - 2 * across.mean() + real.mean()) == pytest.approx(float(file["cmmd_published"]), 1e-9)
    values = own - across.mean(1)[:, None] - across.mean(1) + real.mean()
    np.fill_diagonal(values, 0.0)
    sums = PairSums(len(x), values.sum(), np.square(values.sum(1)).sum(), np.square(values).sum())
    assert 1000 * sums.mean == pytest.approx(float(file["cmmd_unbiased"]), rel=1e-9)


@pytest.mark.parametrize(("columns", "features"), [(32, 640), (200, 200)])
def test_cmmd_by_orthogonal_frequencies_is_nearly_the_published_formula(columns, features):
    real, rows = rows_of(1, 300, columns) + 0.5, 1.1 * rows_of(0, 200, columns) + 0.6
    declared = CMMD(kernel=Gaussian(10.0, features=features))
    metric = score_of(declared, real)
    x, y = (each.numpy() / np.linalg.norm(each.numpy(), axis=1, keepdims=True) for each in (rows, real))
    own, across, among = gaussian(x, x, 10.0), gaussian(x, y, 10.0), gaussian(y, y, 10.0)
    statistic = fed(metric, rows, 50)
    published = 1000 * (own.mean() - 2 * across.mean() + among.mean())
    assert metric.plug_in(statistic) == pytest.approx(published, rel=5e-3)
    unbiased = (own.sum() - 200) / (200 * 199) - 2 * across.mean() + (among.sum() - 300) / (300 * 299)
    assert metric.analyse(statistic).estimate == pytest.approx(1000 * unbiased, rel=5e-3)


# The statistic.


@given(seed=st.integers(0, 1000), n=st.integers(4, 40), offset=st.floats(-2.0, 2.0))
def test_moments_give_the_sums_of_all_pairs(seed, n, offset):
    metric = few_features(rows_of(seed, 30, 3))
    rows = rows_of(seed + 1, n, 3, offset)
    features = metric.real.feature_map.plain(rows)
    centred = (features - metric.real.mean).numpy()
    values = centred @ centred.T
    np.fill_diagonal(values, 0.0)
    for found in (
        pair_sums(fed(metric, rows, 7), metric.real.mean),
        moments_of(fed(metric, rows, 7), metric.real.mean).sums(metric.real.mean),
    ):
        assert found.total == pytest.approx(values.sum(), rel=1e-9, abs=1e-9)
        assert found.row_squares == pytest.approx(np.square(values.sum(1)).sum(), rel=1e-9, abs=1e-9)
        assert found.squares == pytest.approx(np.square(values).sum(), rel=1e-9, abs=1e-9)


@given(cuts=st.lists(st.integers(1, 12), min_size=1, max_size=8), shuffle=st.integers(0, 100))
def test_neither_the_order_of_the_rows_nor_their_batches_matter(cuts, shuffle):
    metric = few_features(rows_of(0, 20, 3))
    rows = rows_of(1, sum(cuts) + 2, 3)
    order = torch.from_numpy(np.random.default_rng(shuffle).permutation(len(rows)))
    one, other = metric.statistic(), fed(metric, rows[order], 5)
    for part in rows.split([*cuts, 2]):
        one.update(part)
    left, right = metric.analyse(one), metric.analyse(other)
    assert left.estimate == pytest.approx(right.estimate, abs=1e-12)
    assert left.selection_error == pytest.approx(right.selection_error, rel=1e-6)


@pytest.mark.parametrize("told", [6, 30])
def test_a_snapshot_goes_on_to_the_last_bit(told):
    metric = few_features(rows_of(0, 20, 3))
    rows = rows_of(1, 60, 3)
    one = fed(metric, rows[:told], 6)
    other = metric.statistic().restore({name: tensor.clone() for name, tensor in one.state().items()})
    for part in rows[told:].split(6):
        one.update(part)
        other.update(part)
    assert_bit_identical(one, other)
    assert metric.analyse(one) == metric.analyse(other)


def test_a_statistic_of_other_sizes_is_refused():
    metric, other = few_features(rows_of(0, 20, 3)), few_features(rows_of(0, 20, 3), frequencies=5)
    with pytest.raises(ValueError, match="another metric"):
        metric.analyse(fed(other, rows_of(1, 5, 3)))
    with pytest.raises(ValueError, match="at least 1 sample"):
        metric.plug_in(metric.statistic())
    with pytest.raises(ValueError, match="at least 2 samples"):
        metric.analyse(fed(metric, rows_of(1, 1, 3)))


# What it says.


def test_a_perfect_generator_scores_zero_on_average_and_below_it_too():
    metric = few_features(rows_of(0, 4000, 3), factor=1000.0)
    scores = [metric.analyse(fed(metric, rows_of(seed, 12, 3), 12)) for seed in range(1, 400)]
    values = np.array([each.estimate for each in scores])
    assert values.mean() == pytest.approx(0.0, abs=4 * values.std() / 20)
    assert (values < 0).mean() > 0.4
    plug_ins = np.array([each.plug_in for each in scores])
    assert plug_ins.min() > 0.0


def test_the_factor_multiplies_value_and_error_and_influence():
    one, thousand = few_features(rows_of(0, 20, 3)), few_features(rows_of(0, 20, 3), factor=1000.0)
    rows = rows_of(1, 15, 3)
    left, right = (m.analyse(fed(m, rows), {"features": rows}) for m in (one, thousand))
    for name in ("plug_in", "estimate", "selection_error", "stopping_error"):
        assert getattr(right, name) == pytest.approx(1000 * getattr(left, name))
    torch.testing.assert_close(right.influence, 1000 * left.influence)
    assert right.first_order == pytest.approx(left.first_order)


@pytest.mark.parametrize("n", [9, 40])
def test_the_influence_is_what_leaving_a_row_out_changes(n):
    metric, rows = few_features(rows_of(0, 20, 3)), rows_of(1, n, 3, 0.5)
    found = metric.analyse(fed(metric, rows), {"features": rows})
    without = [metric.analyse(fed(metric, torch.cat([rows[:row], rows[row + 1 :]]))).estimate for row in range(n)]
    change = (n - 1) * (found.estimate - np.array(without))
    # The pairs' part changes by (n − 1)/(n − 2) times as much.
    assert np.corrcoef(found.influence.numpy(), change)[0, 1] > 0.995
    torch.testing.assert_close(found.recent, found.influence)
    np.testing.assert_allclose(np.std(found.influence.numpy()), np.std(change), rtol=2.0 / n)


def test_the_influence_of_real_rows_is_what_leaving_one_out_changes():
    real, rows, others = rows_of(0, 30, 3), rows_of(1, 40, 3, 0.5), rows_of(2, 40, 3, -0.3)
    whole = few_features(real)
    found = [whole.analyse(fed(whole, each), {"features": each}) for each in (rows, others)]
    influence = (found[1].reference - found[0].reference).numpy() * 30**0.5
    change = []
    for row in np.random.default_rng(0).permutation(30):
        less = few_features(real[[place for place in range(30) if place != row]])
        left = [less.analyse(fed(less, each)).estimate for each in (rows, others)]
        change.append(29 * ((found[1].estimate - found[0].estimate) - (left[1] - left[0])))
    np.testing.assert_allclose(influence - influence.mean(), change, atol=1e-9)


def test_its_interval_is_that_of_the_influence_bound_and_is_not_cut_at_zero():
    metric = few_features(rows_of(0, 500, 3))
    estimates = [InfluenceBound(metric).estimate(fed(metric, rows_of(seed, 10, 3))) for seed in range(1, 9)]
    assert min(each.lower for each in estimates) < 0.0
    assert min(each.value for each in estimates) < 0.0
    assert all(each.floor is None and each.lower_is_better for each in estimates)


def test_identical_rows_have_a_value_and_an_error():
    metric = few_features(rows_of(0, 50, 3))
    found = InfluenceBound(metric).estimate(fed(metric, torch.ones(30, 3, dtype=torch.float64)))
    assert found.value == pytest.approx(found.plug_in, rel=0.1)
    assert found.stopping_error > 0.0


# The reference.


def test_it_fixes_the_median_bandwidth_and_landmarks():
    real = rows_of(0, 300, 4)
    metric = score_of(MMD(), real)
    median = float(np.median(torch.pdist(real)))
    assert isinstance(metric.real.feature_map.inner, GaussianFourier)
    frequencies = metric.real.feature_map.inner.omegas
    assert float(frequencies.square().sum(0).mean()) == pytest.approx(4 / median**2, rel=5e-3)
    by_landmarks = score_of(MMD(kernel=Nystrom("median", features=20)), real)
    assert by_landmarks.real.feature_map.width == 21
    fed(by_landmarks, rows_of(1, 10, 4))


def test_without_rows_it_is_refused():
    with pytest.raises(ValueError, match="'cmmd' compares samples with the rows of real features"):
        make_reference(CMMD(), RealData(np.zeros(3), np.eye(3)))
    with pytest.raises(ValueError, match="at least 2 rows"):
        make_reference(MMD(kernel=Gaussian(1.0)), RealData(np.zeros(3), np.eye(3), np.zeros((1, 3))))
    with pytest.raises(ValueError, match="needs a reference"):
        make_metric(MMD(), Setting({"features": 3}))
    with pytest.raises(ValueError, match="row of zeros"):
        make_reference(CMMD(), RealData(np.zeros(3), np.eye(3), np.zeros((4, 3))))


def test_its_bytes_are_those_of_the_mean_some_features_and_the_frequencies():
    metric = few_features(rows_of(0, 20, 3))
    assert metric.real.bytes == 8 * (8 + 20 * 8 + 3 * 4)
    assert metric.real.dimension == 3


def test_other_settings_make_another_identity_and_the_factor_does_not():
    real = rows_of(0, 30, 3)
    one, wider, labelled = (
        score_of(MMD(kernel=Gaussian(2.0), **more), real).identity()[0][1][0]
        for more in ({}, {"normalise": True}, {"factor": 3.0, "label": "other"})
    )
    assert torch.equal(one, labelled)
    assert not torch.equal(one, wider)


# Rows of norm 1.


def test_normalised_rows_count_by_their_direction_alone():
    real, rows = rows_of(0, 40, 3), rows_of(1, 20, 3)
    metric = score_of(CMMD(kernel=Gaussian(1.0, features=9)), real)
    lengths = torch.linspace(0.1, 50.0, 20, dtype=torch.float64)[:, None]
    left, right = metric.analyse(fed(metric, rows)), metric.analyse(fed(metric, rows * lengths))
    assert left.estimate == pytest.approx(right.estimate)


def test_the_cosine_kernel_compares_mean_directions():
    real, rows = rows_of(0, 40, 3), rows_of(1, 20, 3)
    metric = score_of(MMD(kernel=CosineKernel()), real)
    gap = Cosine(3)(rows).mean(0) - Cosine(3)(real).mean(0)
    assert metric.plug_in(fed(metric, rows)) == pytest.approx(float(gap @ gap))


@pytest.mark.parametrize("declared", [CMMD(), MMD(kernel=CosineKernel()), MMD(kernel=Gaussian(1.0), normalise=True)])
def test_a_row_of_zeros_is_refused_at_the_door_and_by_the_statistic(declared):
    from optimist.estimation.question import Question

    metric = score_of(declared, rows_of(0, 40, 3))
    question = Question(declared.model_copy(update={"reference": metric.real}))
    check_arrays({"features": np.ones((2, 3))}, [question])
    with pytest.raises(FixError, match="row 1 is"):
        check_arrays({"features": np.array([[1.0, 0, 0], [0, 0, 0]])}, [question])
    statistic = fed(metric, rows_of(1, 5, 3))
    with pytest.raises(ValueError, match="row of zeros"):
        statistic.update(torch.zeros(2, 3))
    assert statistic.samples == 5


def test_orthogonal_frequencies_are_orthogonal_and_like_normals():
    found = orthogonal_normals(6, 20, seed=1)
    assert found.shape == (6, 20)
    group = found[:, :6]
    lengths = np.linalg.norm(group, axis=0)
    np.testing.assert_allclose(group.T @ group, np.diag(np.square(lengths)), atol=1e-9)
    assert np.square(found).sum(0).mean() == pytest.approx(6.0)
    np.testing.assert_array_equal(found, orthogonal_normals(6, 20, seed=1))
    assert not np.allclose(found, orthogonal_normals(6, 20, seed=2))
