"""The bound of what another mixture gains: it holds as often as it says, and falls with the squares of errors."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optimist.estimates.mixture import Improvement
from optimist.estimates.programme import Quadratic, best_weights


def loss_of(seed: int, count: int) -> Quadratic:
    rng = np.random.default_rng(seed)
    features = rng.standard_normal((count, count + 2))
    return Quadratic(features @ features.T / count, rng.normal(0.0, 1.0, count))


def known(loss: Quadratic, weights: np.ndarray, noise: np.ndarray, covariance: np.ndarray) -> Improvement:
    """What a gradient with this noise says of steps from these weights."""
    gradient = loss.gradient(weights) + noise
    steps = weights - np.eye(len(weights))
    errors = np.sqrt(np.einsum("ij,jk,ik->i", steps, covariance, steps))
    return Improvement(weights, float(weights @ gradient) - gradient, errors, covariance, loss.matrix)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 6), st.floats(0.0, 3.0))
def test_without_errors_it_is_what_the_best_mixture_gains(seed: int, count: int, z: float):
    loss = loss_of(seed, count)
    weights = np.random.default_rng(seed + 1).dirichlet(np.ones(count))
    exact = loss.value(weights) - loss.value(best_weights(loss))
    none = np.zeros((count, count))
    assert known(loss, weights, np.zeros(count), none).bound(z) == pytest.approx(exact, rel=1e-6, abs=1e-9)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 6), st.floats(0.0, 3.0))
def test_it_is_at_most_the_duality_gap_and_grows_with_the_confidence(seed: int, count: int, z: float):
    loss, rng = loss_of(seed, count), np.random.default_rng(seed)
    weights = rng.dirichlet(np.ones(count)) * (rng.random(count) < 0.7)
    weights = weights / weights.sum() if weights.any() else np.eye(count)[0]
    factor = rng.normal(0.0, 0.3, (count, count))
    found = known(loss, weights, factor @ rng.standard_normal(count), factor @ factor.T)
    gap = max(0.0, float((found.slacks + z * found.errors).max()))
    assert 0.0 <= found.bound(z) <= gap + 1e-9
    assert found.bound(z) <= found.bound(z + 0.5) + 1e-9


@pytest.mark.parametrize("count", [2, 4])
def test_it_holds_as_often_as_it_says_and_falls_with_the_squares_of_errors(count: int):
    """Weights fitted by one noisy gradient, and judged by another one."""
    rng = np.random.default_rng(count)
    bounds, missed, total = {0.1: [], 0.01: []}, 0, 0
    for trial in range(100):
        loss = loss_of(trial, count)
        lowest = loss.value(best_weights(loss))
        for size, found in bounds.items():
            factor = size * rng.normal(0.0, 1.0, (count, count))
            covariance = factor @ factor.T
            fitted = best_weights(Quadratic(loss.matrix, loss.linear + factor @ rng.standard_normal(count)))
            judged = known(loss, fitted, factor @ rng.standard_normal(count), covariance)
            bound = judged.bound(1.645)
            missed += loss.value(fitted) - lowest > bound + 1e-12
            total += 1
            found.append(bound)
    assert missed / total < 0.05 * (count - 1) + 3.0 * math.sqrt(0.05 / total)
    assert np.mean(bounds[0.01]) < 0.03 * np.mean(bounds[0.1])


def test_nothing_is_gained_where_every_slack_is_surely_negative():
    none = np.zeros((3, 3))
    found = Improvement(np.array([0.0, 1.0, 0.0]), np.array([-2.0, 0.0, -1.0]), np.array([0.2, 0.0, 0.2]), none, none)
    assert found.bound(3.0) == 0.0
    assert found.bound(6.0) == pytest.approx(0.2)


def test_without_curvature_and_covariance_it_is_the_duality_gap():
    found = Improvement(np.full(2, 0.5), np.array([0.1, -0.1]), np.array([0.2, 0.3]), None, np.zeros((2, 2)))
    assert found.bound(2.0) == pytest.approx(0.5)
