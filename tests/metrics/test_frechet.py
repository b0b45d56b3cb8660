import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from optimist.estimation.question import Question, declared_of
from optimist.metrics.fid.influence import terms_of
from optimist.metrics.fid.reference import FrechetReference
from optimist.metrics.fid.score import FrechetDistance
from optimist.metrics.fid.statistic import GaussianStatistic
from tests.support.streams import fed


def metric_to(mean, covariance) -> FrechetDistance:
    return FrechetDistance(FrechetReference(mean, covariance))


def moments(rows: np.ndarray):
    return rows.mean(0), np.atleast_2d(np.cov(rows, rowvar=False, ddof=0))


def covariance_of(generator: np.random.Generator, dimension: int, rank: int) -> np.ndarray:
    """A covariance of this rank. Its eigenvalues are from 0.5 to 4: of random rows one may be as small as rounding."""
    axes = np.linalg.qr(generator.standard_normal((dimension, rank)))[0]
    return axes * generator.uniform(0.5, 4.0, rank) @ axes.T


@given(st.integers(0, 99), st.integers(1, 64), st.integers(1, 90), st.floats(0.0, 9.0), st.floats(-3.0, 3.0))
def test_a_set_is_at_distance_zero_from_itself(seed, dimension, count, decades, offset):
    generator = np.random.default_rng(seed)
    scales = np.logspace(0.0, -decades, dimension)
    mixing = np.linalg.qr(generator.standard_normal((dimension, dimension)))[0]
    rows = (generator.standard_normal((count, dimension)) * scales) @ mixing + offset
    metric = metric_to(*moments(rows))
    assert 0.0 <= metric.plug_in(fed(metric, rows)) <= 1e-8


@given(st.integers(0, 99), st.integers(2, 40), st.data())
def test_both_routes_lead_to_one_number(seed, dimension, data):
    generator = np.random.default_rng(seed)
    rank = data.draw(st.integers(1, dimension))
    count = data.draw(st.integers(1, rank))
    rows = generator.standard_normal((count, dimension)) + 0.5
    metric = metric_to(np.zeros(dimension), covariance_of(generator, dimension, rank))
    statistic = fed(metric, rows)
    assert metric.reference.rank == rank
    without_rows = GaussianStatistic(dimension, keep=0)
    without_rows.update(torch.from_numpy(rows))
    by_covariance = terms_of(metric.reference, without_rows).distance(count)
    assert by_covariance == pytest.approx(metric.plug_in(statistic), rel=1e-8)


def test_what_lies_outside_the_reference_counts_in_full():
    generator = np.random.default_rng(1)
    rows = generator.standard_normal((50, 6))
    covariance = np.diag([1.0, 2.0, 0.0, 0.0, 0.0, 0.0])
    metric = metric_to(np.zeros(6), covariance)
    assert metric.reference.rank == 2
    inside = metric_to(np.zeros(2), covariance[:2, :2])
    expected = inside.plug_in(fed(inside, rows[:, :2].copy())) + float((rows[:, 2:] ** 2).mean(0).sum())
    assert metric.plug_in(fed(metric, rows)) == pytest.approx(expected, rel=1e-10)
    for count in (2, 50):
        variances = rows[:count].var(0)
        share = metric.outside_share(fed(metric, rows[:count]))
        assert share == pytest.approx(variances[2:].sum() / variances.sum(), rel=1e-9)


def test_a_reference_without_variance_leaves_mean_and_trace():
    rows = np.random.default_rng(2).standard_normal((9, 4))
    metric = metric_to(np.ones(4), np.zeros((4, 4)))
    expected = np.sum((rows.mean(0) - 1.0) ** 2) + rows.var(0).sum()
    assert metric.reference.rank == 0
    assert metric.plug_in(fed(metric, rows)) == pytest.approx(expected, rel=1e-12)
    assert metric.outside_share(fed(metric, rows)) == 1.0


@pytest.mark.parametrize(
    ("mean", "covariance", "word"),
    [
        ([0.0, 0.0], np.eye(3), "shape"),
        ([[0.0, 0.0]], np.eye(2), "shape"),
        ([], np.zeros((0, 0)), "shape"),
        ([0.0, np.nan], np.eye(2), "finite"),
        ([0.0, 0.0], [[1.0, np.inf], [np.inf, 1.0]], "finite"),
        ([0.0, 0.0], [[1e70, 0.0], [0.0, 1.0]], "at most"),
        ([0.0, 0.0], [[1.0, 0.5], [0.0, 1.0]], "symmetric"),
        ([0.0, 0.0], [[1.0, 2.0], [2.0, 1.0]], "semi-definite"),
    ],
)
def test_a_reference_that_is_none_is_refused(mean, covariance, word):
    with pytest.raises(ValueError, match=word):
        FrechetReference(mean, covariance)


def test_a_reference_computed_in_float32_is_taken():
    rows = np.random.default_rng(3).standard_normal((20, 40)).astype(np.float32)
    covariance = np.cov(rows, rowvar=False).astype(np.float32)
    assert FrechetReference(rows.mean(0), torch.from_numpy(covariance)).rank >= 19


def test_what_has_no_distance_is_refused():
    metric = metric_to(np.zeros(3), np.eye(3))
    with pytest.raises(ValueError, match="at least 1 sample"):
        metric.plug_in(metric.statistic())
    with pytest.raises(ValueError, match="at least 2 samples"):
        metric.plug_in(fed(metric, np.ones((1, 3))), unbiased=True)
    with pytest.raises(ValueError, match="another metric"):
        metric.plug_in(fed(metric_to(np.zeros(3), np.diag([1.0, 1.0, 0.0])), np.ones((2, 3))))
    with pytest.raises(ValueError, match="unknown metric 'fud': expected one of fid"):
        declared_of("fud")
    with pytest.raises(ValueError, match="needs a reference"):
        Question(declared_of("fid"))
