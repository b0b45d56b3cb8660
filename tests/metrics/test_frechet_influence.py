"""The analysis past n = rank is the definition written out with dense matrices (rules/estimates.md)."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from optimist.metrics.bound import InfluenceBound
from optimist.metrics.fid import reference as reference_module
from optimist.metrics.fid.reference import FrechetReference
from optimist.metrics.fid.score import FrechetDistance
from optimist.metrics.fid.statistic import KeptGram
from optimist.metrics.spectra import eigen, symmetric
from optimist.metrics.spectra.leave_one_out import leave_one_out_curve
from tests.support.streams import fed

D, N = 60, 150
POWERS = {"flat": 0.0, "falling": 1.0, "steep": 2.0}


@pytest.fixture(autouse=True)
def as_if_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """What serves large matrices serves these too."""
    monkeypatch.setattr(eigen, "TRIDIAGONAL_SIZE", 1)
    monkeypatch.setattr(symmetric, "PANEL", 16)


def drawn(count: int, power: float, seed: int) -> Tensor:
    """Rows (count, D) with standard deviations k^-power, turned, and of unequal size."""
    rng = np.random.default_rng(seed)
    turned = np.linalg.qr(np.random.default_rng(9).standard_normal((D, D)))[0]
    sizes = rng.uniform(0.5, 1.5, (count, 1))
    return torch.from_numpy(sizes * rng.standard_normal((count, D)) * np.arange(1, D + 1) ** -power @ turned)


def dense(reference: FrechetReference, rows: Tensor, common: Tensor) -> tuple[float, float, float, Tensor]:
    """Estimate, variance of the influence, second order and influence of `common`, by two whole decompositions."""
    n = len(rows)
    mean, values, root = rows.mean(0), reference.eigenvalues, reference.basis() * reference.eigenvalues.sqrt()
    centred = rows - mean
    covariance = centred.T @ centred / (n - 1)
    moment = root.T @ covariance @ root
    squares, vectors = torch.linalg.eigh(moment)
    shares = (centred @ root @ vectors).square() / ((n - 1) * squares.clamp_min(1e-12 * squares[-1]))
    trace = leave_one_out_curve(squares, shares, n - 1, values).value
    shift = mean - reference.mean
    estimate = shift.square().sum() + covariance.trace() * (1 - 1 / n) + reference.trace - 2 * trace
    weight, scale = min(1.0, len(values) / n), moment.trace() / values.square().sum()
    mixed, turned = torch.linalg.eigh((1 - weight) * moment + weight * scale * values.square().diag())
    kept = mixed > 1e-9 * mixed[-1]
    s, turned = mixed[kept].sqrt(), turned[:, kept]

    def influence(of: Tensor) -> Tensor:
        return 2 * of @ shift + of.square().sum(1) - ((of @ root @ turned).square() / s).sum(1)

    square_trace = covariance.square().sum()
    spread = torch.maximum(square_trace - covariance.trace() ** 2 / n, 0.05 * square_trace)
    pairs = (s[:, None] * s / (s[:, None] + s)).square().sum()
    found = influence(centred)
    return float(estimate), float(found.var()), float(2 * spread + pairs), influence(common - mean)


@pytest.mark.parametrize("real", [400, 45], ids=["of full rank", "of low rank"])
@pytest.mark.parametrize(
    ("power", "count"), [*((power, N) for power in POWERS.values()), (POWERS["flat"], 40), (POWERS["falling"], 40)]
)
def test_the_analysis_is_the_dense_one(power: float, count: int, real: int):
    """Of so few rows that all are held, the influence alone."""
    others = drawn(real, power, 1)
    reference = FrechetReference(others.mean(0), torch.cov(others.T))
    rows = 1.1 * drawn(count, power, 2) + 0.02
    metric = FrechetDistance(reference)
    found = metric.analyse(fed(metric, rows, 7), {"features": rows[20:60]})
    estimate, variance, second, influence = dense(reference, rows, rows[20:60])
    assert found.influence is not None
    assert float((found.influence - influence).abs().max()) < 1e-7 * math.sqrt(variance)
    if count < N:
        return
    assert found.estimate == pytest.approx(estimate, rel=1e-9)
    assert found.details["influence_variance"] == pytest.approx(variance, rel=1e-7)
    assert found.details["second_order_variance"] == pytest.approx(second, rel=1e-7)
    assert found.details["plain_error"] == pytest.approx(math.sqrt(variance / N + second / N**2), rel=1e-7)


def test_equal_rows_have_no_spectrum_but_a_distance():
    metric = FrechetDistance(FrechetReference(np.zeros(8), np.eye(8)))
    found = metric.analyse(fed(metric, torch.full((600, 8), 2.0), 600), {"features": torch.zeros(256, 8)})
    assert found.estimate == pytest.approx(8 * 4.0 + 8.0)
    assert found.influence is not None
    assert len(found.influence) == 256


@pytest.mark.parametrize("seed", range(3))
def test_one_sample_past_the_rank_is_no_jump_where_rows_span_less(seed: int):
    """The smallest eigenvalues are rounding there. What their vectors would be has no say."""
    rng = np.random.default_rng(seed)
    rows = torch.from_numpy(rng.standard_normal((D + 2, 20)) @ rng.standard_normal((20, D)))
    metric = FrechetDistance(FrechetReference(np.zeros(D), np.diag(np.arange(1.0, D + 1.0) ** -0.5)))
    found = [metric.analyse(fed(metric, rows[:count], count)) for count in (D, D + 1, D + 2)]
    assert [one.estimate for one in found] == pytest.approx([found[0].estimate] * 3, abs=0.3 * found[0].stopping_error)


@pytest.mark.parametrize("samples", [60, 100])
def test_no_estimate_finds_the_eigenvectors_of_a_reference_of_full_rank(samples: int, monkeypatch: pytest.MonkeyPatch):
    """They take 2 s at d = 2048, and are not kept."""
    spread = np.random.default_rng(0).standard_normal((80, 80))
    bound = InfluenceBound(
        FrechetDistance(FrechetReference(np.zeros(80), spread @ spread.T / 80 + np.eye(80), samples=500))
    )
    rows = torch.from_numpy(np.random.default_rng(1).standard_normal((samples, 80)))
    statistic = fed(bound, rows, samples)
    # Gaussian rows stand for those of the reference, which are made of its eigenvectors once.
    assert bound.metric.reference.finite is not None
    monkeypatch.setattr(reference_module, "_descending", lambda _: pytest.fail("it has found them"))
    assert bound.estimate(statistic, {"features": rows[:40]}).value > 0.0


def test_what_is_kept_of_a_stream_does_not_depend_on_when_it_was_asked_for():
    rows, factor = drawn(200, 0.0, 1), torch.from_numpy(np.triu(np.random.default_rng(2).standard_normal((D, D))))
    kept = KeptGram(factor)
    for samples in (10, 70, 150, 151, 200, 100, 64, 200):
        whitened, gram = kept.take(rows[:samples])
        alone = KeptGram(factor).take(rows[:samples])
        assert torch.equal(whitened, alone[0])
        assert torch.equal(gram, alone[1])
    centred = (rows - rows.mean(0)) @ factor.T
    assert torch.allclose(gram, centred @ centred.T, rtol=0.0, atol=1e-10)
    assert kept.bytes == 8 * (200 * D + 200 * 200)
