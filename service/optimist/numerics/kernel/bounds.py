"""The bounds of kernel scores: the papers' concentration (equations.md §3a, 3b) and the influence bound, in log."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from optimist.numerics.bound import check_delta, one_sided, two_sided
from optimist.numerics.estimate import Estimate
from optimist.numerics.kernel.influence import KernelInfluence, analyse
from optimist.numerics.kernel.score import VendiScore
from optimist.numerics.kernel.statistic import KernelStatistic


@dataclass(frozen=True)
class KernelTheoremBound:
    """RKE-UCB and Vendi-UCB (equations.md §3b): value = the plug-in, upper = the largest that the theorem allows.

    The order α must be at least 1: below it the papers have no theorem (ValueError). For α = ∞ the same norm
    inequality serves, |λ̂_max − λ_max| ≤ ‖λ̂ − λ‖₂ ≤ ε_n; a t-truncated spectrum is a projection of the whole, which
    brings no two of them further apart, so it has m = t. Below n = 2 + 8 log(1/δ) the upper end is the ceiling log m.
    """

    metric: VendiScore
    delta: float = 0.05
    name: str = field(default="theorem", init=False)

    def __post_init__(self) -> None:
        check_delta(self.delta)
        if self.metric.order < 1.0:
            raise ValueError(f"no theorem bounds the Vendi score of order {self.metric.order:g}: it needs at least 1")

    def statistic(self) -> KernelStatistic:
        """See `Bound.statistic`."""
        return self.metric.statistic()

    def estimate(self, statistic: KernelStatistic) -> Estimate:
        """See `Bound.estimate`."""
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


class KernelInfluenceBound:
    """value ± z(1 − δ/2) · sd_stop around the de-biased log score of any order, sd_select as `standard_error`
    (decisions.md §2).

    One sample has no estimate: its value is the plug-in, without errors, in an infinite interval.
    """

    name = "influence"

    def __init__(self, metric: VendiScore, delta: float = 0.05) -> None:
        self.metric = metric
        self.delta = check_delta(delta)

    def statistic(self) -> KernelStatistic:
        """See `Bound.statistic`."""
        return self.metric.statistic(halves=self.metric.needs_halves)

    def estimate(self, statistic: KernelStatistic) -> Estimate:
        """See `Bound.estimate`."""
        metric, n = self.metric, statistic.samples
        if n < 2:
            plug_in = metric.plug_in(statistic)
            notes = ("at least 2 samples are needed for an interval",)
            return two_sided(metric, n, plug_in, plug_in, None, self.delta, notes)
        found = analyse(metric, statistic)
        errors, notes = (found.selection_error, found.stopping_error), _warnings(metric, n, found)
        return two_sided(metric, n, found.estimate, found.plug_in, errors, self.delta, notes)


def _warnings(metric: VendiScore, n: int, analysis: KernelInfluence) -> tuple[str, ...]:
    """What a reader of an influence estimate must know of its n samples."""
    found: list[str] = []
    if metric.truncation is not None:
        if n < 2 * metric.truncation:
            found.append(f"fewer samples than twice the truncation: {n} samples for {metric.truncation} eigenvalues")
    elif metric.order < 2.0 and n < metric.width:
        found.append(f"fewer samples than features: {n} samples for {metric.width}; the rest is extrapolated")
        if analysis.repeated:
            found.append(f"{analysis.repeated} of {n} samples repeat others: the interval may be too narrow")
    return tuple(found)
