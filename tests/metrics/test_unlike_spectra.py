"""FID below the reference's rank, of generators whose spectrum is not the reference's, or whose rows repeat."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from optimist import score
from optimist.estimates.estimate import Estimate
from optimist.metrics.spectra.leave_one_out import LeaveOneOutCurve, unlike

RANK = 64
WEIGHTS = 1.0 / np.arange(1.0, RANK + 1.0)
REFERENCE = np.zeros(RANK), np.diag(WEIGHTS)
FLAT = np.full(RANK, WEIGHTS.mean())


def drawn(seed: int, variances: np.ndarray, count: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((count, RANK)) * np.sqrt(variances)


def curve(variances: np.ndarray, start: float) -> LeaveOneOutCurve:
    """The curve of a population with these eigenvalues of M, whose tail below `start` is that by the reference."""
    x = torch.from_numpy(np.geomspace(start, 1e4, 600))
    freedom = torch.from_numpy((variances / (variances + x.numpy()[:, None])).sum(1))
    below = torch.tensor(tail_by(WEIGHTS, 1.0, float(freedom[0]), start))
    return LeaveOneOutCurve(x, x, freedom, x, below, 2.0 * freedom[0] * x[0].sqrt())


def scale_of(shape: np.ndarray, full: float) -> float:
    low, high = -80.0, 80.0
    for _ in range(200):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if (shape / (shape + math.exp(middle))).sum() > full else (low, middle)
    return math.exp(low)


def tail_by(weights: np.ndarray, power: float, full: float, start: float) -> float:
    eigenvalues = weights ** (2.0 * power) * start / scale_of(weights ** (2.0 * power), full)
    return float((2.0 * np.sqrt(eigenvalues) * np.arctan(np.sqrt(start / eigenvalues))).sum())


@pytest.mark.parametrize("power", [0.5, 0.8, 1.0, 1.3])
def test_the_spectrum_that_fits_gives_the_change_of_the_trace(power: float):
    start = 0.01
    found = curve(0.3 * WEIGHTS ** (2.0 * power), start)
    full = float(found.freedom[0])
    expected = (tail_by(WEIGHTS, power, full, start) - tail_by(WEIGHTS, 1.0, full, start)) / math.pi
    assert unlike(found, torch.from_numpy(WEIGHTS)) == pytest.approx(expected, rel=0.02, abs=1e-6)
    assert (abs(expected) < 1e-9) == (power == 1.0)


def streams(variances: np.ndarray, count: int, distinct: int | None = None) -> tuple[float, list[Estimate]]:
    """The truth, and estimates of 40 streams of so many samples; distinct: of a population of so many rows."""
    if distinct is None:
        truth = float((variances + WEIGHTS - 2.0 * np.sqrt(variances * WEIGHTS)).sum())
        return truth, [score(drawn(seed, variances, count), "fid", reference=REFERENCE) for seed in range(40)]
    rows = drawn(0, variances, distinct)
    root = np.sqrt(WEIGHTS)[:, None] * np.cov(rows.T, bias=True) * np.sqrt(WEIGHTS)
    shared = np.sqrt(np.linalg.eigvalsh(root).clip(0.0)).sum()
    truth = float(np.square(rows.mean(0)).sum() + rows.var(0).sum() + WEIGHTS.sum() - 2.0 * shared)
    places = [np.random.default_rng(seed).integers(0, distinct, count) for seed in range(40)]
    return truth, [score(rows[place], "fid", reference=REFERENCE) for place in places]


@pytest.mark.parametrize(
    ("count", "distinct", "named"),
    [
        pytest.param(12, None, "spectrum", marks=pytest.mark.long),
        pytest.param(40, 40, "rows repeat", marks=pytest.mark.long),
        (80, 40, "rows repeat"),
    ],
)
def test_intervals_hold_there_and_estimates_name_the_reason(count: int, distinct: int | None, named: str):
    variances = FLAT if distinct is None else WEIGHTS
    truth, found = streams(variances, count, distinct)
    assert np.mean([one.lower <= truth <= one.upper for one in found]) >= 0.9
    assert np.mean([any(named in text for text in one.warnings) for one in found]) >= 0.9


@pytest.mark.long
def test_nothing_is_named_where_the_spectrum_is_the_references():
    truth, found = streams(1.2 * WEIGHTS, 40)
    assert np.mean([one.lower <= truth <= one.upper for one in found]) >= 0.9
    assert not any("spectrum" in text or "repeat" in text for one in found for text in one.warnings)
