"""What every metric's loss of mixtures keeps: derivatives, single generators, halves, common rows, stored forms."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from optimist.estimates.mixture import Mixture
from optimist.estimates.programme import Floats
from optimist.metrics.feature_maps import GaussianFourier
from optimist.metrics.fid.reference import FrechetReference
from optimist.metrics.fid.score import FrechetDistance
from optimist.metrics.mixtures.cross_fitted import cross_fitted
from optimist.metrics.mixtures.objective import Half
from optimist.metrics.vendi.score import RenyiKernelEntropy, VendiScore
from optimist.records import codec
from tests.support.real_rows import mmd_of
from tests.support.streams import fed, rows_of, stored_and_read

WIDTH = 24
"""Rank of the reference and width of every feature map: with as many samples all rows are held."""
SPECTRUM = np.arange(1.0, WIDTH + 1.0) ** -1.0
FOURIER = GaussianFourier.draw(3, WIDTH // 2, 2.0)
ORDERS = [0.5, 0.97, 1.0, 1.03, 1.5, 3.0, 12.0]
METRICS: dict[str, Callable[[], Any]] = {
    "fid": lambda: FrechetDistance(FrechetReference(np.zeros(WIDTH), np.diag(SPECTRUM))),
    "rke": lambda: RenyiKernelEntropy(FOURIER),
    "mmd": lambda: mmd_of(rows_of(99, 60, 3, 0.7), 3.0, WIDTH // 2),
    **{f"vendi {order:g}": lambda order=order: VendiScore(FOURIER, order) for order in ORDERS},
}
WEIGHTS = np.array([0.5, 0.2, 0.3])


def drawn(name: str, seed: int, counts: Sequence[int]) -> list[Tensor]:
    """Rows of three generators with other means and variances in each column."""
    columns, scale = (WIDTH, np.sqrt(SPECTRUM)) if name == "fid" else (3, 1.0)
    laws, rng = np.random.default_rng(5).standard_normal((3, 2, columns)), np.random.default_rng(seed)
    return [
        torch.from_numpy(scale * (0.5 * shift + np.exp(0.4 * spread) * rng.standard_normal((count, columns))))
        for count, (shift, spread) in zip(counts, laws, strict=True)
    ]


def objective(metric: Any, rows: Sequence[Tensor], half: Half | None = None, common: Sequence[Any] = ()) -> Any:
    return metric.objective([fed(metric, each, 29) for each in rows], half, common)


@pytest.mark.parametrize("count", [5, 90], ids=["rows are held", "rows are dropped"])
@pytest.mark.parametrize(
    ("name", "published"),
    [(name, published) for name in METRICS for published in (True, False) if published or name != "fid"],
)
def test_gradient_and_hessian_are_finite_differences(name: str, published: bool, count: int):
    found = objective(METRICS[name](), drawn(name, 0, (count, count + 1, count + 2)))
    model, step = found.model(WEIGHTS, published=published), 1e-4
    ways = np.array([[1.0, -1.0, 0.0], [0.0, 1.0, -1.0]])

    def there(by: float, way: Floats) -> tuple[float, Floats]:
        moved = WEIGHTS + by * way
        other = found.model(moved, published=published)
        return other.value(moved), other.gradient(moved)

    for way in ways:
        (low, slope_below), (high, slope_above) = there(-step, way), there(step, way)
        assert model.gradient(WEIGHTS) @ way == pytest.approx((high - low) / (2.0 * step), rel=1e-5, abs=1e-6)
        for other in ways:
            second = (slope_above - slope_below) @ other / (2.0 * step)
            assert 2.0 * (way @ model.matrix @ other) == pytest.approx(second, rel=1e-3, abs=1e-5)
    if name != "fid":
        assert np.linalg.eigvalsh(model.matrix)[0] > -1e-9


@pytest.mark.parametrize("counts", [(4, 17, WIDTH), (WIDTH + 1, 60, 300)])
@pytest.mark.parametrize("name", METRICS)
def test_a_generator_alone_scores_as_its_own_estimate(name: str, counts: tuple[int, int, int]):
    metric, rows = METRICS[name](), drawn(name, 1, counts)
    found, sign = objective(metric, rows), 1.0 if metric.lower_is_better else -1.0
    assert found.samples == counts
    for place, vertex in enumerate(np.eye(3)):
        expected = metric.analyse(fed(metric, rows[place], 29))
        alone = found.analyse(vertex)
        assert found.analyse(vertex, slopes=True).loss == pytest.approx(alone.loss, rel=1e-9)
        assert not any(bool(other.any()) for at, other in enumerate(alone.rows) if at != place)
        if name in ("vendi 3", "vendi 12"):  # Their own estimate is made of halves.
            if counts[place] >= 60:
                assert sign * alone.loss == pytest.approx(expected.estimate, abs=0.5 * expected.stopping_error)
            continue
        assert sign * alone.loss == pytest.approx(
            expected.estimate, rel=1e-8, abs=1e-5 if name == "vendi 0.5" else 1e-8
        )
        error = math.sqrt(float(alone.rows[place].var()) / counts[place] + float(alone.extra @ alone.extra))
        if counts[place] > 20 and name != "fid":
            assert error == pytest.approx(expected.stopping_error, rel=1e-3 if "vendi" in name else 0.35)


@pytest.mark.parametrize("count", [20, 40, 61, 200], ids=["rows", "one half below the rank", "above", "far above"])
@pytest.mark.parametrize("half", [0, 1])
@pytest.mark.parametrize("name", ["fid", "vendi 0.5", "vendi 1", "vendi 3"])
def test_a_half_is_every_other_sample(name: str, half: Half, count: int):
    metric, rows = METRICS[name](), drawn(name, 2, (count, count, count + 1))
    whole, own = objective(metric, rows, half), objective(metric, [each[half::2] for each in rows])
    assert whole.samples == own.samples
    weights = np.array([0.6, 0.0, 0.4])
    found, expected = (each.analyse(weights, slopes=True) for each in (whole, own))
    assert found.loss == pytest.approx(expected.loss, rel=1e-6, abs=1e-6)
    np.testing.assert_allclose(found.slopes, expected.slopes, rtol=1e-5, atol=1e-5)
    for mine, theirs in zip(found.rows, expected.rows, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-4)
    for published in (False, True):
        model, same = (each.model(weights, published=published) for each in (whole, own))
        assert model.value(weights) == pytest.approx(same.value(weights), rel=1e-4)
        if name != "fid":
            np.testing.assert_allclose(model.matrix, same.matrix, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("counts", [(7, 8, 9), (60, 30, 90)])
@pytest.mark.parametrize("name", METRICS)
def test_common_rows_have_the_influence_of_the_same_rows(name: str, counts: tuple[int, int, int]):
    rows = drawn(name, 4, counts)
    common = [{"features": each[:5]} for each in rows[:2]]
    mixtures = objective(METRICS[name](), rows, None, [*common, None])
    found = mixtures.analyse(WEIGHTS, slopes=True)
    assert found.common[2] is None
    assert found.common_slopes[2] is None
    for place in range(2):
        torch.testing.assert_close(found.common[place], found.rows[place][:5], rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(found.common_slopes[place], found.slope_rows[place][:5], rtol=1e-4, atol=1e-4)
    lean = mixtures.analyse(np.array([0.5, 0.5, 0.0]))
    assert not bool(lean.rows[2].any())


@pytest.mark.parametrize("count", [16, 60])
@pytest.mark.parametrize("name", ["fid", "rke", "mmd", "vendi 1", "vendi 3"])
def test_stored_statistics_give_the_same_mixture_to_the_last_bit(name: str, count: int):
    metric = METRICS[name]()
    statistics = [fed(metric, rows, 10) for rows in drawn(name, 8, (count,) * 3)]
    stored = [stored_and_read(each, metric.statistic()) for each in statistics]
    one, other = (codec.encode(cross_fitted(metric, each, ("a", "b", "c"))) for each in (statistics, stored))
    assert one == other == codec.encode(codec.decode(Mixture, one))


@pytest.mark.parametrize("name", ["fid", "rke", "mmd", "vendi 1", "vendi 3"])
def test_identical_samples_have_a_mixture_and_fewer_than_4_are_refused(name: str):
    metric, rows = METRICS[name](), drawn(name, 0, (6, 6, 6))[0]
    point = torch.ones_like(rows)
    for others in (point, 2.0 * point, rows):
        assert cross_fitted(metric, [fed(metric, point), fed(metric, others)], ("a", "b")).is_sound()
    with pytest.raises(ValueError, match="at least 4 samples"):
        objective(metric, [rows[:3], rows])
