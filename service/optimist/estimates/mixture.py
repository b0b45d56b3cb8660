"""Bound on the improvement of any other mixture over the best known mixture of some generators.

The duality gap alone, the largest slack, falls as slowly as its error. The gain of another mixture falls with the
square of this error, as the loss is curved: `Improvement` takes the curvature into account (docs/mixtures.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from optimist.estimates.estimate import Scale, natural
from optimist.estimates.programme import Floats, Quadratic, best_weights


@dataclass(frozen=True, eq=False)
class Improvement:
    """The gains of steps from some weights (G,) to others, with their errors. All is on one scale."""

    weights: Floats
    slacks: Floats
    """(G,): how fast the loss falls towards each generator alone."""
    errors: Floats
    """Gains of steps from some weights (G,) to others, with their errors. All is on one scale."""
    covariance: Floats | None
    """(G, G): of the errors in the gradient, up to a number that all entries share; None: not known."""
    curvature: Floats
    """K (G, G): a step d adds dᵀKd to the loss beyond the first order; positive semidefinite."""

    def bound(self, z: float) -> float:
        """The maximum gain of another mixture, at least 0, with the confidence of z standard errors for each slack.

        The smaller of two bounds. In the first, a step is made of parts c_i ≥ 0 towards each generator alone, and
        gains at most Σ c_i (slack_i + z error_i) − dᵀKd. It is narrow where a generator has no weight. In the second,
        steps between generators with weight have an error by the covariance, for all such steps at once.
        """
        ends = self.slacks + z * self.errors
        if ends.max() <= 0.0:
            return 0.0
        # Another row: to stay.
        steps = np.vstack([self._steps, np.zeros(len(ends))])
        by_parts = _maximum(steps @ self.curvature @ steps.T, np.append(ends, 0.0))
        return max(0.0, min(by_parts, self._jointly(z, ends)))

    @property
    def _steps(self) -> Floats:
        """(G, G): the step to each generator alone."""
        return np.eye(len(self.weights)) - self.weights

    def _jointly(self, z: float, ends: Floats) -> float:
        """The second bound, ∞ where the curvature does not limit a step.

        A step d between generators with weight gains, with the probability of z, at most slack·d + r √(dᵀCd), r² a
        quantile of χ², for all d at once (Scheffé), and r √(dᵀCd) ≤ r²/(2t) + t dᵀCd/2 for every t.
        """
        has = self.weights > 0.0
        freedom = int(has.sum()) - 1
        if freedom < 1 or self.covariance is None:
            return math.inf
        radius = _quantile(freedom, z) if z > 0.0 else 0.0
        # Of weights α: the step between generators with weight, and the linear part of the gain.
        between = np.where(np.outer(has, has), np.eye(len(has)) - np.outer(self.weights, has), 0.0)
        rates = np.where(has, between.T @ np.where(has, self.slacks, 0.0), ends)
        curved = self._steps @ self.curvature @ self._steps.T
        if radius == 0.0:
            return _maximum(curved, rates)
        spread = between.T @ self.covariance @ between
        limit = _largest(spread, curved)
        if limit == 0.0:
            return _maximum(curved, rates)
        # Parts of the curvature that are set against errors; the best one is taken.
        tried = [part * 2.0 / limit for part in (0.9, 0.5)] if math.isfinite(limit) else []
        return min(
            (_maximum(curved - 0.5 * t * spread, rates) + radius / (2.0 * t) for t in tried),
            default=math.inf,
        )


def _maximum(curved: Floats, rates: Floats) -> float:
    """The largest rateᵀα − αᵀ curved α over the simplex."""
    falling = Quadratic(curved, -rates)
    return -falling.value(best_weights(falling))


def _largest(spread: Floats, curved: Floats) -> float:
    """The least s with spread ≤ s · curved as quadratic forms, both positive semidefinite; ∞ if there is none."""
    values, vectors = np.linalg.eigh(curved)
    # Smaller eigenvalues of a curvature count as 0.
    is_flat = values <= 1e-10 * max(float(values[-1]), 0.0)
    inner = vectors.T @ spread @ vectors
    size = float(np.abs(inner).max())
    if size == 0.0:
        return 0.0
    if is_flat.all() or np.abs(inner[is_flat]).max(initial=0.0) > 1e-6 * size:
        return math.inf
    roots = np.sqrt(values[~is_flat])
    return float(np.linalg.eigvalsh(inner[np.ix_(~is_flat, ~is_flat)] / np.outer(roots, roots))[-1])


def _quantile(freedom: int, z: float) -> float:
    """The quantile of χ² with the probability of z under the normal law (Wilson and Hilferty 1931)."""
    part = 2.0 / (9.0 * freedom)
    return freedom * max(1.0 - part + z * math.sqrt(part), 0.0) ** 3


@dataclass(frozen=True, eq=False)
class Mixture:
    """The best weights, what the mixture scores and gains, and by what a policy goes on.

    Values, errors, `gain` and `gap` are on the metric's `scale`; a loss is the value where lower is better, else minus
    the value. Each half of the samples (even and odd positions in the log) fits weights, and the other half scores
    them: `weights` are the mean of both, and no score is of samples that took part in the choice of its weights.
    """

    generators: tuple[str, ...]
    samples: tuple[int, ...]
    """Samples of each generator that it was made from."""
    weights: tuple[float, ...]
    """At least 0; they sum to 1."""
    value: float
    """De-biased score of the mixture."""
    error: float
    """Standard error of `value`."""
    best: str
    """The best single generator, as the whole of the samples has it."""
    best_value: float
    """Its de-biased score by the same samples."""
    gain: float
    """Loss of the best single generator minus the mixture's: above 0 if mixing helps."""
    gain_error: float
    slacks: tuple[float, ...]
    """h̄ − h_i: how fast the loss falls as the weight of a generator grows, by samples that took no part in the choice
    of the weights. The duality gap is the largest: no mixture is better than this one by more than that."""
    slack_errors: tuple[float, ...]
    contributions: tuple[float, ...]
    """For each generator, the loss of the best mixture without it less this mixture's, by `model`."""
    model: Quadratic
    """Second-order model, at `weights`, of the loss that the weights minimise, by all samples; exact for RKE and MMD.
    Its unit may differ from the unit of `scale`: 1/RKE for RKE. Published policies have the model of the papers'
    estimates, at the weights that are best by these."""
    deviations: tuple[float, ...]
    """Standard deviation of what a sample of each generator adds to its own entry of the gradient, in the unit of
    `model`; divided by √samples it is that entry's standard error."""
    bounds: tuple[tuple[float, float], ...] = ()
    """Pairs (z, `Improvement.bound(z)`) with rising z, computed once, as each takes some quadratic programmes."""
    scale: Scale = "linear"
    lower_is_better: bool = True
    floor: float | None = 0.0
    warnings: tuple[str, ...] = ()

    @property
    def total(self) -> int:
        """Samples of all generators together."""
        return sum(self.samples)

    @property
    def shares(self) -> dict[str, float]:
        """The weights by generator."""
        return dict(zip(self.generators, self.weights, strict=True))

    @property
    def score(self) -> float:
        """`value` on the natural scale."""
        return natural(self.value, self.scale, self.floor)

    @property
    def gap(self) -> float:
        """The `Improvement` by which another mixture may be better, as far as the samples show."""
        return self.gap_bound(0.0)

    def gap_bound(self, z: float) -> float:
        """Upper bound of how much better another mixture is, with z standard errors: between two of `bounds` on the
        line that joins them, beyond the last the largest slack with its errors.
        """
        if self.bounds and z <= self.bounds[-1][0]:
            points, values = zip(*self.bounds, strict=True)
            return float(np.interp(z, points, values))
        ends = (slack + z * error for slack, error in zip(self.slacks, self.slack_errors, strict=True))
        return max(0.0, *ends)

    def is_sound(self) -> bool:
        """True if it may be stored: all numbers are finite, no error is negative, the weights sum to 1."""
        numbers = (self.value, self.best_value, self.gain, *self.slacks, *self.contributions, self.model.constant)
        errors = (self.error, self.gain_error, *self.slack_errors, *self.deviations)
        arrays = (*self.model.matrix.flat, *self.model.linear)
        arrays += tuple(bound for _, bound in self.bounds)
        return (
            all(math.isfinite(number) for number in (*numbers, *arrays))
            and all(math.isfinite(error) and error >= 0.0 for error in errors)
            and all(0.0 <= weight <= 1.0 for weight in self.weights)
            and abs(sum(self.weights) - 1.0) < 1e-9
        )
