"""Makes the scores of the declared metrics with one kernel; their bound by concentration."""

from __future__ import annotations

import math

from optimist.metrics.bound import PaperBound
from optimist.metrics.implementations import Setting
from optimist.metrics.vendi.kernels import make_feature_map
from optimist.metrics.vendi.score import RenyiKernelEntropy, VendiScore
from optimist.metrics.vendi.statistic import KernelStatistic
from optimist_client.errors import FixError
from optimist_client.metrics import RKE, Vendi


class KernelTheoremBound(PaperBound):
    """RKE-UCB and Vendi-UCB (equations.md §3b): value = the plug-in, upper = the largest that the theorem allows.

    The order α must be at least 1: below it the papers have no theorem (FixError). For α = ∞ the same norm
    inequality serves, |λ̂_max − λ_max| ≤ ‖λ̂ − λ‖₂ ≤ ε_n; a t-truncated spectrum is a projection of the whole, which
    brings no two of them further apart, so it has m = t. Below n = 2 + 8 log(1/δ) the upper end is the ceiling log m.
    """

    name = "theorem"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.metric.order < 1.0:
            raise FixError(f"no theorem bounds the Vendi score of order {self.metric.order:g}: it needs at least 1")

    def statistic(self) -> KernelStatistic:
        """An empty statistic without half-streams, which this bound does not read."""
        return self.metric.statistic(halves=False)

    def end(self, statistic: KernelStatistic, value: float) -> float:
        return max(min(self._upper(value, statistic.samples), self.metric.log_ceiling), value)

    def warnings(self, end: float) -> tuple[str, ...]:
        few = "too few samples: the upper end is the largest value the score can have"
        return (few,) if end >= self.metric.log_ceiling else ()

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


BOUNDS = {"theorem": KernelTheoremBound}


def make(declared: RKE | Vendi, setting: Setting) -> VendiScore:
    """The score by the kernel's feature map. Raises FixError without a kernel, or if it is still open."""
    if declared.kernel is None:
        raise FixError(f"the metric {declared.name!r} needs a kernel, such as dict(name='gaussian', sigma=10.0)")
    feature_map = make_feature_map(declared.kernel, setting.widths["features"], setting.device)
    if isinstance(declared, RKE):
        return RenyiKernelEntropy(feature_map, setting.list_length)
    return VendiScore(feature_map, declared.order, declared.truncation, setting.list_length)
