"""By how much another blend may be better than one whose weights were chosen by samples. Free of torch.

The duality gap alone, the largest slack, falls as slowly as its error does. What another blend gains falls with the
square of that error, as the loss is curved: here the curvature counts (docs/mixtures.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from optimist.numerics.mixtures.programme import least
from optimist.numerics.mixtures.quadratic import Floats, Quadratic

_PARTS = (0.9, 0.5)
"""Parts of the curvature that are set against errors; the best one is taken."""
_NULL = 1e-10
"""Eigenvalues of a curvature below this part of its largest count as 0."""


@dataclass(frozen=True, eq=False)
class Improvement:
    """What is known of steps from some weights (G,) to others. All is on one scale."""

    weights: Floats
    slacks: Floats
    """(G,): how fast the loss falls towards each generator alone."""
    errors: Floats
    """(G,): standard errors of the slacks."""
    covariance: Floats | None
    """(G, G): of the errors in the gradient, up to a number that all entries share; None: not known."""
    curvature: Floats
    """K (G, G): a step d adds dᵀKd to the loss beyond the first order; positive semidefinite."""

    def bound(self, z: float) -> float:
        """The most that another blend gains, at least 0, with the confidence of z standard errors for each slack.

        It is the least of two bounds. In the first, a step is made of parts c_i ≥ 0 towards each generator alone, and
        gains at most Σ c_i (slack_i + z error_i) − dᵀKd. It is narrow where a generator has no weight. In the second,
        steps between generators that have weight have an error by the covariance, at all of them at once.
        """
        ends = self.slacks + z * self.errors
        if ends.max() <= 0.0:
            return 0.0
        # Another row: to stay.
        steps = np.vstack([self._steps, np.zeros(len(ends))])
        found = _most(steps @ self.curvature @ steps.T, np.append(ends, 0.0))
        return max(0.0, min(found, self._jointly(z, ends)))

    @property
    def _steps(self) -> Floats:
        """(G, G): the step to each generator alone."""
        return np.eye(len(self.weights)) - self.weights

    def _jointly(self, z: float, ends: Floats) -> float:
        """The second bound, ∞ where the curvature does not limit a step.

        A step between those with weight is d; with probability as that of z it gains at most slack·d + r √(dᵀCd), r² a
        quantile of χ², for all d at once (Scheffé), and r √(dᵀCd) ≤ r²/(2t) + t dᵀCd/2 for every t.
        """
        has = self.weights > 0.0
        freedom = int(has.sum()) - 1
        if freedom < 1 or self.covariance is None:
            return math.inf
        radius = _quantile(freedom, z) if z > 0.0 else 0.0
        # Of weights α: the step between those with weight, and what is linear in the gain.
        between = np.where(np.outer(has, has), np.eye(len(has)) - np.outer(self.weights, has), 0.0)
        rates = np.where(has, between.T @ np.where(has, self.slacks, 0.0), ends)
        curved = self._steps @ self.curvature @ self._steps.T
        if radius == 0.0:
            return _most(curved, rates)
        spread = between.T @ self.covariance @ between
        limit = _largest(spread, curved)
        if limit == 0.0:
            return _most(curved, rates)
        tried = [part * 2.0 / limit for part in _PARTS] if math.isfinite(limit) else []
        return min(
            (_most(curved - 0.5 * t * spread, rates) + radius / (2.0 * t) for t in tried),
            default=math.inf,
        )


def _most(curved: Floats, rates: Floats) -> float:
    """The largest rateᵀα − αᵀ curved α over the simplex."""
    falling = Quadratic(curved, -rates)
    return -falling.value(least(falling))


def _largest(spread: Floats, curved: Floats) -> float:
    """The least s with spread ≤ s · curved as quadratic forms, both positive semidefinite; ∞ if there is none."""
    values, vectors = np.linalg.eigh(curved)
    is_flat = values <= _NULL * max(float(values[-1]), 0.0)
    inner = vectors.T @ spread @ vectors
    size = float(np.abs(inner).max())
    if size == 0.0:
        return 0.0
    if is_flat.all() or np.abs(inner[is_flat]).max(initial=0.0) > 1e-6 * size:
        return math.inf
    roots = np.sqrt(values[~is_flat])
    return float(np.linalg.eigvalsh(inner[np.ix_(~is_flat, ~is_flat)] / np.outer(roots, roots))[-1])


def _quantile(freedom: int, z: float) -> float:
    """That of χ² with the probability of z under the normal law (Wilson and Hilferty 1931)."""
    part = 2.0 / (9.0 * freedom)
    return freedom * max(1.0 - part + z * math.sqrt(part), 0.0) ** 3
