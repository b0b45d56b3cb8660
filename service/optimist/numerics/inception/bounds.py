"""The bounds of the Inception score: the papers' (equations.md §2a, §2b) and the influence bound (decisions.md §2, IS).

Everything is in logarithms: values, errors and interval ends are those of log IS.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch
from torch import Tensor

from optimist.numerics.bound import check_delta, one_sided, two_sided
from optimist.numerics.estimate import Estimate
from optimist.numerics.inception.score import InceptionScore
from optimist.numerics.inception.statistic import FOLDS, ClassStatistic, entropy

SECOND_ORDER_ROWS = 256
"""Last rows that the second-order variance is taken over."""
SMALLEST_PROBABILITY = 1e-12
"""Floor of p̄ in logarithms and quotients."""


@dataclass(frozen=True)
class InceptionTheoremBound:
    """IS-UCB of the seed paper (equations.md §2a) with C′ = log K, the largest entropy there is.

    value = log IS̃, optimistic = upper = log IŜ, which is +∞ from 1 sample. Raises ValueError on δ outside (0, 1).
    """

    metric: InceptionScore
    delta: float = 0.05
    name: str = field(default="theorem", init=False)

    def __post_init__(self) -> None:
        check_delta(self.delta)

    def statistic(self) -> ClassStatistic:
        """See `Bound.statistic`."""
        return self.metric.statistic()

    def estimate(self, statistic: ClassStatistic) -> Estimate:
        """See `Bound.estimate`."""
        value = self.metric.plug_in(statistic)
        if statistic.samples == 1:
            return _upper(self.metric, statistic, value, math.inf, least=2)
        n, classes = statistic.samples, self.metric.classes
        level, entropy_level = math.log(4.0 * classes / self.delta), math.log(4.0 / self.delta)
        reach = (2.0 * level / n * statistic.variance).sqrt() + 7.0 * level / (3.0 * (n - 1))
        gap = math.sqrt(2.0 * statistic.entropy_variance * entropy_level / n)
        gap += 7.0 * math.log(classes) * entropy_level / (3.0 * (n - 1))
        upper = _largest_entropy(statistic.mean, reach) - statistic.entropy_mean + gap
        return _upper(self.metric, statistic, value, upper)


@dataclass(frozen=True)
class InceptionNaiveBound:
    """Naive-UCB of the seed paper (equations.md §2b), which knows of the data only n and K; C′ = log K.

    value = log IS̃, optimistic = upper = log IŜ. Raises ValueError on δ outside (0, 1).
    """

    metric: InceptionScore
    delta: float = 0.05
    name: str = field(default="naive", init=False)

    def __post_init__(self) -> None:
        check_delta(self.delta)

    def statistic(self) -> ClassStatistic:
        """See `Bound.statistic`."""
        return self.metric.statistic()

    def estimate(self, statistic: ClassStatistic) -> Estimate:
        """See `Bound.estimate`."""
        value = self.metric.plug_in(statistic)
        n, classes = statistic.samples, self.metric.classes
        reach = torch.full_like(statistic.mean, math.sqrt(math.log(4.0 * classes / self.delta) / (2.0 * n)))
        gap = math.log(classes) * math.sqrt(math.log(4.0 / self.delta) / (2.0 * n))
        upper = _largest_entropy(statistic.mean, reach) - statistic.entropy_mean + gap
        return _upper(self.metric, statistic, value, upper)


@dataclass(frozen=True)
class InceptionInfluence:
    """The numbers of one analysis, in decisions.md's order; errors are standard deviations, before any floor."""

    plug_in: float
    """log IS̃."""
    estimate: float
    """The jackknife over ten folds."""
    miller_madow: float
    """The plug-in less the first term of its bias: another de-biased value, whose distance is counted as error."""
    influence_variance: float
    second_order_variance: float
    plain_error: float
    error: float
    """sd_select and sd_stop, which are one here."""


def analyse_inception(metric: InceptionScore, statistic: ClassStatistic) -> InceptionInfluence:
    """From n ≥ 2 samples, by decisions.md §2 (IS). Raises ValueError on fewer, or on a statistic of other classes."""
    plug_in, n = metric.plug_in(statistic), statistic.samples
    variance = statistic.variance
    if not bool(variance.any()):
        return InceptionInfluence(plug_in, plug_in, plug_in, 0.0, 0.0, 0.0, 0.0)
    mean, rows = statistic.mean, statistic.last_rows
    floored = mean.clamp_min(SMALLEST_PROBABILITY)
    estimate = _jackknife(statistic)
    miller_madow = plug_in + float((variance / floored).sum()) / (2.0 * n)

    influence_variance = float((-(rows @ floored.log()) - entropy(rows)).var())
    scaled = (rows[-SECOND_ORDER_ROWS:] - mean) / floored.sqrt()
    # ‖Q‖_F² is the same of the smaller product.
    product = scaled @ scaled.T if len(scaled) < metric.classes else scaled.T @ scaled
    squares = float(product.square().sum()) / len(scaled) ** 2
    trace = float(product.trace()) / len(scaled)
    second_order = 0.5 * max(squares - trace**2 / len(scaled), 0.05 * squares)

    plain = influence_variance / n + second_order / n**2
    return InceptionInfluence(
        plug_in=plug_in,
        estimate=estimate,
        miller_madow=miller_madow,
        influence_variance=influence_variance,
        second_order_variance=second_order,
        plain_error=math.sqrt(plain),
        error=math.hypot(math.sqrt(plain * (1.0 + 20.0 / n)), 3.0 * (estimate - miller_madow)),
    )


class InceptionInfluenceBound:
    """value ± z(1 − δ/2) · sd around the jackknife's log IS, one sd to rank and to stop (decisions.md §2, IS).

    One sample has no estimate: its value is the plug-in, without errors, in an infinite interval. Raises ValueError on
    δ outside (0, 1).
    """

    name = "influence"

    def __init__(self, metric: InceptionScore, delta: float = 0.05) -> None:
        self.metric = metric
        self.delta = check_delta(delta)

    def statistic(self) -> ClassStatistic:
        """See `Bound.statistic`."""
        return self.metric.statistic()

    def estimate(self, statistic: ClassStatistic) -> Estimate:
        """See `Bound.estimate`."""
        metric, notes = self.metric, _warnings(statistic, least=2)
        if statistic.samples < 2:
            plug_in = metric.plug_in(statistic)
            return two_sided(metric, statistic.samples, plug_in, plug_in, None, self.delta, notes)
        found = analyse_inception(metric, statistic)
        errors = (found.error, found.error)
        return two_sided(metric, statistic.samples, found.estimate, found.plug_in, errors, self.delta, notes)


def _largest_entropy(mean: Tensor, reach: Tensor) -> float:
    """E(Clip_{1/e}(p̃, ε)), p̃ and ε (K): the most that Σ −p log p can be with each p[j] within ε[j] > 0 of p̃[j]."""
    # −p log p rises up to 1/e and falls after it.
    peak = torch.full_like(mean, 1.0 / math.e)
    return float(entropy(torch.clamp(peak, mean - reach, mean + reach)))


def _jackknife(statistic: ClassStatistic) -> float:
    """log IS by the delete-a-fold jackknife over the folds that have rows, n ≥ 2: at least two do."""
    counts = statistic.fold_counts
    # Sums of the other folds: the total less one's own could fall below zero.
    others = 1.0 - torch.eye(FOLDS, dtype=counts.dtype, device=counts.device)
    without = (others @ statistic.fold_sums)[counts > 0] / (others @ counts)[counts > 0, None]
    folds = len(without)
    whole, parts = float(entropy(statistic.mean)), float(entropy(without).mean())
    return folds * whole - (folds - 1) * parts - statistic.entropy_mean


def _warnings(statistic: ClassStatistic, least: int) -> tuple[str, ...]:
    """What a reader of the estimate must know of its samples; `least` is the number the bound's interval needs."""
    samples, classes = statistic.samples, statistic.classes
    found: list[str] = []
    if samples < least:
        found.append(f"at least {least} samples are needed for an interval")
    if samples < classes:
        found.append(f"fewer samples than classes: {samples} samples and {classes} classes")
    return tuple(found)


def _upper(metric: InceptionScore, statistic: ClassStatistic, plug_in: float, upper: float, least: int = 1) -> Estimate:
    return one_sided(metric, statistic.samples, plug_in, upper, _warnings(statistic, least))
