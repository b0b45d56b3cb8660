import math

import numpy as np
import pytest
import torch

from optimist.numerics.kernel.entropy import log_vendi, spectrum_of_rows
from optimist.numerics.spectra.effective_ridge import debiased_entropy

ORDERS = [0.2, 0.5, 0.9, 1.0 - 1e-6, 1.0, 1.0 + 1e-6, 1.1, 1.5, 1.9, 1.999]


@pytest.mark.parametrize("order", ORDERS)
def test_with_endless_samples_the_integrals_are_the_entropies(order):
    for shape in (np.arange(1.0, 41.0) ** -1.5, np.exp(-np.arange(12.0)), np.ones(5)):
        spectrum = torch.from_numpy(shape / shape.sum())
        found = debiased_entropy(spectrum, 10**12, len(spectrum), order)
        assert found.value == pytest.approx(log_vendi(spectrum, order), abs=1e-3)
        assert found.extrapolated == 0.0


def directions(seed: int, count: int, spectrum: np.ndarray) -> torch.Tensor:
    """Gaussian rows of this spectrum, scaled to norm 1."""
    rows = np.random.default_rng(seed).standard_normal((count, len(spectrum))) * np.sqrt(spectrum)
    return torch.from_numpy(rows / np.linalg.norm(rows, axis=1, keepdims=True))


@pytest.fixture(scope="module")
def spectrum() -> np.ndarray:
    return np.arange(1.0, 65.0) ** -0.7


@pytest.fixture(scope="module")
def true_eigenvalues(spectrum: np.ndarray) -> torch.Tensor:
    return spectrum_of_rows(directions(1000, 200_000, spectrum))


@pytest.mark.parametrize("count", [300, 70, 40])
@pytest.mark.parametrize("order", [0.5, 1.0, 1.5])
def test_the_bias_of_a_sample_is_taken_out(order, count, spectrum, true_eigenvalues):
    truth = log_vendi(true_eigenvalues, order)
    plain, repaired = [], []
    for seed in range(20):
        eigenvalues = spectrum_of_rows(directions(seed, count, spectrum))
        plain.append(log_vendi(eigenvalues, order) - truth)
        repaired.append(debiased_entropy(eigenvalues, count, 64, order).value - truth)
    assert abs(np.mean(repaired)) < 0.25 * abs(np.mean(plain))


@pytest.mark.parametrize("order", [0.5, 1.0, 1.5])
def test_below_the_grid_the_curve_is_a_power_law_that_ends_at_the_rank(order):
    count, rank = 12, 30
    eigenvalues = spectrum_of_rows(directions(0, count, np.arange(1.0, 31.0) ** -1.0))
    g = eigenvalues.numpy()

    def point(w: float) -> tuple[float, float]:
        return count / float(np.sum(1.0 / (g + w))), float(np.sum(g / (g + w)))

    grid = np.geomspace(g.min() * 1e-4, g.max() * 1e4, 161)
    curve = [point(w) for w in grid]
    start, full = curve[0]
    above, less = next(pair for pair in curve if pair[0] >= 4.0 * start)
    slope = min(max(math.log(full / less) / math.log(above / start), 0.0), 0.9)

    def freedom(x: float) -> float:
        return min(full * (start / x) ** slope, rank)

    bend = start * (full / rank) ** (1.0 / slope)
    from scipy.integrate import quad  # here, as it takes half a second

    tail = sum(
        quad(lambda x: x ** (order - 1.0) * freedom(x), low, high, epsabs=0.0, epsrel=1e-10)[0]
        for low, high in ((0.0, bend), (bend, start))
    )
    flat = full * start**order / order
    found = debiased_entropy(eigenvalues, count, rank, order)
    if order == 1.0:
        assert found.extrapolated == pytest.approx(tail - flat, rel=1e-8)
    else:
        scale = math.sin(math.pi * order) / math.pi
        trace = math.exp((1.0 - order) * found.value)
        without = math.log(trace - scale * (tail - flat)) / (1.0 - order)
        assert found.extrapolated == pytest.approx(found.value - without, rel=1e-8)
    assert found.extrapolated > 0.0


def test_samples_with_nothing_in_common_count_as_many_kinds_as_there_may_be():
    eigenvalues = torch.full((6,), 1.0 / 6.0, dtype=torch.float64)
    assert debiased_entropy(eigenvalues, 6, 50, 1.5).value == pytest.approx(math.log(50))
    for order in (0.5, 1.0):
        assert math.log(6) < debiased_entropy(eigenvalues, 6, 50, order).value < math.inf


@pytest.mark.parametrize("order", [0.0, -1.0, 2.0, math.inf, math.nan])
def test_other_orders_are_refused(order):
    with pytest.raises(ValueError, match="orders between 0 and 2"):
        debiased_entropy(torch.ones(3) / 3, 3, 3, order)
