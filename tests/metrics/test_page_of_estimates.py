"""FID's estimate and the stopping rule, written from docs/rules/estimates.md and docs/rules/stopping.md alone."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
import pytest
from numpy.typing import NDArray

import optimist
from optimist.estimates.estimate import Estimate
from optimist.policies import Arm, Stopping

Array = NDArray[np.float64]


def fid(rows: Array, mean: Array, covariance: Array) -> tuple[float, float]:
    """The first block of the page on estimates, line by line, and what it calls `extrapolated`."""
    n, m = len(rows), len(rows) - 1
    rho, vectors = np.linalg.eigh(covariance)
    kept = rho > 1e-10 * rho[-1]
    rho, vectors = rho[kept], vectors[:, kept]
    few = n <= len(rho)
    y = rows - rows.mean(0)
    z = y @ vectors * np.sqrt(rho)
    k = min(m, len(rho))
    g, basis = np.linalg.eigh(z @ z.T / m if few else z.T @ z / m)
    g, basis = g[::-1][:k], basis[:, ::-1][:, :k]
    g = np.maximum(g, 1e-12 * g[0])
    shares = basis**2 if few else (z[-512:] @ basis) ** 2 / (m * g)
    w = np.exp(np.linspace(math.log(g[-1] * (1e-3 if k < m else 1e-4)), math.log(1e4 * g[0]), 161))
    held, free = g[:, None] / (g[:, None] + w), w / (g[:, None] + w)
    leverage, v = shares @ held, shares @ (held * free)
    r = np.maximum(shares @ free, 1e-15) if few else np.maximum(1 - 1 / n - leverage, 1e-9)
    d = held.sum(0) - (v / r).mean(0)
    x = np.maximum.accumulate(w * (leverage / r).mean(0) / leverage.mean(0))
    below = 2 * d[0] * math.sqrt(x[0])
    if few:
        low, high = -100.0, 100.0  # log c, by bisection
        for middle in ((low + high) / 2 for _ in range(200)):
            low, high = (middle, high) if (rho**2 / (rho**2 + math.exp(middle))).sum() > d[0] else (low, middle)
        c = math.exp(low)
        below = math.sqrt(x[0] / c) * (2 * rho * np.arctan(math.sqrt(c) / rho)).sum()
    root = (below + np.trapezoid(np.sqrt(x) * d, np.log(x)) + 2 * d[-1] * math.sqrt(x[-1])) / math.pi
    trace = (y**2).sum() / m
    value = ((rows.mean(0) - mean) ** 2).sum() + trace * (1 - 1 / n) + np.trace(covariance) - 2 * root
    return float(value), 2 * (below - 2 * d[0] * math.sqrt(x[0])) / math.pi


def fid_errors(rows: Array, mean: Array, covariance: Array) -> tuple[float, float]:
    """The block on the errors of FID: sd_select, and sd_stop without u, of up to 256 rows that differ."""
    n, m = len(rows), len(rows) - 1
    rho, vectors = np.linalg.eigh(covariance)
    kept = rho > 1e-10 * rho[-1]
    rho, vectors = rho[kept], vectors[:, kept]
    y = rows - rows.mean(0)
    z = y @ vectors * np.sqrt(rho)
    moment = z.T @ z / m
    c, a = np.trace(moment) / (rho**2).sum(), min(1.0, len(rho) / n)
    squares, basis = np.linalg.eigh((1 - a) * moment + a * c * np.diag(rho**2))
    kept = squares > 1e-9 * squares[-1]
    s = np.sqrt(squares[kept])
    influence = 2 * y @ (rows.mean(0) - mean) + (y**2).sum(1) - ((z @ basis[:, kept]) ** 2 / s).sum(1)
    square, trace = ((y.T @ y / m) ** 2).sum(), (y**2).sum() / m
    pairs = (np.outer(s, s) / np.add.outer(s, s)) ** 2
    v2 = 2 * max(square - trace**2 / n, square / 20) + pairs.sum()
    plain = (influence.var(ddof=1) / n + v2 / n**2) * (1 + 20 / n)
    q = n if n <= 100 else max(size for size in (100, 120, 144, 173, 208, 250, 300) if size <= n)
    groups = min(10, q)
    left = [fid(rows[:q][np.arange(q) % groups != group], mean, covariance)[0] for group in range(groups)]
    jackknife = (groups - 1) * np.var(left) * q / n
    extrapolated = fid(rows, mean, covariance)[1]
    centred = influence - influence.mean()
    widened = 1 + 10 * ((centred**3).mean() / (centred**2).mean() ** 1.5) ** 2 / n
    stopping = widened * (plain + jackknife) / 2 + (0.05 * extrapolated) ** 2
    return math.sqrt(plain + (0.02 * extrapolated) ** 2), math.sqrt(stopping)


def stops(
    values: Array, errors: Array, samples: NDArray[np.int64], told: int, delta: float, tolerance: float
) -> tuple[bool, float]:
    """The first block of the page on stopping: whether it is decided, and the confidence."""
    best = int(values.argmin())
    rivals = np.arange(len(values)) != best
    z = ((values - values[best] + tolerance) / np.sqrt(errors[best] ** 2 + errors**2))[rivals].min()
    level = max(3.0, 1.25 * (len(values) - 1)) * (1 + math.log(max(told, 1)))
    decided = z > NormalDist().inv_cdf(1 - delta / level) and samples.min() >= 20
    return bool(decided), min(1.0, max(0.0, 1 - level * (1 - NormalDist().cdf(z))))


def drawn(n: int, rank: int) -> tuple[Array, Array, Array]:
    """Rows (n, 32) of unequal length, and a reference of this rank."""
    rng = np.random.default_rng(n)
    scales = np.arange(1, 33) ** -0.7 * (np.arange(32) < rank)
    real = rng.standard_normal((500, 32)) * scales
    rows = rng.standard_normal((n, 32)) * scales * rng.uniform(0.5, 1.5, (n, 1)) + 0.1
    return rows, real.mean(0), np.cov(real.T)


# With one row more than the rank, r_i is a difference of nearly equal numbers, and rounding is larger than 1e-9.
@pytest.mark.parametrize("n", [2, 3, 20, 31, 32, 34, 100, 700])
@pytest.mark.parametrize("rank", [32, 20])
def test_fid_is_what_the_page_says(n: int, rank: int):
    rows, *reference = drawn(n, rank)
    estimate = optimist.score(rows, "fid", reference=(reference[0], reference[1]))
    assert estimate.value == pytest.approx(fid(rows, *reference)[0], rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("n", [20, 60, 200, 256])
def test_the_errors_of_fid_are_what_the_page_says(n: int):
    rows, *reference = drawn(n, 32)
    estimate = optimist.score(rows, "fid", reference=(reference[0], reference[1]))
    selection, stopping = fid_errors(rows, *reference)
    assert estimate.standard_error == pytest.approx(selection, rel=1e-9)
    if n > 32:  # u is 0
        assert estimate.stopping_error == pytest.approx(stopping, rel=1e-9)
    else:
        assert estimate.stopping_error is not None
        assert estimate.stopping_error > stopping


def test_the_stopping_rule_is_what_the_page_says():
    rng = np.random.default_rng(0)
    outcomes: set[bool] = set()
    for _ in range(300):
        count, told = int(rng.integers(2, 12)), int(rng.integers(1, 500))
        values, errors = rng.normal(0, 1, count), rng.uniform(0.01, 0.3, count)
        samples = rng.integers(15, 400, count) if rng.random() < 0.3 else rng.integers(20, 400, count)
        delta, tolerance = float(rng.choice([0.01, 0.05, 0.2])), float(rng.choice([0.0, 0.1]))
        arms = [
            Arm(
                str(place),
                Estimate(value, value, size, value - 1, value + 1, value, error, error, "linear", True),
                size,
            )
            for place, (value, error, size) in enumerate(
                zip(values.tolist(), errors.tolist(), samples.tolist(), strict=True)
            )
        ]
        found = Stopping(delta, tolerance).decide(arms, told)
        decided, confidence = stops(values, errors, samples, told, delta, tolerance)
        assert found.decided == decided
        assert found.confidence == pytest.approx(confidence, rel=1e-9, abs=1e-9)
        outcomes.add(decided)
    assert outcomes == {True, False}
