"""The mixture of some generators: what its halves say, that its numbers fit together, and that its errors are right."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from optimist.estimates.mixture import Mixture
from optimist.estimates.programme import Floats, Quadratic, best_weights, minimise
from optimist.metrics.feature_maps import GaussianFourier
from optimist.metrics.mixtures.cross_fitted import cross_fitted
from optimist.metrics.mixtures.objective import SharedChance
from optimist.metrics.vendi.score import RenyiKernelEntropy
from optimist.records import codec
from tests.support.streams import fed, rows_of

METRIC = RenyiKernelEntropy(GaussianFourier.draw(2, 20, 2.0))
NAMES = ("a", "b", "c", "d")


def made(rows: list[Tensor], common: Any = (), metric: Any = METRIC, **options: Any) -> Mixture:
    return cross_fitted(metric, [fed(metric, each, 10) for each in rows], NAMES[: len(rows)], common, **options)


def streams(seed: int, count: int, centres: Floats, spread: float = 1.0) -> list[Tensor]:
    return [
        torch.from_numpy(centre + spread * np.random.default_rng((seed, place)).standard_normal((count, 2)))
        for place, centre in enumerate(centres)
    ]


CENTRES = np.array([[0.0, 0.0], [3.0, 0.0], [0.0, 3.0]])


def test_weights_of_each_half_are_scored_by_the_other():
    rows = streams(0, 60, CENTRES)
    statistics = [fed(METRIC, each) for each in rows]
    halves = [METRIC.objective(statistics, half) for half in (0, 1)]
    weights = [minimise(half) for half in halves]
    losses = [halves[1].analyse(weights[0]), halves[0].analyse(weights[1])]
    mixture = made(rows)
    assert mixture.samples == (60, 60, 60)
    np.testing.assert_allclose(mixture.weights, (weights[0] + weights[1]) / 2, atol=1e-12)
    assert mixture.value == pytest.approx(-np.mean([found.loss for found in losses]), abs=1e-12)
    best = np.eye(3)[NAMES.index(mixture.best)]
    singles = [halves[1].analyse(best), halves[0].analyse(best)]
    gains = [single.loss - blend.loss for single, blend in zip(singles, losses, strict=True)]
    assert mixture.gain == pytest.approx(np.mean(gains), abs=1e-12)
    variances = [
        sum(float((one - other).var()) / n for one, other, n in zip(single.rows, blend.rows, half.samples, strict=True))
        for single, blend, half in zip(singles, losses, halves[::-1], strict=True)
    ]
    assert mixture.gain_error == pytest.approx(0.5 * np.sqrt(np.sum(variances)), rel=1e-9)
    slacks = [own @ found.slopes - found.slopes for own, found in zip(weights, losses, strict=True)]
    np.testing.assert_allclose(mixture.slacks, np.mean(slacks, axis=0), atol=1e-12)
    assert mixture.gap <= mixture.gap_bound(2.0)


def test_the_best_single_generator_is_that_of_the_estimates():
    for seed in range(5):
        rows = streams(seed, 30, CENTRES)
        estimates = [METRIC.analyse(fed(METRIC, each, 10)).estimate for each in rows]
        mixture = made(rows)
        assert mixture.best == NAMES[int(np.argmax(estimates))]
        assert mixture.best_value == pytest.approx(max(estimates), abs=1e-9)


def test_contributions_are_what_the_mixture_loses_without_each():
    mixture = made(streams(3, 80, np.array([*CENTRES, [0.2, 0.1]]), spread=0.7))
    model = mixture.model
    weights, lowest = best_weights(model), np.log(model.value(best_weights(model)))
    for place in range(4):
        others = model.restricted_to([other for other in range(4) if other != place])
        lost = np.log(others.value(best_weights(others))) - lowest
        assert mixture.contributions[place] == pytest.approx(lost, abs=1e-9)
    assert all(found == 0.0 for found, weight in zip(mixture.contributions, weights, strict=True) if weight == 0.0)
    assert max(mixture.contributions) > 0.1


def test_one_generator_is_its_own_mixture():
    rows = streams(0, 50, CENTRES[:1])
    mixture, estimate = made(rows), METRIC.analyse(fed(METRIC, rows[0], 10)).estimate
    assert mixture.weights == (1.0,)
    assert (mixture.gain, mixture.gain_error, mixture.gap, mixture.contributions) == (0.0, 0.0, 0.0, (0.0,))
    assert mixture.value == pytest.approx(estimate, abs=1e-9)
    assert mixture.best_value == pytest.approx(estimate, abs=1e-9)


def test_no_mixture_is_better_than_a_generator_that_covers_the_others():
    wide, narrow, near = rows_of(0, 200, 2) * 2.0, rows_of(1, 200, 2), rows_of(2, 200, 2, 0.3)
    mixture = made([narrow, wide, near])
    assert mixture.weights == (0.0, 1.0, 0.0)
    assert mixture.best == "b"
    assert (mixture.gain, mixture.gain_error) == (0.0, 0.0)
    assert mixture.gap < 1e-12
    assert mixture.gap_bound(2.0) >= mixture.gap


def test_equal_generators_gain_nothing():
    rows = rows_of(0, 100, 2)
    mixture = made([rows, rows.clone(), rows.clone()])
    assert mixture.is_sound()
    assert mixture.gain == pytest.approx(0.0, abs=3.0 * mixture.gain_error + 0.02)
    identical = made([torch.ones(8, 2, dtype=torch.float64)] * 2)
    assert (identical.value, identical.gain, identical.error) == pytest.approx((0.0, 0.0, 0.0), abs=1e-9)


def test_published_is_the_model_and_nothing_else():
    rows = streams(1, 40, CENTRES)
    ours, published = made(rows), made(rows, published=True)
    objective = METRIC.objective([fed(METRIC, each, 10) for each in rows])
    np.testing.assert_array_equal(published.model.matrix, objective.model(np.ones(3) / 3, published=True).matrix)
    np.testing.assert_array_equal(published.deviations, objective.deviations(best_weights(published.model)))
    assert codec.encode(replace(published, model=ours.model, deviations=ours.deviations)) == codec.encode(ours)


@settings(max_examples=15)
@given(st.integers(0, 10**6), st.integers(1, 4), st.integers(4, 45))
def test_mixtures_are_sound(seed: int, generators: int, count: int):
    rng = np.random.default_rng(seed)
    rows = streams(seed, count, 2.0 * rng.standard_normal((generators, 2)), float(rng.uniform(0.1, 3.0)))
    mixture = made(rows)
    assert mixture.is_sound()
    assert sum(mixture.weights) == pytest.approx(1.0, abs=1e-12)
    assert min(mixture.contributions) >= 0.0
    order = rng.permutation(generators)
    turned = made([rows[place] for place in order])
    assert turned.value == pytest.approx(mixture.value, abs=1e-6)
    np.testing.assert_allclose(turned.weights, np.array(mixture.weights)[order], atol=1e-5)
    assert ("fewer than 20" in " ".join(mixture.warnings)) == (count < 20)


def test_what_is_refused():
    rows = streams(0, 10, CENTRES)
    with pytest.raises(ValueError, match="at least 4 samples of each generator; fewer of b"):
        made([rows[0], rows[1][:3]])
    with pytest.raises(ValueError, match="one generator or more"):
        cross_fitted(METRIC, [], [])
    without = [METRIC.statistic(halves=False) for _ in range(2)]
    for statistic in without:
        statistic.update(rows_of(0, 41, 2))
    with pytest.raises(ValueError, match="halves=True"):
        cross_fitted(METRIC, without, NAMES[:2])


def test_shared_chance_is_that_of_the_sum():
    """Generators of equal counts with all indices in common: the variance of the mean of the sums, row by row."""
    rng = np.random.default_rng(0)
    seeds = rng.standard_normal((100, 1))
    influences = [torch.from_numpy(seeds * share + rng.standard_normal((100, 2))) for share in (0.5, -0.3, 1.0)]
    common = [{"features": each} for each in influences]
    shared = SharedChance.from_common((100, 100, 100), common)
    assert shared.share == 1.0
    expected = torch.stack(influences).sum(0).var(0).numpy() / 100
    np.testing.assert_allclose(shared.variances(influences, influences), expected, rtol=1e-9)
    alone = sum(each.var(0).numpy() for each in influences) / 100
    np.testing.assert_allclose(shared.variances(influences), alone, rtol=1e-12)
    np.testing.assert_allclose(shared.variances(influences, [influences[0], None, None]), alone, rtol=1e-12)
    # Of 400 samples each of which the first 256 are known, all are taken to have an index in common.
    assert SharedChance.from_common((400, 900), [{"x": torch.zeros(256, 1)}] * 2).share == 1.0
    assert SharedChance.from_common((400, 900), [{"x": torch.zeros(128, 1)}] * 2).share == 0.5
    assert SharedChance.from_common((400, 900), ()).share == 0.0


# Are errors right? Normal laws in the plane, for which 1/RKE by random features is known in closed form.


def moment(centre: Floats, spread: float) -> Floats:
    """E φφᵀ over N(centre, spread² I): by the characteristic function at sums and differences of frequencies."""
    omegas = METRIC.feature_map.tensors()[0].numpy().T

    def at(frequencies: Floats) -> Any:
        return np.exp(1j * frequencies @ centre - 0.5 * spread**2 * np.square(frequencies).sum(-1))

    plus, minus = at(omegas[:, None] + omegas), at(omegas[:, None] - omegas)
    mixed = 0.5 * (plus.imag + minus.imag)
    return np.block([[0.5 * (minus.real + plus.real), mixed.T], [mixed, 0.5 * (minus.real - plus.real)]]) / len(omegas)


def loss_of(centres: Floats, spread: float) -> Quadratic:
    moments = [moment(centre, spread) for centre in centres]
    return Quadratic(np.array([[(one * other).sum() for one in moments] for other in moments]), np.zeros(len(moments)))


@pytest.mark.long
@pytest.mark.parametrize(("count", "shared"), [(30, 0.7), (120, 0.0)])
def test_errors_of_mixtures_are_right(count: int, shared: float):
    """Root mean square z of value, gain and slacks over 40 mixtures, independent or of the same seeds."""
    centres = np.array([[0.0, 0.0], [2.5, 0.0], [0.5, 2.0]])
    truth = loss_of(centres, 1.0)
    found = []
    for seed in range(40):
        rng = np.random.default_rng((seed, count))
        same = rng.standard_normal((count, 2))
        rows = [
            torch.from_numpy(centre + shared**0.5 * same + (1.0 - shared) ** 0.5 * rng.standard_normal((count, 2)))
            for centre in centres
        ]
        mixture = made(rows, [{"features": each} for each in rows] if shared else ())
        weights = np.array(mixture.weights)
        loss, best = np.log(truth.value(weights)), NAMES.index(mixture.best)
        slopes = truth.gradient(weights) / truth.value(weights)
        gain = np.log(truth.matrix[best, best]) - loss
        slacks = (np.array(mixture.slacks) - (weights @ slopes - slopes)) / np.array(mixture.slack_errors)
        found.append([(mixture.value + loss) / mixture.error, (mixture.gain - gain) / mixture.gain_error, *slacks])
    z = np.sqrt(np.square(found).mean(0))
    # 40 mixtures know a root mean square to 11 %.
    assert (z > 0.6).all()
    assert (z < 1.35).all()
