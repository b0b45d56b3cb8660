"""The best weights of a mixture: a quadratic loss, programmes over the simplex, and convex programmes by a sequence of
these.

No number depends on a random choice.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Annotated, Protocol

import numpy as np
from numpy.typing import NDArray
from pydantic import PlainSerializer, PlainValidator

from optimist.arrays import Floats

StoredFloats = Annotated[Floats, PlainValidator(np.array), PlainSerializer(np.ndarray.tolist)]
"""Numbers stored in a record as lists."""


@dataclass(frozen=True, eq=False)
class Quadratic:
    """L(α) = αᵀKα + fᵀα + c of weights α (G,) that are at least 0 and sum to 1."""

    matrix: StoredFloats
    """K (G, G), symmetric."""
    linear: StoredFloats
    """f (G,)."""
    constant: float = 0.0

    def value(self, weights: Floats) -> float:
        """The loss L(α) at these weights."""
        return float(weights @ self.matrix @ weights + self.linear @ weights + self.constant)

    def gradient(self, weights: Floats) -> Floats:
        """The gradient 2Kα + f (G,)."""
        return 2.0 * (self.matrix @ weights) + self.linear

    def restricted_to(self, ordinals: Sequence[int]) -> Quadratic:
        """The loss of mixtures of only these generators."""
        chosen = np.asarray(ordinals, dtype=np.int64)
        return Quadratic(self.matrix[np.ix_(chosen, chosen)], self.linear[chosen], self.constant)


EXACT = 10
"""Generators up to which all supports are tried: 1023 small systems."""


class Modelled(Protocol):
    """The part of an `Objective` that weights are fitted by."""

    @property
    def samples(self) -> tuple[int, ...]:
        """Samples of each generator."""
        ...

    def model(self, weights: Floats, *, published: bool = False) -> Quadratic:
        """Second-order model at these weights, with the loss's value and gradient there."""
        ...


def best_weights(quadratic: Quadratic) -> Floats:
    """The weights (G,) of the least loss, at least 0, of sum 1. The matrix is positive semidefinite.

    Up to `EXACT` generators exact, by the KKT systems [2K 1; 1ᵀ 0] of all supports; a best support whose system is
    regular always exists, and the smallest is taken, the first of equals. Beyond, an accelerated projected gradient
    (Beck and Teboulle 2009, restarted as O'Donoghue and Candès 2015) finds the support, whose system is then solved.
    """
    count = len(quadratic.linear)
    if count == 1:
        return np.ones(1)
    centred = _centred(quadratic)
    if count <= EXACT:
        return _best_of(centred, _all_supports(centred))
    start = _descended(centred)
    support = np.flatnonzero(start > 0.0)
    return _best_of(centred, np.concatenate([start[None], _solved(centred, support[None])]))


def minimise(objective: Modelled, published: bool = False, models: int = 60) -> Floats:
    """The weights (G,) of least loss, at least 0, of sum 1, by sequential quadratic programming from uniform weights.

    The loss never rises on the way. One model and its check suffice where the model is exact. published: by the papers'
    biased estimates (`Objective.model`). models: the largest number of models that are asked for.
    """
    count = len(objective.samples)
    weights = np.full(count, 1.0 / count)
    model = objective.model(weights, published=published)
    value, asked = model.value(weights), 1
    while asked < models:
        way = best_weights(model) - weights
        slope = float(model.gradient(weights) @ way)
        # It ends at a duality gap, or a decrease, below this part of the loss.
        size = 1e-12 * (abs(value) + float(np.ptp(model.gradient(weights))))
        if -slope <= size:
            break
        length, accepted = 1.0, None
        while accepted is None and asked < models and length > 1e-6:
            tried = _normalised(weights + length * way)
            there = objective.model(tried, published=published)
            asked += 1
            reached = there.value(tried)
            if reached <= value + 1e-4 * length * slope:
                accepted = there, tried, reached
            else:
                # The minimum of the parabola through value, slope and the reached value.
                length *= min(max(-slope * length / (2.0 * (reached - value - slope * length)), 0.1), 0.5)
        if accepted is None:
            break
        decrease = value - accepted[2]
        model, weights, value = accepted
        if decrease <= size:
            break
    return weights


def on_simplex(point: Floats) -> Floats:
    """The nearest weights (G,) to any point (G,): at least 0, of sum 1 (sort-based; Duchi et al. 2008)."""
    falling = np.sort(point)[::-1]
    shifts = (np.cumsum(falling) - 1.0) / np.arange(1, len(point) + 1)
    last = int(np.flatnonzero(falling > shifts)[-1])
    return _normalised(point - shifts[last])


def _normalised(weights: Floats) -> Floats:
    """Without the negative parts that rounding leaves."""
    weights = np.where(weights > 0.0, weights, 0.0)
    return weights / weights.sum()


def _centred(quadratic: Quadratic) -> Quadratic:
    """The loss over the simplex but for a constant, with a matrix of order 1 whose rows sum to 0.

    The part that all entries of a row share is linear there. So kernels near 1 everywhere lose no digits.
    """
    matrix = 0.5 * (quadratic.matrix + quadratic.matrix.T)
    matrix = matrix - matrix[0, 0]
    means = matrix.mean(axis=0)
    within = matrix - means[:, None] - means[None, :] + means.mean()
    linear = quadratic.linear + 2.0 * means
    linear = linear - linear.min()
    size = float(np.abs(within).max()) or float(linear.max()) or 1.0
    return Quadratic(within / size, linear / size)


def _all_supports(quadratic: Quadratic) -> Floats:
    """The stationary weights (s, G) of each support, smaller supports first."""
    count = len(quadratic.linear)
    sizes = (_solved(quadratic, supports) for supports in _supports(count))
    return np.concatenate([np.eye(count), *sizes])


def _supports(count: int) -> Iterator[NDArray[np.int64]]:
    for size in range(2, count + 1):
        yield np.array(list(combinations(range(count), size)), dtype=np.int64)


def _solved(quadratic: Quadratic, supports: NDArray[np.int64]) -> Floats:
    """The feasible weights (s, G) that make the loss stationary on each support (s, k)."""
    count, size = supports.shape
    system = np.zeros((count, size + 1, size + 1))
    system[:, :size, :size] = 2.0 * quadratic.matrix[supports[:, :, None], supports[:, None, :]]
    system[:, size, :size] = system[:, :size, size] = 1.0
    right = np.ones((count, size + 1))
    right[:, :size] = -quadratic.linear[supports]
    values, vectors = np.linalg.eigh(system)
    is_null = np.abs(values) <= 1e-13 * np.abs(values).max(axis=1, keepdims=True)
    inverse = np.where(is_null, 0.0, 1.0 / np.where(is_null, 1.0, values))

    def times(inner: Floats) -> Floats:
        return np.einsum("sij,sj->si", vectors, inverse * np.einsum("sji,sj->si", vectors, inner))

    solution = times(right)
    solution += times(right - np.einsum("sij,sj->si", system, solution))
    parts = solution[:, :size]
    is_feasible = parts.min(axis=1) >= -1e-12
    weights = np.zeros((count, len(quadratic.linear)))
    np.put_along_axis(weights, supports, np.maximum(parts, 0.0), axis=1)
    weights = weights[is_feasible & (parts.sum(axis=1) > 0.5)]
    return weights / weights.sum(axis=1, keepdims=True)


def _best_of(quadratic: Quadratic, candidates: Floats) -> Floats:
    """The first of the candidates (s, G) whose loss is least, but for rounding."""
    losses = np.einsum("si,ij,sj->s", candidates, quadratic.matrix, candidates) + candidates @ quadratic.linear
    lowest = float(losses.min())
    return candidates[int(np.argmax(losses <= lowest + 1e-14 * (1.0 + abs(lowest))))]


def _descended(quadratic: Quadratic) -> Floats:
    """The accelerated projected gradient from uniform weights."""
    count = len(quadratic.linear)
    weights = ahead = np.full(count, 1.0 / count)
    rate, momentum = 1.0, 1.0
    value = quadratic.value(weights)
    for _ in range(20_000):  # accelerated, it needs tens to hundreds
        gradient, here = quadratic.gradient(ahead), quadratic.value(ahead)
        while True:
            tried = on_simplex(ahead - rate * gradient)
            step = tried - ahead
            reached = quadratic.value(tried)
            if reached <= here + gradient @ step + step @ step / (2.0 * rate) + 1e-15 * (1.0 + abs(here)):
                break
            rate *= 0.5
        if reached > value and momentum > 1.0:
            ahead, momentum = weights, 1.0
            continue
        moved, is_plain = float(np.abs(tried - weights).max()), momentum == 1.0
        following = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * momentum**2))
        ahead = tried + (momentum - 1.0) / following * (tried - weights)
        weights, value, momentum = tried, reached, following
        if moved < 1e-10:
            if is_plain:
                break
            # Momentum may hold it at a corner from which the gradient alone would lead on.
            ahead, momentum = weights, 1.0
    return weights
