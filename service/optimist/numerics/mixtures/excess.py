"""By how much a blend may be worse than the best one, from what is known of the slope and curvature of the loss.

The slacks alone bound it (the duality gap), but linearly: each is known to 1/√n, while the excess of weights that are
off by 1/√n is of order 1/n. With the curvature K of the loss, moving from weights α to α' changes the loss by
−g·(α' − α) + (α' − α)ᵀK(α' − α), where g are the slacks, so that the excess is at most the largest gain of such a move
over all g that the errors allow.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product

import numpy as np

from optimist.numerics.mixtures.programme import least
from optimist.numerics.mixtures.quadratic import Floats, Quadratic

ERRORS = (0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0)
"""Numbers of standard errors at which the bound is kept."""
CORNERS = 6
"""Generators up to which all corners of the box of slacks are tried; beyond, a wider bound is taken."""
PARTS = (0.25, 0.5, 0.75, 0.95)
"""Parts of the least curvature that may pay for the errors."""
USUAL = 4.0
"""Standard errors for which the best of these parts is taken: about as many as the stopping rule asks for."""
Bounds = tuple[tuple[float, float], ...]


def excess_bounds(curvature: Floats, weights: Floats, slacks: Floats, errors: Floats) -> Bounds:
    """Pairs (z, bound) with rising z: the loss of a blend exceeds the least by at most `bound`, where every slack is
    within z standard errors. A convex function of z, so that the lines between the pairs bound it, too.

    curvature: K (G, G), positive semidefinite, half the second derivative of the loss by the weights; slacks, errors:
    (G,), in the unit of the loss. () where nothing is known of the curvature.
    """
    if len(weights) <= CORNERS:
        # The largest gain of a move is convex in g, hence reached at a corner of the box of slacks.
        corners = np.array(list(product((-1.0, 1.0), repeat=len(weights)))) * errors
        return tuple((z, max(_gain(curvature, weights, slacks + z * corner) for corner in corners)) for z in ERRORS)
    relaxed = list(_relaxed(curvature, weights, slacks, errors))
    if not relaxed:
        return ()
    fixed, growing = min(relaxed, key=lambda each: each[0] + USUAL**2 * each[1])
    return tuple((z, fixed + z**2 * growing) for z in ERRORS)


def bound_at(bounds: Bounds, z: float) -> float:
    """The bound at z ≥ 0, on the lines between the pairs; ∞ beyond the last."""
    if not bounds or z > bounds[-1][0]:
        return math.inf
    points, values = zip(*bounds, strict=True)
    return float(np.interp(z, points, values))


def _relaxed(curvature: Floats, weights: Floats, slacks: Floats, errors: Floats) -> Iterator[tuple[float, float]]:
    """Bounds as a + bz², as (a, b), by z·e|d| ≤ ρd² + (z·e)²/(4ρ): a part ρ of the curvature pays for the errors."""
    inside = np.eye(len(weights)) - 1.0 / len(weights)
    # The first eigenvalue is that of changing all weights alike, which no move between weights does.
    lowest = float(np.linalg.eigvalsh(inside @ curvature @ inside)[1])
    if lowest <= 0.0:
        return
    for part in PARTS:
        rho = part * lowest
        yield _gain(curvature - rho * inside, weights, slacks), float(np.square(errors).sum()) / (4.0 * rho)


def _gain(curvature: Floats, weights: Floats, slacks: Floats) -> float:
    """The largest g·d − dᵀKd over moves d from these weights to others, at least 0."""
    loss = Quadratic(curvature, -slacks - 2.0 * curvature @ weights, float((slacks + curvature @ weights) @ weights))
    return max(0.0, -loss.value(least(loss)))
