"""The base classes of bounds, and the default bound."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Any, ClassVar

import numpy as np
from torch import Tensor

from optimist.estimates.estimate import Estimate
from optimist.estimates.pairing import Pairing
from optimist.estimates.skewness import OF_SCORES, widening
from optimist.metrics.base import Analysis, Score
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
"""From `FEW_ROWS` samples on 1 of 100 scores of normal rows has such a factor, and 60 where sizes are lognormal. With
fewer, the samples' own skewness says little, but the skewness of real rows does."""


def check_delta(delta: float) -> None:
    """Raise FixError unless δ, the probability of failure, is in [1e-12, 1)."""
    if not 1e-12 <= delta < 1.0:
        raise FixError(f"delta must lie between 1e-12 and 1, not {delta!r}")


@dataclass(frozen=True, eq=False)
class Bound(ABC):
    """Base of computations of an estimate with its interval. Raises FixError on δ outside [1e-12, 1)."""

    metric: Any
    """The `Score` that it bounds."""
    delta: float = 0.05
    name: ClassVar[str]
    """The name users type, such as "influence"."""

    def __post_init__(self) -> None:
        check_delta(self.delta)

    def statistic(self) -> Any:
        """An empty `Statistic` laid out for this bound."""
        return self.metric.statistic()

    def alone(self) -> Any:
        """The layout of `Score.alone` for this bound."""
        return self.statistic()

    @abstractmethod
    def estimate(self, statistic: Any) -> Estimate:
        """The estimate from 1 sample or more, every number finite or deliberately ±inf.

        Raises FixError on no samples or a statistic of another metric, ArithmeticError where a number is not finite.
        """


class InfluenceBound(Bound):
    """The default bound of every metric: value ± z(1 − δ/2) · sd_stop around the de-biased value (rules/estimates.md).

    sd_select is the estimate's `standard_error`. Errors are floored. From one sample there is no analysis: the value is
    the plug-in, without errors, and the interval is infinite.
    """

    name = "influence"

    def alone(self) -> Any:
        return self.metric.alone()

    def estimate(
        self,
        statistic: Any,
        common: Mapping[str, Tensor] | None = None,
        allow: Callable[[Analysis], Analysis] = lambda analysis: analysis,
    ) -> Estimate:
        """The estimate from 1 sample or more. Raises as `Bound.estimate` does.

        common: rows (m, …) by array, seen by the statistic. A metric with influences then adds a `Pairing` of these
        rows in their order, and of its newest samples in `later`, without indices and history. allow: returns an
        analysis with errors that allow for clusters.
        """
        metric, n = self.metric, statistic.samples
        warnings = metric.warnings(statistic)
        if n < 2:
            plug_in = metric.plug_in(statistic)
            return _estimate(metric, n, plug_in, plug_in, (-math.inf, math.inf), (NO_INTERVAL, *warnings))
        analysis = allow(metric.analyse(statistic, common))
        factor = max(float(widening(analysis.skewness or 0.0, n, OF_SCORES)), analysis.missing)
        value, min_error = analysis.estimate, SMALLEST_ERROR * (1.0 + abs(analysis.estimate))
        select, stop = (max(error, min_error) for error in (analysis.selection_error, _widened(analysis, factor)))
        rare = (FEW_ROWS_DECIDE,) if (factor if n >= FEW_ROWS else analysis.missing) > LARGE_FACTOR else ()
        warnings = (*warnings, *analysis.warnings, *rare)
        half_width = -NormalDist().inv_cdf(self.delta / 2.0) * stop
        made = _estimate(metric, n, value, analysis.plug_in, (value - half_width, value + half_width), warnings)
        made = replace(made, standard_error=select, stopping_error=stop, pairing=_pairing(analysis))
        names = ("bracket", "value_skewness", "farthest", "censored", "prompted", "prompts", "batches", "design_effect")
        return _sound(replace(made, **{name: getattr(analysis, name) for name in names}))


@dataclass(frozen=True, eq=False)
class PaperBound(Bound):
    """Base of the papers' bounds: the plug-in value, and the optimistic end of the interval, the only finite end."""

    min_samples: ClassVar[int] = 1
    """Samples from which on there is an interval."""

    def estimate(self, statistic: Any) -> Estimate:
        metric = self.metric
        has_interval = statistic.samples != 1 or self.min_samples == 1
        value = self.value(statistic) if has_interval else metric.plug_in(statistic)
        end = self.end(statistic, value) if has_interval else -math.inf if metric.lower_is_better else math.inf
        ends = (end, math.inf) if metric.lower_is_better else (-math.inf, end)
        warnings = self.warnings(end) if has_interval else (NO_INTERVAL,)
        return _estimate(metric, statistic.samples, value, value, ends, (*warnings, *metric.warnings(statistic)))

    def value(self, statistic: Any) -> float:
        """The plug-in value that the interval is of."""
        return self.metric.plug_in(statistic)

    def warnings(self, end: float) -> tuple[str, ...]:
        """Warnings beside the metric's."""
        return ()

    @abstractmethod
    def end(self, statistic: Any, value: float) -> float:
        """The optimistic end of the interval of `value`, from `min_samples` samples on."""


def _estimate(
    metric: Score, samples: int, value: float, plug_in: float, ends: tuple[float, float], warnings: tuple[str, ...]
) -> Estimate:
    """The estimate with this interval. Raises ArithmeticError, naming the numbers, if a number may not be stored."""
    lower, upper = ends
    return _sound(
        Estimate(
            value=value,
            plug_in=plug_in,
            samples=samples,
            lower=lower,
            upper=upper,
            optimistic=lower if metric.lower_is_better else upper,
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


def _widened(analysis: Analysis, factor: float) -> float:
    """sd_stop with the variance of its sampling part multiplied by `factor` ≥ 1."""
    error, systematic = analysis.stopping_error, min(analysis.systematic_stopping, analysis.stopping_error)
    sampled = math.sqrt(error - systematic) * math.sqrt(error + systematic)
    return math.hypot(error, sampled * math.sqrt(factor - 1.0))


def _pairing(analysis: Analysis) -> Pairing | None:
    with np.errstate(over="ignore"):
        influence, recent, reference = (
            None if rows is None else rows.cpu().numpy().astype(np.float32)
            for rows in (analysis.influence, analysis.recent, analysis.reference)
        )
    if influence is None or not all(rows is None or np.isfinite(rows).all() for rows in (influence, recent, reference)):
        return None  # features of 1e19 and more: the estimate counts all the same
    jackknife = analysis.jackknife
    return Pairing(
        influence=influence,
        later=np.zeros(0, np.float32) if recent is None else recent,
        first_order=analysis.first_order,
        systematic_selection=analysis.systematic_selection,
        systematic_stopping=analysis.systematic_stopping,
        systematic_sign=analysis.systematic_sign,
        skewness=analysis.skewness,
        missing=analysis.missing,
        jackknife=() if jackknife is None or not jackknife.any() else tuple(jackknife.tolist()),
        reference=reference,
    )


def _sound(estimate: Estimate) -> Estimate:
    if not estimate.is_sound():
        raise ArithmeticError(f"the estimate from {estimate.samples} samples is not finite: {estimate}")
    return estimate
