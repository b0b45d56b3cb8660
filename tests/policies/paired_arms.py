"""Arms with pairings made by hand, and the formulas of a contrast written out for two of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from optimist.numerics.estimate import Estimate
from optimist.numerics.pairing import COMMON, Earlier, Pairing
from optimist.policies import Arm


def estimate(
    value: float,
    select: float,
    stop: float,
    n: int,
    pairing: Pairing | None = None,
    lower_is_better: bool = True,
) -> Estimate:
    """An estimate with these errors."""
    return Estimate(
        value, value, n, value - 1.0, value + 1.0, value, select, stop, "linear", lower_is_better, pairing=pairing
    )


def pairing(influence: Any, n: int, first: float = 1.0, **fields: Any) -> Pairing:
    """A pairing of samples 0 … n − 1; `influence` has up to 256 values."""
    row = np.full(COMMON, np.nan)
    row[: len(influence)] = influence
    return Pairing(row, first, end=fields.pop("end", n), **fields)  # pyright: ignore[reportArgumentType]


def correlated(rho: float, m: int = COMMON, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Two vectors of influences with exactly this ρ_L."""
    draws = np.random.default_rng(seed).standard_normal((m, 2))
    one, other = np.linalg.qr(draws - draws.mean(axis=0))[0].T
    r = math.copysign(math.tanh(math.atanh(abs(rho)) + 1.0 / math.sqrt(m - 3)), rho) if rho else 0.0
    return one, r * one + math.sqrt(1.0 - r * r) * other


def arm(name: str, made: Estimate, pending: int = 0) -> Arm:
    """An arm that has told what was scored, in batches of 5."""
    return Arm(name, made, made.samples, made.samples // 5, pending, pending // 5)


def written_out(a: Estimate, b: Estimate, rho: float, kind: str) -> tuple[float, float, float]:
    """Difference of losses, its variance and ρ_e of two paired estimates."""
    sides = [_side(a, kind), _side(b, kind)]
    (n_a, end_a, loss_a, _, s_a, y_a, f_a, free_a, _), (n_b, end_b, loss_b, _, s_b, y_b, f_b, free_b, _) = sides
    common = max(0, min(n_a, n_b, n_a - free_a + n_b - free_b - max(end_a, end_b)))
    o = common / math.sqrt(n_a * n_b) if rho >= 0.0 else math.sqrt(min(n_a, n_b) / max(n_a, n_b))
    rho_e = _effective(rho, f_a, f_b, o)
    difference, variance = loss_a - loss_b, s_a**2 + s_b**2 - 2.0 * rho_e * s_a * s_b
    sign, small, big = (1.0, *sides) if n_a < n_b else (-1.0, *reversed(sides))
    n, _, e_s, select_s, s_s, _, f_s, _, _ = small
    _, _, e_b, select_b, s_big, _, _, _, trail = big
    before = [past for past in trail if 2 <= past.samples <= n]
    whole = all(end == count and not free for count, end, *_, free, _ in sides)
    if rho > 0.0 and n_a != n_b and whole and before:
        past, by = before[-1], 1.0 if a.lower_is_better else -1.0
        h = past.variance * s_big**2 / select_b**2
        r = _effective(rho, f_s, past.first_order, math.sqrt(past.samples / n))
        beta = r * select_s / math.sqrt(past.variance)
        difference = sign * (e_s + beta * (e_b - by * past.value) - e_b)
        variance = s_s**2 + s_big**2 + beta**2 * max(h - s_big**2, 0.0) - 2.0 * beta * r * s_s * math.sqrt(h)
        variance = max(variance + 2.0 * (beta - 1.0) * rho_e * s_s * s_big, 0.5 * (1.0 - r * r) * s_s**2)
    return difference, max(variance, 0.0) + y_a**2 + y_b**2, rho_e


def _effective(rho: float, f_a: float, f_b: float, o: float) -> float:
    return rho * math.sqrt(f_a * f_b) * o + rho * abs(rho) * math.sqrt((1.0 - f_a) * (1.0 - f_b)) * o * o


def _side(e: Estimate, kind: str) -> tuple[int, int, float, float, float, float, float, int, Sequence[Earlier]]:
    p, by = e.pairing, 1.0 if e.lower_is_better else -1.0
    assert p is not None
    assert e.standard_error is not None
    assert e.stopping_error is not None
    select = math.sqrt(e.standard_error**2 - p.systematic_selection**2)
    stop = math.sqrt(e.stopping_error**2 - p.systematic_stopping**2)
    s, y = (select, p.systematic_selection) if kind == "selection" else (stop, p.systematic_stopping)
    return e.samples, p.end, by * e.value, select, s, y, p.first_order, p.unindexed, p.trail
