"""The mean of one number per sample: its statistic, its error, and the influence of its samples."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from optimist.estimates.estimate import Estimate
from optimist.estimates.pairing import COMMON
from optimist.metrics.bound import InfluenceBound
from optimist.metrics.mean import UNBOUNDED, MeanScore, step_of
from optimist.policies.contrasts import Contrasts
from optimist.records import codec
from optimist_client.metrics import Mean, WinRate
from tests.support.streams import taken

NUMBERS = st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=40)


def column(values) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64).reshape(-1, 1)


def fed(score: MeanScore, values, size: int = 5):
    return taken(score.statistic(), column(values), size)


def paired(metric: Mean | WinRate, values: np.ndarray) -> Estimate:
    """The estimate with a pairing of samples 0, 1, …"""
    score = MeanScore(metric)
    made = InfluenceBound(score).estimate(fed(score, values), {"values": column(values)})
    assert made.pairing is not None
    row = np.full(COMMON, np.nan, np.float32)
    row[: len(values)] = made.pairing.influence
    return replace(made, pairing=replace(made.pairing, influence=row, told=(0, len(values))))


@example(values=[699051.4184958225] * 3, size=1)
@given(values=NUMBERS, size=st.integers(1, 9))
def test_moments_are_those_of_numpy_however_the_batches_are_cut(values: list[float], size: int):
    statistic = fed(MeanScore(Mean()), values, size)
    assert statistic.samples == len(values)
    assert statistic.mean == pytest.approx(np.mean(values), rel=1e-12, abs=1e-9)
    assert statistic.variance == pytest.approx(np.var(values, ddof=1), rel=1e-9, abs=1e-9)
    deviations = np.array(values) - np.mean(values)
    size = np.abs(deviations).max() + 1e-12 * np.abs(values).max()
    below, above = statistic.farthest
    rounding = 1e-15 * len(values) * np.abs(values).max()  # of numpy's mean, where all values are equal
    assert (below, above) == pytest.approx((-deviations.min(), deviations.max()), rel=1e-9, abs=rounding)
    assert statistic.cubes == pytest.approx((deviations**3).sum(), abs=1e-6 * len(values) * size**3 + 1e-300)


def test_the_skewness_is_that_of_the_values_and_0_where_there_is_none():
    values = np.random.default_rng(1).exponential(1.0, 500)
    deviations = values - values.mean()
    expected = (deviations**3).mean() / (deviations**2).mean() ** 1.5
    found = InfluenceBound(MeanScore(Mean())).estimate(fed(MeanScore(Mean()), values, 7))
    assert found.value_skewness == pytest.approx(expected, rel=1e-12)
    assert codec.decode(Estimate, codec.encode(found)) == found
    for alike in ([3.0] * 5, [-1e30, 1e30]):
        assert fed(MeanScore(Mean()), alike).skewness == 0.0


def test_extremes_are_known_where_the_range_is_not_and_survive_a_snapshot():
    values = np.random.default_rng(1).exponential(1.0, 50)
    expected = (values.mean() - values.min(), values.max() - values.mean())
    statistic = fed(MeanScore(Mean()), values)
    restored = MeanScore(Mean()).statistic().restore(statistic.state())
    for each in (statistic, restored, MeanScore(Mean()).statistic().restore(MeanScore(Mean()).statistic().state())):
        if each.samples:
            found = InfluenceBound(MeanScore(Mean())).estimate(each)
            assert found.farthest == pytest.approx(expected, rel=1e-12)
            assert codec.decode(Estimate, codec.encode(found)) == found
    assert InfluenceBound(MeanScore(Mean(range=(0, 99)))).estimate(statistic).farthest is None


def test_the_error_is_that_of_a_mean_with_few_samples_allowed_for():
    values = np.random.default_rng(0).standard_normal(30)
    estimate = InfluenceBound(MeanScore(Mean())).estimate(fed(MeanScore(Mean()), values))
    expected = values.std(ddof=1) / math.sqrt(30) * math.sqrt(1 + 5 / 30)
    assert estimate.value == estimate.plug_in == pytest.approx(values.mean(), rel=1e-12)
    assert estimate.standard_error == estimate.stopping_error == pytest.approx(expected, rel=1e-12)
    assert (estimate.scale, estimate.floor, estimate.strict) == ("linear", None, False)
    assert (estimate.upper - estimate.lower) / 2 == pytest.approx(1.959964 * expected, rel=1e-6)


def test_the_direction_is_that_of_the_declared_metric():
    values = [0.2, 0.4, 0.9]
    for higher in (True, False):
        score = MeanScore(Mean(higher_is_better=higher))
        estimate = InfluenceBound(score).estimate(fed(score, values))
        assert estimate.lower_is_better is not higher
        assert estimate.optimistic == (estimate.upper if higher else estimate.lower)
    assert not MeanScore(WinRate()).lower_is_better


def test_equal_values_have_an_error_where_their_range_is_known():
    """Twenty wins of twenty say little about the twenty-first."""
    won = InfluenceBound(MeanScore(WinRate())).estimate(fed(MeanScore(WinRate()), [1.0] * 20))
    assert won.standard_error == pytest.approx(1 / 20)
    unknown = InfluenceBound(MeanScore(Mean())).estimate(fed(MeanScore(Mean()), [1.0] * 20))
    assert unknown.standard_error == pytest.approx(2e-9)


@pytest.mark.parametrize(
    ("metric", "values", "expected"),
    [
        (
            Mean(),
            [1.0] * 39 + [0.0],
            "rare values decide the mean (skewness -6.1 of 40 samples): more of them may come",
        ),
        (Mean(), [1.0] * 40, "all 40 values are equal: rare other ones may decide the mean"),
        (Mean(), [1.0] * 19, None),
        (WinRate(), [1.0] * 40, None),
        (WinRate(), [1.0, 0.0] * 20, None),
        (Mean(), ([1.0] * 30 + [0.0]) * 10, None),
        (Mean(higher_is_better=False), [1.0, 0.0] * 20, UNBOUNDED),
        (Mean(higher_is_better=False), [1.0, -1.0] * 20, None),
        (Mean(higher_is_better=False, range=(0, 60)), [1.0, 0.0] * 20, None),
    ],
)
def test_rare_values_that_may_be_missing_are_named(metric: Mean | WinRate, values: list[float], expected: str | None):
    found = InfluenceBound(MeanScore(metric)).estimate(fed(MeanScore(metric), values))
    assert found.warnings == (() if expected is None else (expected,))


@given(values=NUMBERS)
def test_influences_are_deviations_from_the_mean_and_their_variance_is_that_of_the_estimate(values: list[float]):
    score = MeanScore(Mean())
    statistic = fed(score, values)
    found = score.analyse(statistic, {"values": column(values)[:7]})
    assert found.influence is not None
    expected = np.array(values[:7]) - np.mean(values)
    np.testing.assert_allclose(found.influence.numpy(), expected, rtol=1e-9, atol=1e-6)
    assert found.first_order == 1.0
    assert 0.0 <= found.systematic_selection == found.systematic_stopping <= found.selection_error
    assert found.estimate == score.analyse(statistic).estimate


@pytest.mark.parametrize(
    ("values", "step"),
    [
        ([0.0, 1.0, 1.0, 0.0], 1.0),
        ([0.0, 0.5, 1.0, 0.5, 0.0, 1.0], 0.5),
        ([0.0, 0.0, 0.0, 1.0], math.sqrt(0.75)),
        ([0.1, 0.4, 0.2, 0.9], 0.0),
        ([1.0, 1.0, 1.0], 0.0),
    ],
)
def test_the_step_is_that_to_the_nearest_value_and_0_for_values_that_do_not_repeat(values: list[float], step: float):
    assert step_of(column(values).flatten()) == pytest.approx(step)


LAWS = {
    "0 or 1": (lambda rng, n: (rng.random(n) < 0.9).astype(float), 1.2),
    "win, tie or loss": (lambda rng, n: rng.choice([0.0, 0.5, 1.0], n, p=[0.3, 0.4, 0.3]), 1.5),
}


@pytest.mark.parametrize("law", LAWS)
def test_equal_values_of_all_pairs_do_not_prove_equal_generators(law: str):
    """The second generator loses 5 % of the samples in which the first one does not; often none of 50 shows it."""
    draw, most = LAWS[law]
    rng, n, found = np.random.default_rng(0), 50, []
    truth = -0.05 * draw(rng, 1_000_000).mean()
    for _ in range(150):
        values = draw(rng, n)
        pair = [paired(WinRate(), each) for each in (values, np.where(rng.random(n) < 0.95, values, 0.0))]
        contrasts = Contrasts(pair)
        found.append((-contrasts.against(0).differences[1] - truth) / contrasts.errors(0, "stopping")[1])
    assert np.sqrt(np.square(found).mean()) < most


def test_continuous_values_keep_the_whole_gain_of_pairs():
    rng = np.random.default_rng(0)
    values = rng.random(50)
    pair = [paired(Mean(range=(0.0, 2.0)), each) for each in (values, values + 0.1 * rng.random(50))]
    assert [each.pairing and each.pairing.systematic_stopping for each in pair] == [0.0, 0.0]
    assert Contrasts(pair).errors(0, "stopping")[1] < 0.3 * math.hypot(*(each.stopping_error or 0.0 for each in pair))
