"""The influence bound (decisions.md §2), the default: the bias removed, then the score's own standard error."""

from __future__ import annotations

from optimist.numerics.bound import check_delta, frechet_warnings, two_sided
from optimist.numerics.estimate import Estimate
from optimist.numerics.fid.influence import FrechetAnalyst
from optimist.numerics.fid.score import FrechetDistance
from optimist.numerics.fid.statistic import GaussianStatistic


class InfluenceBound:
    """value ± z(1 − δ/2) · sd_stop around the de-biased value, with sd_select as `standard_error` (decisions.md §2).

    One sample has no estimate: its value is the plug-in, without errors, in an infinite interval.
    """

    name = "influence"

    def __init__(self, metric: FrechetDistance, delta: float = 0.05) -> None:
        self.metric = metric
        self.delta = check_delta(delta)
        self._analyst = FrechetAnalyst(metric)

    def statistic(self) -> GaussianStatistic:
        """See `Bound.statistic`."""
        return self.metric.statistic()

    def estimate(self, statistic: GaussianStatistic) -> Estimate:
        """See `Bound.estimate`."""
        metric, notes = self.metric, frechet_warnings(self.metric, statistic, least=2)
        if statistic.samples < 2:
            plug_in = metric.plug_in(statistic)
            return two_sided(metric, statistic.samples, plug_in, plug_in, None, self.delta, notes)
        found = self._analyst.analyse(statistic)
        errors = (found.selection_error, found.stopping_error)
        return two_sided(metric, statistic.samples, found.estimate, found.plug_in, errors, self.delta, notes)
