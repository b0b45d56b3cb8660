"""KEN: the published definition, again by kernel matrices, its bracket and its error, and its modes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from optimist.metrics.feature_maps import gaussian_kernel
from optimist.metrics.implementations import make_reference
from optimist.metrics.novelty import Novel, analyse_novelty, ken
from optimist.metrics.reservoir import Reservoir
from optimist.metrics.vendi.kernels import KernelSettings
from optimist_client.metrics import KEN, Cosine, Gaussian, Nystrom
from tests.support.real_rows import real_data, score_of
from tests.support.streams import fed, rows_of


def ken_of(real: Tensor, eta: float = 1.0, **kernel: Any) -> Any:
    settings = KernelSettings.from_kernel(kernel or {"sigma": 1.0, "features": 16})
    return score_of(KEN(eta=eta).model_copy(update={"kernel": settings}), real)


def clusters(counts: list[int], seed: int, spread: float = 0.1) -> Tensor:
    """Samples around the corners of a simplex."""
    labels = np.random.default_rng(seed).permutation(np.repeat(np.arange(len(counts)), counts))
    return torch.eye(len(counts), dtype=torch.float64)[labels] * 4.0 + spread * rows_of(seed, len(labels), len(counts))


def published(own: Tensor, cross: Tensor, others: Tensor, eta: float) -> float:
    """Zhang et al. 2024: the entropy of the positive eigenvalues of a matrix of kernels that is not symmetric."""
    n, m = cross.shape
    aside = math.sqrt(eta / (n * m)) * cross
    joint = torch.cat([torch.cat([own / n, aside], 1), torch.cat([-aside.T, -eta / m * others], 1)])
    eigenvalues = torch.linalg.eigvals(joint).real
    positive = eigenvalues[eigenvalues > 1e-10]
    return float(-(positive * (positive / positive.sum()).log()).sum())


def test_reference_numbers(stored):
    file = stored("novelty")
    real, fake, eta = torch.from_numpy(file["y"]), torch.from_numpy(file["x"]), float(file["eta"])
    metric = ken_of(real, eta, name="gaussian", omegas=file["omegas"])
    assert metric.plug_in(fed(metric, fake)) == pytest.approx(float(file["ken_rff"]), rel=1e-9)
    # The exact kernel, which random features approximate.
    own, cross, others = (gaussian_kernel(*pair, 1.0) for pair in ((fake, fake), (fake, real), (real, real)))
    assert published(own, cross, others, eta) == pytest.approx(float(file["ken"]), rel=1e-6)
    many = ken_of(real, eta, sigma=1.0, features=300)
    assert many.plug_in(fed(many, fake)) == pytest.approx(float(file["ken"]), rel=0.1)


def test_the_gradient_is_that_of_ken():
    real, fake = rows_of(0, 40, 3), rows_of(1, 60, 3) + 0.7
    metric = ken_of(real)
    statistic = fed(metric, fake)
    moment, known = statistic.moment / 60, metric.eta * metric.real.moment
    novel = Novel.from_difference(moment - known)
    assert novel.linear(moment - known) == pytest.approx(novel.score, rel=1e-9)
    features = metric.feature_map(rows_of(3, 5, 3))
    step = 1e-6
    for row, along in zip(features, novel.along(features), strict=True):
        moved = ken(torch.linalg.eigvalsh(moment - known + step * torch.outer(row, row)))
        assert (moved - novel.score) / step == pytest.approx(float(along), rel=1e-3)


def test_what_real_data_have_as_often_is_not_novel():
    """Half of the samples are of kinds that occur in real data twice as often, half are of two new kinds."""
    real, fake = clusters([200, 200, 0, 0], 0, 0.02), clusters([60, 60, 60, 60], 1, 0.02)
    metric = ken_of(real, sigma=1.0, features=200)
    found = metric.analyse(fed(metric, fake))
    # Two new kinds of a quarter each: S log 2 = 0.5 log 2; so the spread within the kinds is small.
    assert found.estimate == pytest.approx(0.5 * math.log(2.0), abs=0.05)
    assert metric.plug_in(fed(metric, real)) == pytest.approx(0.0, abs=1e-6)
    # η = 4: the old kinds would be novel only from 4 times their share on; what is new is as novel as before.
    strict = ken_of(real, 4.0, sigma=1.0, features=200)
    assert strict.analyse(fed(strict, fake)).estimate == pytest.approx(0.35, abs=0.05)


def test_modes_are_the_novel_kinds_with_their_samples():
    metric = ken_of(clusters([200, 100, 0, 0], 0), sigma=1.0, features=200)
    rows = clusters([80, 40, 60, 20], 1)
    labels = rows.argmax(1).tolist()
    reservoir = Reservoir(512)
    reservoir.update({"features": rows}, [f"{label}/{place}" for place, label in enumerate(labels)])
    first, second = metric.modes(fed(metric, rows), reservoir, count=2, samples=6)
    # Kinds 2 and 3 are 60 and 20 of 200; the others occur as often in real data.
    assert (first.share, second.share) == pytest.approx((0.72, 0.24), abs=0.06)
    assert {shown.id[0] for shown in first.samples} == {"2"}
    assert {shown.id[0] for shown in second.samples} == {"3"}
    with pytest.raises(ValueError, match="count ≥ 1"):
        metric.modes(fed(metric, rows), reservoir, count=0)
    # Nothing new: no modes.
    of_real = metric.modes(fed(metric, clusters([200, 100, 0, 0], 0)), reservoir)
    assert of_real == []


@pytest.mark.parametrize("n", [30, 60, 120])
def test_the_score_of_a_population_lies_in_the_bracket_and_errors_hold(n: int):
    pool, real = clusters([900, 900, 300, 600], 1, 0.4), clusters([100, 50, 0, 150], 0, 0.4)
    metric = ken_of(real, sigma=1.5, features=32)
    truth = metric.plug_in(fed(metric, pool, 500))
    found, common = [], []
    for seed in range(60):
        drawn = pool[torch.from_numpy(np.random.default_rng(seed).integers(len(pool), size=n))]
        statistic = fed(metric, drawn, n)
        found.append(metric.analyse(statistic))
        assert found[-1].bracket[0] <= found[-1].estimate <= found[-1].bracket[1]
        paired = metric.analyse(statistic, {"features": drawn})
        torch.testing.assert_close(paired.recent, paired.influence)
        common.append(paired.influence.std() / math.sqrt(n))
    lower, upper = (np.mean([each.bracket[end] for each in found]) for end in (0, 1))
    assert lower < truth < upper
    plug_ins, values = (np.array([getattr(each, name) for each in found]) for name in ("plug_in", "estimate"))
    assert abs(values.mean() - truth) < 0.8 * abs(plug_ins.mean() - truth)
    z = (values - truth) / np.array([each.stopping_error for each in found])
    assert 0.3 < float(np.sqrt(np.square(z).mean())) < 1.2
    # What the influence function says of sampling alone.
    sampling = float(np.sqrt(np.mean([each.details["sampling_error"] ** 2 for each in found])))
    assert 0.75 < values.std() / sampling < 1.3
    assert 0.6 < float(np.mean(common)) / values.std() < 1.4


def test_few_samples_are_warned_of():
    real, pool = clusters([100, 0, 0, 0], 0, 0.6), clusters([40, 40, 40, 40], 1, 0.6)
    metric = ken_of(real, sigma=0.7, features=64)
    few = metric.analyse(fed(metric, pool[:10]))
    assert "few samples for what they show: of 10 samples" in few.warnings[0]
    assert few.systematic_stopping > few.details["sampling_error"]
    many = ken_of(real, sigma=4.0, features=64)
    assert many.analyse(fed(many, pool)).warnings == ()


def test_no_novelty_and_two_samples_have_finite_errors():
    real = rows_of(0, 300, 2)
    for eta, n in ((1e6, 50), (1.0, 2), (1.0, 3)):
        metric = ken_of(real, eta)
        found = metric.analyse(fed(metric, real[:n]))
        assert all(map(math.isfinite, (found.estimate, found.stopping_error, *found.bracket)))
    novel = Novel.from_difference(-torch.eye(3, dtype=torch.float64))
    assert novel.score == 0.0
    assert novel.along(torch.ones(2, 3, dtype=torch.float64)).tolist() == [0.0, 0.0]
    assert analyse_novelty(fed(metric, real[:5]), 2.0 * torch.eye(32, dtype=torch.float64)).stopping_error == 0.0


def test_real_data_fix_an_open_kernel():
    real = rows_of(0, 40, 3)
    metric: Any = make_reference(KEN(kernel=Gaussian("median", features=8)), real_data(real))
    assert metric.dimension == 3
    assert metric.bytes == 8 * (16 * 16 + 3 * 8)
    other = ken_of(real, sigma=float(torch.pdist(real).quantile(0.5)), features=8).real
    assert torch.equal(metric.moment, other.moment)
    landmarks: Any = make_reference(KEN(kernel=Nystrom("median", features=10)), real_data(real))
    assert landmarks.moment.shape == (10, 10)
    assert KEN(kernel=Cosine()).directed == {"features"}
    assert KEN().directed == frozenset()
    with pytest.raises(ValueError, match="eta"):
        KEN.of({"eta": 0.5})
