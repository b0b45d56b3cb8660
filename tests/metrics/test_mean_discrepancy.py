import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from optimist.estimation.arrays import check_arrays
from optimist.metrics.bound import InfluenceBound
from optimist.metrics.feature_maps import Cosine, GaussianFourier
from optimist.metrics.mmd import MeanDiscrepancy, MeanMap, RealMean, moments_of, orthogonal_normals, pair_sums
from optimist.metrics.pair_sums import PairSums
from optimist_client import FixError
from optimist_client.metrics import CMMD, MMD, Gaussian, Nystrom
from optimist_client.metrics import Cosine as CosineKernel
from tests.support.real_rows import mmd_of, score_of
from tests.support.streams import fed, rows_of


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
        assert sums.mean**2 - sums.squared_mean == pytest.approx(float(file["rff_variance_unbiased"]), rel=1e-9)
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


@pytest.mark.parametrize(("columns", "features"), [(32, 640), pytest.param(200, 200, marks=pytest.mark.long)])
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
    metric = mmd_of(rows_of(seed, 30, 3))
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


# What it says.


def test_the_factor_multiplies_value_and_error_and_influence():
    one, thousand = mmd_of(rows_of(0, 20, 3)), mmd_of(rows_of(0, 20, 3), factor=1000.0)
    rows = rows_of(1, 15, 3)
    left, right = (m.analyse(fed(m, rows), {"features": rows}) for m in (one, thousand))
    for name in ("plug_in", "estimate", "selection_error", "stopping_error"):
        assert getattr(right, name) == pytest.approx(1000 * getattr(left, name))
    torch.testing.assert_close(right.influence, 1000 * left.influence)
    assert right.first_order == pytest.approx(left.first_order)


def test_its_interval_is_that_of_the_influence_bound_and_is_not_cut_at_zero():
    metric = mmd_of(rows_of(0, 500, 3))
    estimates = [InfluenceBound(metric).estimate(fed(metric, rows_of(seed, 10, 3))) for seed in range(1, 9)]
    assert min(each.lower for each in estimates) < 0.0
    assert min(each.value for each in estimates) < 0.0
    assert all(each.floor is None and each.lower_is_better for each in estimates)


def test_identical_rows_have_a_value_and_an_error():
    metric = mmd_of(rows_of(0, 50, 3))
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


def test_its_bytes_are_those_of_the_mean_some_features_and_the_frequencies():
    metric = mmd_of(rows_of(0, 20, 3))
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
