"""How much better than given weights others may be: against all moves on a grid, and all slacks in their box."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimist.numerics.mixtures.excess import CORNERS, ERRORS, bound_at, excess_bounds

SEEDS = st.integers(0, 10_000)


def simplex(count: int, parts: int) -> np.ndarray:
    """All weights in whole parts."""
    return np.array([each for each in product(range(parts + 1), repeat=count) if sum(each) == parts]) / parts


def problem(seed: int, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((count, rng.integers(1, count + 2)))
    slacks = 0.3 * rng.standard_normal(count)
    weights = rng.dirichlet(np.ones(count))
    return rows @ rows.T, weights, slacks - weights @ slacks, 0.2 * rng.random(count)


@given(SEEDS)
def test_no_move_gains_more_for_any_slacks_in_the_box(seed: int):
    curvature, weights, slacks, errors = problem(seed, 3)
    bounds = excess_bounds(curvature, weights, slacks, errors)
    moves = simplex(3, 24) - weights
    curved = np.einsum("si,ij,sj->s", moves, curvature, moves)
    rng = np.random.default_rng(seed)
    for z in (0.0, 0.7, 2.5, 4.0):
        reached = [
            (moves @ (slacks + z * errors * signs) - curved).max()
            for signs in (*product((-1.0, 1.0), repeat=3), *rng.uniform(-1.0, 1.0, (5, 3)))
        ]
        assert max(reached) <= bound_at(bounds, z) + 1e-9
        if z in ERRORS:
            # The grid's best move is at most so far from the best one.
            assert bound_at(bounds, z) <= max(0.0, *reached) + 0.2


@given(SEEDS)
def test_many_generators_have_a_bound_that_is_no_narrower(seed: int):
    count = CORNERS + 1
    curvature, weights, slacks, errors = problem(seed, count)
    curvature += 0.1 * np.eye(count)
    bounds = excess_bounds(curvature, weights, slacks, errors)
    rng = np.random.default_rng(seed)
    moves = rng.dirichlet(np.full(count, 0.5), 400) - weights
    curved = np.einsum("si,ij,sj->s", moves, curvature, moves)
    for z in (0.0, 1.5, 4.0):
        widest = moves @ slacks + z * np.abs(moves) @ errors - curved
        assert widest.max() <= bound_at(bounds, z) + 1e-9


@given(SEEDS)
def test_it_grows_with_z_and_is_convex(seed: int):
    bounds = np.array(excess_bounds(*problem(seed, 4)))
    rises = np.diff(bounds[:, 1]) / np.diff(bounds[:, 0])
    assert (rises >= -1e-9).all()
    assert (np.diff(rises) >= -1e-7).all()


def test_beyond_the_last_and_without_curvature_nothing_is_known():
    assert bound_at((), 1.0) == math.inf
    assert bound_at(((0.0, 1.0), (1.0, 2.0)), 1.5) == math.inf
    assert bound_at(((0.0, 1.0), (1.0, 2.0)), 0.5) == pytest.approx(1.5)
    count = CORNERS + 1
    assert excess_bounds(np.zeros((count, count)), np.full(count, 1 / count), np.zeros(count), np.ones(count)) == ()
