"""The papers' bounds of the Inception score (equations.md §2a, §2b).

Everything is in logarithms: values, errors and interval ends are those of log IS.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch
from torch import Tensor

from optimist.metrics.bound import NO_INTERVAL, check_delta, one_sided
from optimist.metrics.inception.score import InceptionScore
from optimist.metrics.inception.statistic import ClassStatistic, entropy
from optimist.numerics.estimate import Estimate


@dataclass(frozen=True)
class _PaperBound:
    """What the two bounds share: their metric, δ, and the metric's own statistic."""

    metric: InceptionScore
    delta: float = 0.05

    def __post_init__(self) -> None:
        check_delta(self.delta)

    def statistic(self) -> ClassStatistic:
        """An empty statistic of the metric."""
        return self.metric.statistic()


@dataclass(frozen=True)
class InceptionTheoremBound(_PaperBound):
    """IS-UCB of the seed paper (equations.md §2a) with C′ = log K, the largest entropy there is.

    value = log IS̃, optimistic = upper = log IŜ, which is +∞ from 1 sample. Raises FixError on δ outside (0, 1).
    """

    name: str = field(default="theorem", init=False)

    def estimate(self, statistic: ClassStatistic) -> Estimate:
        """The estimate from 1 sample or more. Raises as `Bound.estimate` does."""
        value = self.metric.plug_in(statistic)
        if statistic.samples == 1:
            return _upper(self.metric, statistic, value, math.inf, NO_INTERVAL)
        n, classes = statistic.samples, self.metric.classes
        level, entropy_level = math.log(4.0 * classes / self.delta), math.log(4.0 / self.delta)
        reach = (2.0 * level / n * statistic.variance).sqrt() + 7.0 * level / (3.0 * (n - 1))
        gap = math.sqrt(2.0 * statistic.entropy_variance * entropy_level / n)
        gap += 7.0 * math.log(classes) * entropy_level / (3.0 * (n - 1))
        upper = _largest_entropy(statistic.mean, reach) - statistic.entropy_mean + gap
        return _upper(self.metric, statistic, value, upper)


@dataclass(frozen=True)
class InceptionNaiveBound(_PaperBound):
    """Naive-UCB of the seed paper (equations.md §2b), which uses only n and K; C′ = log K.

    value = log IS̃, optimistic = upper = log IŜ. Raises FixError on δ outside (0, 1).
    """

    name: str = field(default="naive", init=False)

    def estimate(self, statistic: ClassStatistic) -> Estimate:
        """The estimate from 1 sample or more. Raises as `Bound.estimate` does."""
        value = self.metric.plug_in(statistic)
        n, classes = statistic.samples, self.metric.classes
        reach = torch.full_like(statistic.mean, math.sqrt(math.log(4.0 * classes / self.delta) / (2.0 * n)))
        gap = math.log(classes) * math.sqrt(math.log(4.0 / self.delta) / (2.0 * n))
        upper = _largest_entropy(statistic.mean, reach) - statistic.entropy_mean + gap
        return _upper(self.metric, statistic, value, upper)


def _largest_entropy(mean: Tensor, reach: Tensor) -> float:
    """E(Clip_{1/e}(p̃, ε)), p̃ and ε (K): the most that Σ −p log p can be with each p[j] within ε[j] > 0 of p̃[j]."""
    # −p log p rises up to 1/e and falls after it.
    peak = torch.full_like(mean, 1.0 / math.e)
    return float(entropy(torch.clamp(peak, mean - reach, mean + reach)))


def _upper(metric: InceptionScore, statistic: ClassStatistic, plug_in: float, upper: float, *warnings: str) -> Estimate:
    return one_sided(metric, statistic.samples, plug_in, upper, (*warnings, *metric.warnings(statistic)))
