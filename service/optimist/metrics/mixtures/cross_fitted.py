"""The mixture of some generators: weights fitted by one half of the samples, scored by the other, and the other way.

So neither the gain nor the slacks are flattered by the choice of the weights. The best single generator is that by all
samples: where several are nearly as good, the gain is too small rather than too large. Were it, too, chosen by one half
and scored by the other, a gain over a wrong one would count: up to 31 % of the lower ends of one-sided 95 % intervals
were then above the true gain over the best, and now 0 to 6 % are (six closed-form problems of RKE). Generators of the
same seeds share chance: the common rows show by how much, as in `policies.paired`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np
import torch
from torch import Tensor

from optimist.estimates.mixture import Improvement, Mixture
from optimist.estimates.programme import Floats, Quadratic, best_weights, minimise
from optimist.metrics.base import Score
from optimist.metrics.mixtures.objective import Common, Half, MixtureAnalysis, Objective, SharedChance
from optimist.records import MIN_MIXED
from optimist_client.errors import FixError


def cross_fitted(
    score: Score,
    statistics: Sequence[Any],
    names: Sequence[str],
    common: Sequence[Common | None] = (),
    *,
    published: bool = False,
) -> Mixture:
    """The mixture of generators with these statistics and names; `common` as in `Score.objective`.

    published: `model` and `deviations` are by the papers' biased estimates, at their own best weights, for the
    published policies; all else stays as it is. Raises FixError where the metric offers no mixture, without
    generators, with fewer than 4 samples of one, and where halves were not kept; ArithmeticError where a number is not
    finite.
    """
    _check(score, statistics, names)
    whole = score.objective(statistics, None, common)
    singles = [whole.loss(vertex) for vertex in np.eye(len(names))]
    best = int(np.argmin(singles))
    if len(names) == 1:
        shared = SharedChance.from_common(whole.samples, common)
        fitted = Fitted.of_one(whole.analyse(np.ones(1)), shared)
    else:
        halves = [score.objective(statistics, half, common) for half in get_args(Half)]
        fitted = Fitted.across(halves, best, SharedChance.from_common(whole.samples, common))
    at = minimise(whole, published=True) if published else fitted.weights
    sign = 1.0 if score.lower_is_better else -1.0
    mixture = Mixture(
        generators=tuple(names),
        samples=whole.samples,
        weights=tuple(fitted.weights.tolist()),
        value=sign * fitted.loss,
        error=fitted.error,
        best=names[best],
        best_value=sign * singles[best],
        gain=fitted.gain,
        gain_error=fitted.gain_error,
        slacks=tuple(fitted.slacks.tolist()),
        slack_errors=tuple(fitted.slack_errors.tolist()),
        contributions=_contributions(whole, whole.model(fitted.weights)),
        model=whole.model(at, published=published),
        deviations=tuple(whole.deviations(at).tolist()),
        bounds=_bounds(whole, fitted),
        scale=score.scale,
        lower_is_better=score.lower_is_better,
        floor=score.floor,
        warnings=_warnings(names, whole.samples, fitted),
    )
    if not mixture.is_sound():
        raise ArithmeticError(f"the mixture of {', '.join(names)} is not finite: {mixture}")
    return mixture


@dataclass(frozen=True)
class Fitted:
    """The findings on a mixture, and on the best single generator by the same samples, as losses on the metric's
    scale."""

    weights: Floats
    loss: float
    error: float
    gain: float
    gain_error: float
    slacks: Floats
    slack_errors: Floats
    covariance: Floats
    apart: Floats
    """(G,): how far the weights of the halves are apart."""

    @classmethod
    def of_one(cls, alone: MixtureAnalysis, shared: SharedChance) -> Fitted:
        """The mixture of one generator."""
        none = np.zeros(1)
        return cls(np.ones(1), alone.loss, _error(alone, shared), 0.0, 0.0, none, none, np.zeros((1, 1)), none)

    @classmethod
    def across(cls, halves: Sequence[Objective], best: int, shared: SharedChance) -> Fitted:
        """Weights fitted by each half, scored by the other. best: index of the best single generator."""
        weights = [minimise(half) for half in halves]
        others = halves[::-1]
        scored = [
            cls.from_weights(other, shared.of_half(other.samples), fitted, best)
            for other, fitted in zip(others, weights, strict=True)
        ]
        mean = 0.5 * (weights[0] + weights[1])
        return cls(
            weights=mean / mean.sum(),
            loss=0.5 * sum(part.loss for part in scored),
            error=0.5 * math.hypot(*(part.error for part in scored)),
            gain=0.5 * sum(part.gain for part in scored),
            gain_error=0.5 * math.hypot(*(part.gain_error for part in scored)),
            slacks=0.5 * (scored[0].slacks + scored[1].slacks),
            slack_errors=0.5 * np.hypot(scored[0].slack_errors, scored[1].slack_errors),
            covariance=0.25 * (scored[0].covariance + scored[1].covariance),
            apart=np.abs(weights[0] - weights[1]),
        )

    @classmethod
    def from_weights(cls, objective: Objective, shared: SharedChance, weights: Floats, best: int) -> Fitted:
        """Weights as samples score them that did not choose them."""
        mixture = objective.analyse(weights, slopes=True)
        single = objective.analyse(np.eye(len(weights))[best])
        slack_rows = [_slacks(weights, rows) for rows in mixture.slope_rows]
        slack_common = [None if rows is None else _slacks(weights, rows) for rows in mixture.common_slopes]
        return cls(
            weights=weights,
            loss=mixture.loss,
            error=_error(mixture, shared),
            gain=single.loss - mixture.loss,
            gain_error=_error(_difference(single, mixture), shared),
            slacks=float(weights @ mixture.slopes) - mixture.slopes,
            slack_errors=np.sqrt(shared.variances(slack_rows, slack_common)),
            covariance=shared.covariance(slack_rows, slack_common),
            apart=np.zeros_like(weights),
        )


def _slacks(weights: Floats, slopes: Tensor) -> Tensor:
    """The influence (b, G) on h̄ − h_i from that on h (b, G)."""
    return slopes @ torch.from_numpy(weights).to(slopes.device)[:, None] - slopes


def _difference(first: MixtureAnalysis, other: MixtureAnalysis) -> MixtureAnalysis:
    """The loss of the first mixture minus the other's, of the same objective."""
    rows = tuple(mine - theirs for mine, theirs in zip(first.rows, other.rows, strict=True))
    common = tuple(
        None if mine is None or theirs is None else mine - theirs
        for mine, theirs in zip(first.common, other.common, strict=True)
    )
    loss, slopes, extra = first.loss - other.loss, first.slopes - other.slopes, first.extra - other.extra
    return MixtureAnalysis(loss, slopes, rows, extra, common)


def _error(mixture: MixtureAnalysis, shared: SharedChance) -> float:
    """The standard error of its loss."""
    columns = [rows[:, None] for rows in mixture.rows]
    common = [None if rows is None else rows[:, None] for rows in mixture.common]
    return math.sqrt(float(shared.variances(columns, common)[0]) + float(mixture.extra @ mixture.extra))


def _contributions(whole: Objective, model: Quadratic) -> tuple[float, ...]:
    """The loss (G,) of the best mixture without each generator less the best's, on the metric's scale, by the model."""
    count = len(model.linear)
    if count == 1:
        return (0.0,)
    weights = best_weights(model)
    lowest = whole.scaled(model.value(weights))

    def without(g: int) -> float:
        others = model.restricted_to([other for other in range(count) if other != g])
        return max(whole.scaled(others.value(best_weights(others))) - lowest, 0.0)

    return tuple(without(g) if weights[g] > 0.0 else 0.0 for g in range(count))


def _bounds(whole: Objective, fitted: Fitted) -> tuple[tuple[float, float], ...]:
    """The numbers of `Mixture.bounds`: the maximum gain of another mixture, by standard errors."""
    curvature = _curvature(whole, fitted.weights)
    improvement = Improvement(fitted.weights, fitted.slacks, fitted.slack_errors, fitted.covariance, curvature)
    # Standard errors at which the bound of another mixture's gain is computed.
    return tuple(
        (z, improvement.bound(z))
        for z in (0.0, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 4.25, 4.5, 4.75, 5.0, 5.5, 6.0, 7.0, 8.0)
    )


def _curvature(whole: Objective, weights: Floats) -> Floats:
    """The curvature of the model, on the metric's scale."""
    model = whole.model(weights)
    # `scaled` is the same number or its logarithm.
    value = model.value(weights)
    step = 1e-4 * (abs(value) or 1.0)
    return (whole.scaled(value + step) - whole.scaled(value - step)) / (2.0 * step) * model.matrix


def _warnings(names: Sequence[str], samples: Sequence[int], fitted: Fitted) -> tuple[str, ...]:
    few = [name for name, n in zip(names, samples, strict=True) if n < 20]
    warnings = [f"fewer than 20 samples of {', '.join(few)}"] if few else []
    if fitted.apart.max() > 0.25:
        worst = int(fitted.apart.argmax())
        apart = f"by {fitted.apart[worst]:.2f} in the weight of {names[worst]}"
        warnings.append(f"the halves of the samples disagree: {apart}")
    return tuple(warnings)


def _check(score: Score, statistics: Sequence[Any], names: Sequence[str]) -> None:
    if not names or len(names) != len(statistics):
        raise FixError(f"a mixture needs one generator or more: {len(names)} names, {len(statistics)} statistics")
    few = [name for name, own in zip(names, statistics, strict=True) if own.samples < MIN_MIXED]
    if few:
        raise FixError(f"a mixture needs at least {MIN_MIXED} samples of each generator; fewer of {', '.join(few)}")
