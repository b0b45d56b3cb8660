"""Vendi scores of mixtures: the programme, the de-biased score, influences, and that errors are right."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import Tensor

from optimist.estimates.programme import Floats, Quadratic, minimise
from optimist.metrics.feature_maps import GaussianFourier
from optimist.metrics.mixtures.objective import Common, Half
from optimist.metrics.spectra.eigen import differences
from optimist.metrics.vendi.mixture_spectrum import (
    Covariances,
    GeneratorFeatures,
    MixtureSpectrum,
    Spectral,
    spectral_model,
)
from optimist.metrics.vendi.score import VendiScore
from tests.support.streams import fed

ORDERS = [0.5, 1.0, 1.5, 3.0]
WEIGHTS = np.array([0.5, 0.2, 0.3])
CENTRES = np.array([[0.0, 0.0, 0.0], [2.0, 0.0, 1.0], [0.0, 2.5, 0.0]])
SPREADS = (1.0, 0.6, 0.8)


def score(order: float, width: int = 64) -> VendiScore:
    return VendiScore(GaussianFourier.draw(3, width // 2, 2.0), order)


def drawn(seed: int, counts: Sequence[int], centres: Floats = CENTRES) -> list[Tensor]:
    streams = zip(counts, centres, SPREADS, strict=True)
    return [
        torch.from_numpy(centre + spread * np.random.default_rng((seed, place)).standard_normal((count, 3)))
        for place, (count, centre, spread) in enumerate(streams)
    ]


def objective(
    metric: VendiScore, rows: Sequence[Tensor], half: Half | None = None, common: Sequence[Common | None] = ()
):
    return metric.objective([fed(metric, each, 50) for each in rows], half, common)


@dataclass(frozen=True)
class OfMatrices:
    """The programme of given covariances."""

    matrices: list[Tensor]

    @property
    def samples(self) -> tuple[int, ...]:
        return (1,) * len(self.matrices)

    def model(self, weights: Floats, *, published: bool = False) -> Quadratic:
        return spectral_model(1.0, Covariances.from_moments(self.matrices, len(self.matrices[0])), weights)


@pytest.mark.parametrize("order", [0.5, 1.0, 1.5, 3.0, 7.0])
def test_the_rate_is_how_fast_the_loss_falls_with_the_score(order: float):
    loss, step = Spectral(order), 1e-5
    for value in (0.2, 1.0, 3.0):
        fall = (loss.of_score(value - step) - loss.of_score(value + step)) / (2 * step)
        assert loss.rate(value) == pytest.approx(fall, rel=1e-8)
        assert loss.in_log(loss.of_score(value)) == pytest.approx(-value)


@pytest.mark.parametrize("width", [12, 40])
def test_traces_are_the_same_from_all_rows_and_from_moments(width: int):
    """tr C_i f(C) by eigenvectors of C or of the Gram matrix, for f(λ) = √(λ + 0.1)."""
    rng = np.random.default_rng(5)
    rows = [torch.from_numpy(rng.standard_normal((count, width))) for count in (9, 14, 11)]
    rows = [each / each.norm(dim=-1, keepdim=True) for each in rows]
    moments = [each.T @ each / len(each) for each in rows]
    # The last one has no weight: not all of its rows are in the span of the others'.
    weights = np.array([0.3, 0.7, 0.0])
    values, vectors = torch.linalg.eigh(0.3 * moments[0] + 0.7 * moments[1])
    function = (vectors * (values.clamp_min(0.0) + 0.1).sqrt()) @ vectors.T
    expected = [float((moment * function).sum()) for moment in moments]
    held = [GeneratorFeatures(each[-5:], each, len(each)) for each in rows]
    summed = [GeneratorFeatures(each[-5:], None, len(each), lambda each=each: each.T @ each) for each in rows]
    for parts in (held, summed, [held[0], *summed[1:]]):
        spectrum = MixtureSpectrum(parts, weights)
        assert spectrum.by_rows == (parts is held and width > len(rows[0]) + len(rows[1]))
        found = spectrum.means([0, 1, 2], (spectrum.raw + 0.1).sqrt(), math.sqrt(0.1))
        np.testing.assert_allclose(found, expected, rtol=1e-7)


@pytest.mark.parametrize("power", [0.0, -0.5, 0.5, 1.0, 2.0])
def test_divided_differences_of_close_and_of_tiny_values(power: float):
    values = torch.tensor([1.0, 1.0, 1.0 - 1e-9, 0.3, 1e-12], dtype=torch.float64)
    found = differences(values, power)
    torch.testing.assert_close(found, found.T, rtol=1e-12, atol=0.0)
    for i, a in enumerate(values.tolist()):
        for j, b in enumerate(values.tolist()):
            if abs(a - b) < 1e-6:
                expected = (power or 1.0) * a ** (power - 1.0)
            else:
                expected = (math.log(a / b) if power == 0.0 else a**power - b**power) / (a - b)
            assert float(found[i, j]) == pytest.approx(expected, rel=1e-8)


def test_the_reference_numbers(stored: Callable[[str], Mapping[str, np.ndarray]]):
    file = stored("mixture_fid_vendi")
    programme = OfMatrices([torch.from_numpy(each) for each in file["vendi_C"]])
    even = np.full(3, 1.0 / 3.0)
    model = programme.model(even)
    assert -model.value(even) == pytest.approx(float(file["entropy_uniform"]), abs=1e-9)
    np.testing.assert_allclose(-model.gradient(even), file["entropy_gradient_uniform"], atol=1e-9)
    for alone, entropy in zip(np.eye(3), file["entropy_single"], strict=True):
        assert -programme.model(alone).value(alone) == pytest.approx(float(entropy), abs=1e-9)
    best = minimise(programme)
    np.testing.assert_allclose(best, file["entropy_alpha"], atol=1e-6)
    assert -programme.model(best).value(best) == pytest.approx(float(file["entropy_value"]), abs=1e-6)


@pytest.mark.parametrize("order", ORDERS)
def test_the_score_of_a_mixture_is_that_of_samples_drawn_by_its_weights(order: float):
    metric, rows = score(order), drawn(4, (400, 300, 350))
    blend = objective(metric, rows).analyse(WEIGHTS)
    pooled = torch.cat(drawn(5, (10_000, 4_000, 6_000)))
    expected = metric.analyse(fed(metric, pooled[torch.randperm(len(pooled), generator=torch.manual_seed(0))], 500))
    variance = sum(float(part.var()) / len(each) for part, each in zip(blend.rows, rows, strict=True))
    error = math.hypot(math.sqrt(variance + float(blend.extra @ blend.extra)), expected.stopping_error)
    assert abs(blend.loss + expected.estimate) < 3.0 * error
    assert error < 0.1


@pytest.mark.parametrize("order", ORDERS)
def test_the_score_changes_continuously_where_a_generator_comes_in(order: float):
    found = objective(score(order), drawn(6, (40, 40, 40)))
    alone, nearly = (found.analyse(np.array(each)).loss for each in ([1.0, 0.0, 0.0], [0.998, 0.001, 0.001]))
    assert nearly == pytest.approx(alone, abs=0.03)


def test_generators_without_weight_change_no_bit():
    metric, rows = score(1.0), drawn(7, (50, 60, 40))
    two, three = objective(metric, rows[:2]), objective(metric, rows)
    weights = np.array([0.4, 0.6])
    found, expected = three.analyse(np.append(weights, 0.0)), two.analyse(weights)
    assert found.loss == expected.loss
    assert torch.equal(found.rows[0], expected.rows[0])
    assert not found.rows[2].any()


@pytest.mark.parametrize("count", [30, 90])
@pytest.mark.parametrize("order", ORDERS)
def test_samples_that_are_the_same_at_each_index_count_once(order: float, count: int):
    """A mixture of copies is the generator alone, by score, slopes and errors beyond the first order."""
    metric, (rows, *_) = score(order), drawn(12, (count,) * 3)
    common = ({"features": rows},) * 3
    for half in (None, 0):
        known, unknown = (objective(metric, [rows] * 3, half, each) for each in (common, ()))
        single = objective(metric, [rows], half).analyse(np.ones(1), slopes=True)
        found, apart = (each.analyse(WEIGHTS, slopes=True) for each in (known, unknown))
        assert found.loss == pytest.approx(single.loss, abs=3e-4)
        assert apart.loss - single.loss > 6e-3
        vertex, further = (each.analyse(np.eye(3)[0], slopes=True) for each in (known, unknown))
        assert further.slopes[1] - further.slopes[0] > 4e-2
        if order < 2.0:
            assert vertex.slopes[1] == pytest.approx(vertex.slopes[0], abs=1e-4)
            assert np.linalg.norm(found.extra[:9]) == pytest.approx(np.linalg.norm(single.extra[:1]), rel=1e-3)
        else:  # Of first order: a row of its own leaves the trace, too, one of the others only what is alike.
            assert vertex.slopes[1] - vertex.slopes[0] < 0.65 * (further.slopes[1] - further.slopes[0])


@pytest.mark.parametrize("order", ORDERS)
def test_independent_samples_said_to_be_common_change_little(order: float):
    rows = drawn(13, (60, 60, 60))
    common = tuple({"features": each} for each in rows)
    plain, claimed = (objective(score(order), rows, None, each).analyse(WEIGHTS, slopes=True) for each in ((), common))
    error = math.sqrt(sum(float(each.var()) / 60 for each in plain.rows))
    assert claimed.loss == pytest.approx(plain.loss, abs=0.3 * error)


@pytest.mark.long
def test_the_correction_takes_back_weight_from_what_only_looks_new():
    metric = VendiScore(GaussianFourier.draw(3, 100, 0.7), 1.0)
    truth = objective(metric, drawn(9, (4000,) * 3, 0.0 * CENTRES))

    def excess(weights: Floats) -> float:
        return truth.analyse(weights).loss - truth.analyse(np.array([1.0, 0.0, 0.0])).loss

    corrected, published = list[float](), list[float]()
    for seed in range(4):
        found = objective(metric, drawn(20 + seed, (40, 40, 40), 0.0 * CENTRES))
        corrected.append(excess(minimise(found)))
        published.append(excess(minimise(found, published=True)))
    assert np.mean(corrected) < 0.5 * np.mean(published)


def test_errors_of_mixtures_are_right():
    """Root-mean-square z of the loss, of the gain and of the slacks, over repeats."""
    metric, weights, repeats, count = score(1.0, 48), WEIGHTS, 24, 60
    large = objective(metric, drawn(10, (10_000,) * 3))
    truth, alone = large.analyse(weights, slopes=True), large.analyse(np.eye(3)[0])
    expected = np.array([truth.loss, alone.loss - truth.loss, *(weights @ truth.slopes - truth.slopes)])
    found, errors = np.empty((repeats, 5)), np.empty((repeats, 5))
    for seed in range(repeats):
        mine = objective(metric, drawn(100 + seed, (count,) * 3))
        blend, single = mine.analyse(weights, slopes=True), mine.analyse(np.eye(3)[0])
        found[seed] = blend.loss, single.loss - blend.loss, *(weights @ blend.slopes - blend.slopes)
        slacks = [rows @ rows.new_tensor(weights)[:, None] - rows for rows in blend.slope_rows]
        columns = [
            torch.cat([rows[:, None], (other - rows)[:, None], slack], dim=1)
            for rows, other, slack in zip(blend.rows, single.rows, slacks, strict=True)
        ]
        variance = np.sum([(each.var(0) / count).numpy() for each in columns], axis=0)
        apart = single.extra - blend.extra
        variance[:2] += float(blend.extra @ blend.extra), float(apart @ apart)
        errors[seed] = np.sqrt(variance)
    z = np.sqrt(np.mean(np.square((found - expected) / errors), axis=0))
    assert ((z > 0.5) & (z < 1.45)).all(), z


def test_tiny_weights_are_sound():
    found = objective(score(1.0), drawn(12, (30, 30, 30)))
    tiny = found.analyse(np.array([1.0 - 2e-14, 1e-14, 1e-14]), slopes=True)
    assert tiny.loss == pytest.approx(found.analyse(np.array([1.0, 0.0, 0.0])).loss, abs=1e-9)
    assert np.abs(tiny.slopes).max() < 100.0


def test_what_has_no_mixtures_says_so():
    rows = drawn(13, (100, 100, 100))
    for metric in (VendiScore(GaussianFourier.draw(3, 32, 2.0), 1.0, 8), score(math.inf)):
        assert "mixtures" not in metric.offers
        with pytest.raises(ValueError, match="no score of mixtures"):
            objective(metric, rows)
    metric = VendiScore(GaussianFourier.draw(3, 16, 2.0), 1.0)
    without = [metric.statistic(halves=False) for _ in range(3)]
    for statistic, each in zip(without, drawn(14, (600, 600, 600)), strict=True):
        statistic.update(each)
    assert metric.objective(without).samples == (600, 600, 600)
    with pytest.raises(ValueError, match="halves=True"):
        metric.objective(without, 0)
