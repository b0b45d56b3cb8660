"""The influence bound (decisions.md §2), the default: the bias removed, then the score's own standard error."""

from __future__ import annotations

import math
from statistics import NormalDist

from optimist.bounds.base import check_delta, sound, warnings
from optimist.bounds.frechet_influence import FrechetAnalyst
from optimist.estimates import Estimate
from optimist.metrics import FrechetDistance
from optimist.statistics import GaussianStatistic

SMALLEST_ERROR = 1e-9
"""Floor of the errors as a part of 1 + |value|: samples that are all the same have none of their own."""


class InfluenceBound:
    """value ± z(1 − δ/2) · sd_stop around the de-biased value, with sd_select as `standard_error` (decisions.md §2).

    One sample has no estimate: its value is the plug-in, without errors, in an infinite interval.
    """

    name = "influence"
    has_errors = True

    def __init__(self, metric: FrechetDistance, delta: float = 0.05) -> None:
        self.metric = metric
        self.delta = check_delta(delta)
        self._quantile = NormalDist().inv_cdf(1.0 - self.delta / 2.0)
        self._analyst = FrechetAnalyst(metric)

    def statistic(self) -> GaussianStatistic:
        """See `Bound.statistic`."""
        return self.metric.statistic()

    def estimate(self, statistic: GaussianStatistic) -> Estimate:
        """See `Bound.estimate`."""
        metric = self.metric
        if statistic.samples < 2:
            value = plug_in = metric.plug_in(statistic)
            select = stop = None
            half_width = math.inf
        else:
            found = self._analyst.analyse(statistic)
            value, plug_in = found.estimate, found.plug_in
            floor = SMALLEST_ERROR * (1.0 + abs(value))
            select, stop = max(found.selection_error, floor), max(found.stopping_error, floor)
            half_width = self._quantile * stop
        lower, upper = value - half_width, value + half_width
        return sound(
            Estimate(
                value=value,
                plug_in=plug_in,
                samples=statistic.samples,
                lower=lower,
                upper=upper,
                optimistic=lower if metric.lower_is_better else upper,
                standard_error=select,
                stopping_error=stop,
                scale=metric.scale,
                lower_is_better=metric.lower_is_better,
                warnings=warnings(metric, statistic, least=2),
            )
        )
