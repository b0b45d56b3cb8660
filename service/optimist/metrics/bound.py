"""The interface of every bound, the default bound, and the checks that bounds share."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from statistics import NormalDist
from typing import Any, Protocol

import numpy as np
from torch import Tensor

from optimist.metrics.base import Analysis, Score
from optimist.numerics.estimate import Estimate
from optimist.numerics.pairing import Pairing
from optimist.numerics.skewness import OF_SCORES, widening
from optimist_client.errors import FixError

SMALLEST_ERROR = 1e-9
"""Smallest error relative to 1 + |value|: identical samples would have none."""
NO_INTERVAL = "at least 2 samples are needed for an interval"
"""The warning of an estimate from 1 sample."""
FEW_ROWS_DECIDE = (
    "a few large rows decide: the true error may be larger than is shown; take more samples, or bound the rows' sizes, "
    "as by normalised features"
)
"""The warning of an estimate whose variance rare rows widen more than `LARGE_FACTOR` times."""
LARGE_FACTOR, FEW_ROWS = 3.0, 50
"""From `FEW_ROWS` samples on 1 of 100 scores of normal rows has such a factor, and 60 where sizes are lognormal. From
fewer the samples' own skewness says little, but that of real rows does."""


class Bound(Protocol):
    """Computes an estimate with its interval from a statistic."""

    @property
    def name(self) -> str:
        """The name users type, such as "influence"."""
        ...

    @property
    def metric(self) -> Score:
        """The metric it bounds."""
        ...

    def statistic(self) -> Any:
        """An empty `Statistic` laid out for this bound."""
        ...

    def estimate(self, statistic: Any) -> Estimate:
        """The estimate from 1 sample or more, every number finite or deliberately ±inf.

        Raises FixError on no samples or a statistic of another metric, ArithmeticError where a number is not finite.
        """
        ...


def check_delta(delta: float) -> float:
    """δ, the probability of failure. Raises FixError outside [1e-12, 1)."""
    if not 1e-12 <= delta < 1.0:
        raise FixError(f"delta must lie between 1e-12 and 1, not {delta!r}")
    return delta


class InfluenceBound:
    """The default bound of every metric: value ± z(1 − δ/2) · sd_stop around the de-biased value (decisions.md §2).

    sd_select is the estimate's `standard_error`. From one sample there is no analysis: the value is the plug-in,
    without errors, and the interval is infinite. Raises FixError on δ outside [1e-12, 1).
    """

    name = "influence"

    def __init__(self, metric: Score, delta: float = 0.05) -> None:
        self.metric = metric
        self.delta = check_delta(delta)

    def statistic(self) -> Any:
        return self.metric.statistic()

    def estimate(self, statistic: Any, common: Mapping[str, Tensor] | None = None) -> Estimate:
        """The estimate from 1 sample or more. Raises as `Bound.estimate` does.

        common: rows (m, …) by array, among those that the statistic has seen. A metric that knows their influence then
        adds a `Pairing` of these rows in their order, and of its newest samples in `later`, without indices and
        history.
        """
        metric, n = self.metric, statistic.samples
        warnings = metric.warnings(statistic)
        if n < 2:
            plug_in = metric.plug_in(statistic)
            return two_sided(metric, n, plug_in, plug_in, None, self.delta, (NO_INTERVAL, *warnings))
        found = metric.analyse(statistic) if common is None else metric.analyse_paired(statistic, common)
        factor = max(float(widening(found.skewness or 0.0, n, OF_SCORES)), found.missing)
        errors = (found.selection_error, _widened(found, factor))
        rare = (FEW_ROWS_DECIDE,) if (factor if n >= FEW_ROWS else found.missing) > LARGE_FACTOR else ()
        warnings = (*warnings, *found.warnings, *rare)
        made = two_sided(metric, n, found.estimate, found.plug_in, errors, self.delta, warnings)
        made = _sound(replace(made, bracket=found.bracket, pairing=_pairing(found)))
        return replace(made, value_skewness=found.value_skewness)


def one_sided(metric: Score, samples: int, value: float, end: float, warnings: tuple[str, ...]) -> Estimate:
    """An estimate with the plug-in value and one finite end, the optimistic one, which is all that the papers bound.

    Raises ArithmeticError, naming the numbers, if one of them may not be stored.
    """
    lower, upper = (end, math.inf) if metric.lower_is_better else (-math.inf, end)
    return _sound(
        Estimate(
            value=value,
            plug_in=value,
            samples=samples,
            lower=lower,
            upper=upper,
            optimistic=end,
            scale=metric.scale,
            lower_is_better=metric.lower_is_better,
            floor=metric.floor,
            warnings=warnings,
        )
    )


def two_sided(
    metric: Score,
    samples: int,
    value: float,
    plug_in: float,
    errors: tuple[float, float] | None,
    delta: float,
    warnings: tuple[str, ...],
) -> Estimate:
    """value ± z(1 − δ/2) · sd_stop from `errors` = (sd_select, sd_stop), which are floored (decisions.md §2).

    Without errors, as from one sample, the interval is infinite. Raises ArithmeticError as `one_sided` does.
    """
    select = stop = None
    half_width = math.inf
    if errors is not None:
        select, stop = (max(error, SMALLEST_ERROR * (1.0 + abs(value))) for error in errors)
        half_width = -NormalDist().inv_cdf(delta / 2.0) * stop
    lower, upper = value - half_width, value + half_width
    return _sound(
        Estimate(
            value=value,
            plug_in=plug_in,
            samples=samples,
            lower=lower,
            upper=upper,
            optimistic=lower if metric.lower_is_better else upper,
            standard_error=select,
            stopping_error=stop,
            scale=metric.scale,
            lower_is_better=metric.lower_is_better,
            floor=metric.floor,
            warnings=warnings,
        )
    )


def with_strict_interval(estimate: Estimate, lower: float, upper: float, warnings: tuple[str, ...] = ()) -> Estimate:
    """The estimate with an interval that holds at all sample sizes at once, widened to the value if that is outside."""
    lower, upper = min(lower, estimate.value), max(upper, estimate.value)
    optimistic = lower if estimate.lower_is_better else upper
    kept = tuple(warning for warning in estimate.warnings if warning != NO_INTERVAL)
    return _sound(
        replace(estimate, lower=lower, upper=upper, optimistic=optimistic, warnings=(*kept, *warnings), strict=True)
    )


def _widened(found: Analysis, factor: float) -> float:
    """sd_stop, the variance of whose sampling part is `factor` ≥ 1 times as large."""
    error, systematic = found.stopping_error, min(found.systematic_stopping, found.stopping_error)
    sampled = math.sqrt(error - systematic) * math.sqrt(error + systematic)
    return math.hypot(error, sampled * math.sqrt(factor - 1.0))


def _pairing(found: Analysis) -> Pairing | None:
    with np.errstate(over="ignore"):
        influence, recent, reference = (
            None if each is None else each.cpu().numpy().astype(np.float32)
            for each in (found.influence, found.recent, found.reference)
        )
    if influence is None or not all(each is None or np.isfinite(each).all() for each in (influence, recent, reference)):
        return None  # features of 1e19 and more: the estimate counts all the same
    return Pairing(
        influence=influence,
        later=np.zeros(0, np.float32) if recent is None else recent,
        first_order=found.first_order,
        systematic_selection=found.systematic_selection,
        systematic_stopping=found.systematic_stopping,
        systematic_sign=found.systematic_sign,
        skewness=found.skewness,
        jackknife=() if found.jackknife is None or not found.jackknife.any() else tuple(found.jackknife.tolist()),
        reference=reference,
    )


def _sound(estimate: Estimate) -> Estimate:
    if not estimate.is_sound():
        raise ArithmeticError(f"the estimate from {estimate.samples} samples is not finite: {estimate}")
    return estimate
