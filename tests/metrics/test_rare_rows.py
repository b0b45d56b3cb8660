"""KID and MMD of rows of which a few decide: what widens their intervals, and when they warn."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from optimist.metrics.base import Analysis
from optimist.metrics.bound import InfluenceBound
from optimist.metrics.kid import KernelDistance, cubic
from optimist.metrics.mmd import MeanDiscrepancy
from optimist.numerics.skewness import OF_SCORES, skewness
from tests.support.real_rows import kid_of, mmd_of
from tests.support.streams import fed, rows_of


def skewed(values: Tensor) -> float:
    return float(skewness(values.numpy()))


def assert_widened(metric: KernelDistance | MeanDiscrepancy, rows: Tensor, found: Analysis) -> None:
    assert found.skewness is not None
    estimate = InfluenceBound(metric).estimate(fed(metric, rows, 90))
    assert estimate.standard_error == found.selection_error
    wider = found.stopping_error * math.sqrt(1.0 + OF_SCORES * found.skewness**2 / len(rows))
    assert estimate.stopping_error == pytest.approx(wider)


@pytest.mark.parametrize("known", [30, 700, 1400, 1500])
def test_kid_takes_the_influence_of_the_rows_that_it_holds(known: int):
    metric, rows = kid_of(rows_of(0, 50, 3), 700), rows_of(1, known, 3, 0.5).exp()
    statistic = fed(metric, rows, 90)
    means: list[Tensor] = []
    for part in rows.split(700):
        witness = metric.real.witness(part)
        values = cubic(part, part) - witness[:, None] - witness + metric.real.similarity
        means.append(values.fill_diagonal_(0.0).sum(1) / (len(part) - 1))
    held = torch.cat(means)[-len(statistic.last_rows) :]
    torch.testing.assert_close(statistic.row_means, held, rtol=1e-9, atol=1e-9)
    found = metric.analyse(statistic)
    assert found.skewness == pytest.approx(skewed(held))
    assert abs(skewed(held)) > abs(metric.real.skewness)
    assert_widened(metric, rows, found)


def test_real_rows_widen_the_interval_of_kid_before_samples_have_any():
    real = rows_of(0, 31, 3)
    real[4] *= 20.0
    metric, rows = kid_of(real, 50), rows_of(1, 20, 3)
    kernel = cubic(real, real).fill_diagonal_(0.0)
    assert metric.real.skewness == pytest.approx(skewed(kernel.sum(1) / 30))
    assert abs(metric.real.skewness) > 2.0
    found = metric.analyse(fed(metric, rows))
    assert found.skewness == metric.real.skewness
    assert_widened(metric, rows, found)
    # A block that is not whole has means of another spread, and is left out.
    whole = real[torch.from_numpy(np.random.default_rng(0).permutation(31)[:30])]
    assert kid_of(real, 30).real.skewness == pytest.approx(kid_of(whole, 30).real.skewness)


@pytest.mark.parametrize("known", [9, 40])
def test_mmd_takes_the_influence_of_its_last_rows(known: int):
    """So few features that it soon drops its rows."""
    metric, rows = mmd_of(rows_of(0, 20, 3)), rows_of(1, known, 3, 0.5)
    found = metric.analyse(fed(metric, rows, 90), {"features": rows})
    assert found.influence is not None
    assert found.skewness == pytest.approx(skewed(found.influence))
    assert_widened(metric, rows, found)
