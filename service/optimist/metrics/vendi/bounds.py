"""The papers' bound of kernel scores, by concentration, in log (equations.md §3a, 3b)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from optimist.metrics.bound import check_delta, one_sided
from optimist.metrics.vendi.score import VendiScore
from optimist.metrics.vendi.statistic import KernelStatistic
from optimist.numerics.estimate import Estimate
from optimist_client.errors import FixError


@dataclass(frozen=True)
class KernelTheoremBound:
    """RKE-UCB and Vendi-UCB (equations.md §3b): value = the plug-in, upper = the largest that the theorem allows.

    The order α must be at least 1: below it the papers have no theorem (FixError). For α = ∞ the same norm
    inequality serves, |λ̂_max − λ_max| ≤ ‖λ̂ − λ‖₂ ≤ ε_n; a t-truncated spectrum is a projection of the whole, which
    brings no two of them further apart, so it has m = t. Below n = 2 + 8 log(1/δ) the upper end is the ceiling log m.
    """

    metric: VendiScore
    delta: float = 0.05
    name: str = field(default="theorem", init=False)

    def __post_init__(self) -> None:
        check_delta(self.delta)
        if self.metric.order < 1.0:
            raise FixError(f"no theorem bounds the Vendi score of order {self.metric.order:g}: it needs at least 1")

    def statistic(self) -> KernelStatistic:
        """An empty statistic without half-streams, which this bound does not read."""
        return self.metric.statistic(halves=False)

    def estimate(self, statistic: KernelStatistic) -> Estimate:
        """The estimate from 1 sample or more. Raises as `Bound.estimate` does."""
        plug_in = self.metric.plug_in(statistic)
        ceiling = math.log(self.metric.ceiling)
        upper = max(min(self._upper(plug_in, statistic.samples), ceiling), plug_in)
        found = ("too few samples: the upper end is the largest value the score can have",) if upper >= ceiling else ()
        return one_sided(self.metric, statistic.samples, plug_in, upper, found)

    def _upper(self, plug_in: float, samples: int) -> float:
        order, width = self.metric.order, self.metric.ceiling
        if samples < 2.0 + 8.0 * math.log(1.0 / self.delta):
            return math.inf
        epsilon = math.sqrt(32.0 * math.log(2.0 / self.delta) / samples)
        if order == 1.0:
            root = math.sqrt(width)
            return plug_in + root * epsilon * math.log(root / epsilon) if epsilon <= 1.0 / math.e else math.inf
        # The score is ‖λ‖_α raised to α/(1 − α).
        power = -1.0 if math.isinf(order) else (1.0 - order) / order
        norm = math.exp(power * plug_in) - epsilon * width ** max(1.0 / order - 0.5, 0.0)
        return math.log(norm) / power if norm > 0.0 else math.inf
