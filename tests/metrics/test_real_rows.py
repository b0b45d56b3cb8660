"""What metrics that compare samples with real rows have in common, and what kernel distances have: rare rows, too."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from optimist.estimates.skewness import OF_SCORES, skewness
from optimist.metrics.base import Analysis
from optimist.metrics.bound import InfluenceBound
from optimist.metrics.implementations import Setting, make_metric, make_reference
from optimist.metrics.kid import KernelDistance, cubic
from optimist.metrics.mmd import MeanDiscrepancy
from optimist.references.real_data import RealData
from optimist_client.metrics import CMMD, KEN, KID, MMD, Coverage, Density, Gaussian, Metric, Precision
from tests.support.real_rows import kid_of, mmd_of, score_of
from tests.support.streams import fed, rows_of

KERNEL = Gaussian(1.0, features=4)
DECLARED: list[Metric] = [KID(), MMD(kernel=KERNEL), CMMD(), KEN(kernel=KERNEL), Precision(), Density(), Coverage()]
DISTANCES: dict[str, Callable[..., Any]] = {"kid": kid_of, "mmd": mmd_of}


@pytest.mark.parametrize("declared", DECLARED, ids=lambda one: one.name)
def test_what_is_no_reference_is_refused(declared: Metric):
    with pytest.raises(ValueError, match=f"'{declared.name}' .* rows of real features .*only their mean"):
        make_reference(declared, RealData(np.zeros(3), np.eye(3)))
    with pytest.raises(ValueError, match="needs a reference: real features"):
        make_metric(declared, Setting({"features": 3}))


@pytest.mark.parametrize(
    ("declared", "rows", "message"),
    [
        *((kind, np.zeros((1, 3)), "at least 2 rows") for kind in (KID(), MMD(kernel=KERNEL))),
        (KID(), np.full((4, 3), 1e25), "scale them"),
        (CMMD(), np.zeros((4, 3)), "row of zeros"),
        *(
            (kind, np.eye(5, 3), "more rows than the 5 neighbours of each, got shape \\(5, 3\\)")
            for kind in (Precision(), Density(), Coverage())
        ),
    ],
)
def test_rows_that_are_no_reference_are_refused(declared: Metric, rows: np.ndarray, message: str):
    with pytest.raises(ValueError, match=message):
        make_reference(declared, RealData(np.zeros(3), np.eye(3), rows))


@pytest.mark.parametrize("declared", DECLARED, ids=lambda one: one.name)
def test_statistics_of_other_sizes_are_refused(declared: Metric):
    metric, other = score_of(declared, rows_of(0, 30, 3)), score_of(declared, rows_of(0, 30, 4))
    with pytest.raises(ValueError, match="another metric"):
        metric.analyse(fed(other, rows_of(1, 5, 4)))
    with pytest.raises(ValueError, match="another layout"):
        metric.statistic().restore(fed(other, rows_of(1, 5, 4)).state())


def without(rows: Tensor, row: int) -> Tensor:
    return torch.cat([rows[:row], rows[row + 1 :]])


@pytest.mark.parametrize(("name", "n", "known"), [("kid", 30, 12), ("kid", 30, 30), ("mmd", 9, 9), ("mmd", 40, 40)])
def test_the_influence_is_what_leaving_a_row_out_changes(name: str, n: int, known: int):
    metric, rows = DISTANCES[name](rows_of(0, 20, 3)), rows_of(1, n, 3, 0.5)
    found = metric.analyse(fed(metric, rows), {"features": rows[:known]})
    change = [
        (n - 1) * (found.estimate - metric.analyse(fed(metric, without(rows, row))).estimate) for row in range(known)
    ]
    least, spread = (0.998, 0.05) if name == "kid" else (0.995, 2.0 / n)
    # The pairs' part changes by (n − 1)/(n − 2) times as much.
    assert np.corrcoef(found.influence.numpy(), change)[0, 1] > least
    np.testing.assert_allclose(np.std(found.influence.numpy()), np.std(change), rtol=spread)
    if name == "mmd":
        torch.testing.assert_close(found.recent, found.influence)


@pytest.mark.parametrize("name", DISTANCES)
def test_the_influence_of_real_rows_is_what_leaving_one_out_changes(name: str):
    real, both = rows_of(0, 30, 3), (rows_of(1, 40, 3, 0.5), rows_of(2, 40, 3, -0.3))
    whole = DISTANCES[name](real)
    found = [whole.analyse(fed(whole, each), {"features": each}) for each in both]
    influence = (found[1].reference - found[0].reference).numpy() * 30**0.5
    change = []
    for row in np.random.default_rng(0).permutation(30):
        less = DISTANCES[name](without(real, row))
        left = [less.analyse(fed(less, each)).estimate for each in both]
        change.append(29 * ((found[1].estimate - found[0].estimate) - (left[1] - left[0])))
    np.testing.assert_allclose(influence - influence.mean(), change, atol=1e-9)


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
