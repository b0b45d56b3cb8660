"""Arms with pairings made by hand, and the formulas of a contrast written out for two of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from optimist.estimates.estimate import Estimate
from optimist.estimates.pairing import COMMON, Earlier, Pairing
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
    return Pairing(row, first, told=fields.pop("told", (0, n)), **fields)  # pyright: ignore[reportArgumentType]


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
    sides = [Side.of(a, kind), Side.of(b, kind)]
    one, other = sides
    m = len(one.told & other.told)
    o = m / math.sqrt(one.n * other.n) if rho >= 0.0 else math.sqrt(min(one.n, other.n) / max(one.n, other.n))
    rho_e = _effective(rho, one.first, other.first, o)
    difference, variance = one.loss - other.loss, one.s**2 + other.s**2 - 2.0 * rho_e * one.s * other.s
    systematic = one.y**2 + other.y**2
    is_signed = one.sign * other.sign != 0
    if is_signed:
        systematic -= 2.0 * max(rho, 0.0) * o * one.sign * one.y * other.sign * other.y
    lacks, is_linear = any(side.told != {*range(side.n)} for side in sides), min(one.first, other.first) > 0.0
    if rho > 0.0 and m >= 10 and lacks and is_linear:
        difference, first, second = by_common_indices(one, other, rho, m)
        variance = first + second
        if one.sign * one.y * other.sign * other.y != 0.0:
            systematic = (1.0 - rho * o) * (one.y**2 + other.y**2)
    elif rho > 0.0 and one.n != other.n and not lacks:
        small, big = sorted(sides, key=lambda side: side.n)
        before = [past for past in big.history if 2 <= past.samples <= small.n]
        if before:
            past, by = before[-1], 1.0 if a.lower_is_better else -1.0
            h = past.variance * big.s**2 / big.select**2
            r = _effective(rho, small.first, past.first_order, math.sqrt(past.samples / small.n))
            beta = r * small.select / math.sqrt(past.variance)
            difference = small.loss + beta * (big.loss - by * past.value) - big.loss
            difference *= 1.0 if small is one else -1.0
            variance = (
                small.s**2 + big.s**2 + beta**2 * max(h - big.s**2, 0.0) - 2.0 * beta * r * small.s * math.sqrt(h)
            )
            variance = max(variance + 2.0 * (beta - 1.0) * rho_e * small.s * big.s, 0.5 * (1.0 - r * r) * small.s**2)
            if is_signed:
                then = past.systematic * big.y / big.y_stop if big.y_stop else 0.0
                mine, theirs = small.sign * small.y, big.sign * big.y + beta * (then - big.sign * big.y)
                alike = rho * math.sqrt(past.samples / small.n)
                if mine and big.y:
                    systematic = mine**2 + theirs**2 - 2.0 * alike * mine * theirs
    return difference, max(variance, 0.0) + systematic, rho_e


def _effective(rho: float, f_a: float, f_b: float, o: float) -> float:
    return rho * math.sqrt(f_a * f_b) * o + rho * abs(rho) * math.sqrt((1.0 - f_a) * (1.0 - f_b)) * o * o


def by_common_indices(a: Side, b: Side, rho: float, m: int, level: bool = True) -> tuple[float, float, float]:
    """The difference without the unshared samples, and its variance of first and second order.

    The first one is made of the covariances of e_a, e_b, u_a and u_b. level: as if both were linearised at the same
    samples, by the part of the covariance of influences that their pairs with unshared samples lack.
    """
    known = [[i for i in one.influence if i not in other.told] for one, other in ((a, b), (b, a))]
    q = [len(each) / side.n for each, side in zip(known, (a, b), strict=True)]

    def covariances(v_a: float, v_b: float, rho: float) -> np.ndarray:
        c = rho * math.sqrt(v_a * v_b)
        of_u = [v * part * (1.0 - part) * side.n / m**2 for v, part, side in zip((v_a, v_b), q, (a, b), strict=True)]
        return np.array(
            [
                [v_a / a.n, c * m / (a.n * b.n), 0.0, c * q[1] / a.n],
                [c * m / (a.n * b.n), v_b / b.n, c * q[0] / b.n, 0.0],
                [0.0, c * q[0] / b.n, of_u[0], c * q[0] * q[1] / m],
                [c * q[1] / a.n, 0.0, c * q[0] * q[1] / m, of_u[1]],
            ]
        )

    # D = e_a − e_b + λ_a u_a − λ_b u_b has the least variance where its covariances with u_a and u_b are 0.
    select = covariances(a.first * a.select**2 * a.n, b.first * b.select**2 * b.n, rho)
    signs = np.array([1.0, -1.0])
    taken = np.linalg.lstsq(select[2:, 2:] * signs, -select[2:, :2] @ signs)[0]
    moved = []
    for side, each in zip((a, b), known, strict=True):
        mean = float(np.mean([*side.influence.values()]))
        moved.append(-sum(side.influence[i] - mean for i in each) / m)
    v_a, v_b = (side.first * side.s**2 * side.n for side in (a, b))
    weights = np.array([1.0, -1.0, taken[0], -taken[1]])
    curved_a, curved_b = ((1.0 - side.first) * side.s**2 for side in (a, b))
    lacking = 2.0 * rho**2 * math.sqrt(curved_a * curved_b) * (math.sqrt(a.n * b.n) - m)
    raised = min(rho + lacking / math.sqrt(v_a * v_b), 0.9999) if level else rho
    first = weights @ covariances(v_a, v_b, raised) @ weights
    second = _second_order((a, b), known, m, taken.tolist(), raised, (curved_a, curved_b))
    difference = a.loss - b.loss + taken[0] * moved[0] - taken[1] * moved[1]
    return difference, max(first, 0.25 * (1.0 - rho**2) * (v_a / a.n + v_b / b.n)), second


def _second_order(
    sides: Sequence[Side], known: list[list[int]], m: int, taken: list[float], rho: float, curved: Sequence[float]
) -> float:
    """Its variance, pair by pair: e has Σ_ij h(i, j)/n², and the influence of j is 2 Σ_i h(i, j)/n."""
    (a, b), pairs = sides, list[np.ndarray]()
    for side, each, part in zip(sides, known, taken, strict=True):
        # u = Σ_j of_u[j] IF(j): the unshared ones minus as many times the mean. Unknown ones are last.
        of_u = np.full(side.n, len(each) / (m * side.n))
        of_u[m : m + len(each)] -= 1.0 / m
        pairs.append(1.0 / side.n**2 + part * (of_u[:, None] + of_u) / side.n)
    squares = [c * side.n**2 * np.square(of).sum() for c, side, of in zip(curved, sides, pairs, strict=True)]
    shared = (pairs[0][:m, :m] * pairs[1][:m, :m]).sum() * a.n * b.n
    return float(max(sum(squares) - 2.0 * rho**2 * math.sqrt(curved[0] * curved[1]) * shared, 0.0))


@dataclass(frozen=True)
class Side:
    """One of two estimates, with its errors of one kind; influences are on the loss, by index."""

    n: int
    told: set[int]
    loss: float
    influence: dict[int, float]
    select: float
    s: float
    y: float
    y_stop: float
    sign: int
    first: float
    history: Sequence[Earlier]

    @classmethod
    def of(cls, e: Estimate, kind: str) -> Side:
        p, by = e.pairing, 1.0 if e.lower_is_better else -1.0
        assert p is not None
        assert e.standard_error is not None
        assert e.stopping_error is not None
        select = math.sqrt(e.standard_error**2 - p.systematic_selection**2)
        stop = math.sqrt(e.stopping_error**2 - p.systematic_stopping**2)
        s, y = (select, p.systematic_selection) if kind == "selection" else (stop, p.systematic_stopping)
        values = [*enumerate(p.influence.tolist()), *zip(within(p.later_told), p.later.tolist(), strict=True)]
        influence = {i: by * value for i, value in values if not math.isnan(value)}
        return cls(
            e.samples,
            {*within(p.told)},
            by * e.value,
            influence,
            select,
            s,
            y,
            p.systematic_stopping,
            p.systematic_sign,
            p.first_order,
            p.history,
        )


def within(told: Sequence[int]) -> list[int]:
    """The indices of these intervals."""
    return [i for start, end in zip(told[::2], told[1::2], strict=True) for i in range(start, end)]
