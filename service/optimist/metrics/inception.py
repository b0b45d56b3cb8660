"""The Inception score: class probabilities, its de-biased estimate and its bounds (equations.md §2).

Everything is in logarithms: values, errors and interval ends are of log IS.
"""

from __future__ import annotations

import math
from typing import Self

import torch
from torch import Tensor

from optimist.anomalies.batches import SIMPLEX_TOLERANCE
from optimist.metrics.base import Analysis, Score, Statistic, linear_share
from optimist.metrics.bound import PaperBound
from optimist.metrics.implementations import Setting
from optimist.metrics.mixtures.objective import Common
from optimist.metrics.state import LastRows, copied
from optimist_client.errors import FixError
from optimist_client.metrics import InceptionScore as Declared

FOLDS = 10
"""Sample i belongs to fold i mod 10, i counted over the whole log."""


def entropy(probabilities: Tensor) -> Tensor:
    """−Σ p log p over the last dimension (…, K), with 0 · log 0 = 0; entries not negative."""
    return torch.special.entr(probabilities).sum(-1)


def normalised(probabilities: Tensor) -> Tensor:
    """Rows (b, K) divided by their sums. Raises FixError where one is not finite, negative, or off the simplex."""
    sums = probabilities.sum(-1, keepdim=True)
    # Slightly wider than the tolerance of the check of batches, which sums in another order.
    near = (sums - 1.0).abs() <= SIMPLEX_TOLERANCE + 1e-9
    # Written so that NaN fails it too.
    if not bool((probabilities >= 0.0).all() & near.all()):
        raise FixError(
            f"probabilities must be finite, not negative and sum to 1 within {SIMPLEX_TOLERANCE:g} in every row"
        )
    return probabilities / sums


class ClassStatistic(Statistic):
    """Mean and variance of p_{Y|x} and of its entropy H(Y|x), updated one batch at a time by Chan's formula in float64.

    The state is a function of the sequence of batches alone: reading a property never changes it. Variances are made of
    deviations, never of Σp² − (Σp)²/n, so identical rows have a variance of exactly zero. Tensors handed out are views
    of the state: do not write to them.
    """

    held = ("samples", "_mean", "_squares", "fold_sums", "_tail")
    can_merge = True

    def __init__(self, classes: int, *, device: torch.device | str = "cpu") -> None:
        if classes < 1:
            raise FixError(f"need at least 1 class, not {classes}")
        self.classes = classes
        self.layout = (classes,)
        self.device = torch.device(device)
        self.samples = 0
        # Moments of the row with its entropy as one more column: (K + 1).
        self._mean = self._zeros(classes + 1)
        self._squares = self._zeros(classes + 1)
        self.fold_sums = self._zeros(FOLDS, classes)
        """Σp over each fold (10, K)."""
        self._tail = LastRows(self._zeros(0, classes), 512)

    @property
    def mean(self) -> Tensor:
        """p̃, the mean row (K); zeros before the first. Never negative."""
        return self._mean[:-1]

    @property
    def variance(self) -> Tensor:
        """Variance of each class's probability (K), with 1/(n − 1). Raises FixError on fewer than 2 samples."""
        return self._variances()[:-1]

    @property
    def entropy_mean(self) -> float:
        """Ĥ, the mean of H(Y|x)."""
        return float(self._mean[-1])

    @property
    def entropy_variance(self) -> float:
        """Variance of H(Y|x), with 1/(n − 1). Raises FixError on fewer than 2 samples."""
        return float(self._variances()[-1])

    @property
    def fold_counts(self) -> Tensor:
        """Rows in each fold (10), float64: they follow from `samples`."""
        fold = torch.arange(FOLDS, dtype=torch.float64, device=self.device)
        return torch.floor((self.samples + FOLDS - 1 - fold) / FOLDS)

    @property
    def last_rows(self) -> Tensor:
        """The last min(samples, 512) rows (·, K), renormalised, in log order."""
        # A copy: the last bit of a sum depends on where its rows begin in memory.
        return self._tail.tensor

    def update(self, probabilities: Tensor) -> None:
        """Add a batch (b, K) of any real dtype, b ≥ 1, each row renormalised if it sums to 1 within 1e-3.

        Raises FixError, changing nothing, on another shape and on rows that are not finite, negative or off the
        simplex.
        """
        if probabilities.ndim != 2 or probabilities.shape[0] < 1 or probabilities.shape[1] != self.classes:
            raise FixError(f"expected a batch of shape (b ≥ 1, {self.classes}), not {tuple(probabilities.shape)}")
        rows = normalised(probabilities.to(self.device, torch.float64).contiguous())
        count = len(rows)
        fold = (self.samples + torch.arange(count, device=self.device)) % FOLDS
        members = fold == torch.arange(FOLDS, device=self.device)[:, None]
        self.fold_sums = self.fold_sums + members.to(torch.float64) @ rows
        columns = torch.cat([rows, entropy(rows)[:, None]], dim=1)
        # Means are taken about the first row, so that identical rows vary by exactly zero. They stay ≥ 0: rounding
        # subtracts far less than the share 1/b that the first row contributes.
        mean = columns[0] + (columns - columns[0]).mean(0)
        self._absorb(count, mean, (columns - mean).square().sum(0))
        self._tail.append(rows)

    def merge(self, other: Self) -> None:
        if other.samples:
            self.fold_sums = self.fold_sums + other.fold_sums.roll(self.samples % FOLDS, 0)
            self._absorb(other.samples, other._mean, other._squares)
            self._tail.append(other.last_rows)

    def _variances(self) -> Tensor:
        if self.samples < 2:
            raise FixError("the variance needs at least 2 samples")
        return self._squares / (self.samples - 1)

    def _absorb(self, count: int, mean: Tensor, squares: Tensor) -> None:
        """Chan's update by `count` rows with this mean and these squared deviations."""
        total = self.samples + count
        shift = mean - self._mean
        self._squares = self._squares + squares + shift.square() * (self.samples * count / total)
        self._mean = self._mean + shift * (count / total)
        self.samples = total


def analyse_inception(statistic: ClassStatistic, plug_in: float, common: Tensor | None = None) -> Analysis:
    """The analysis of n ≥ 2 samples, whose log IS̃ is `plug_in`, with the influence of the rows `common` (m, K).

    The estimate is the jackknife over ten folds. Its difference from another de-biased value, the plug-in minus the
    first term of its bias (Miller and Madow), counts as error.
    """
    n, variance = statistic.samples, statistic.variance
    if not bool(variance.any()):
        return Analysis(
            plug_in=plug_in,
            estimate=plug_in,
            selection_error=0.0,
            stopping_error=0.0,
            influence=None if common is None else common.new_zeros(len(common)),
            recent=statistic.mean.new_zeros(len(statistic.last_rows)),
        )
    mean, rows = statistic.mean, statistic.last_rows
    # For logarithms and quotients.
    floored = mean.clamp_min(1e-12)
    estimate = _jackknife(statistic)
    miller_madow = plug_in + float((variance / floored).sum()) / (2.0 * n)

    recent = _influence(rows, floored)
    influence_variance = float(recent.var())
    # The second-order variance is taken from the last 256 rows.
    scaled = (rows[-256:] - mean) / floored.sqrt()
    # ‖Q‖_F² is equal for both products; take the smaller one.
    product = scaled @ scaled.T if len(scaled) < statistic.classes else scaled.T @ scaled
    squares = float(product.square().sum()) / len(scaled) ** 2
    trace = float(product.trace()) / len(scaled)
    second_order = 0.5 * max(squares - trace**2 / len(scaled), 0.05 * squares)

    plain = influence_variance / n + second_order / n**2
    systematic = 3.0 * abs(estimate - miller_madow)
    error = math.hypot(math.sqrt(plain * (1.0 + 20.0 / n)), systematic)
    return Analysis(
        plug_in=plug_in,
        estimate=estimate,
        details={
            "miller_madow": miller_madow,
            "influence_variance": influence_variance,
            "second_order_variance": second_order,
            "plain_error": math.sqrt(plain),
        },
        selection_error=error,
        stopping_error=error,
        first_order=linear_share(influence_variance / n, plain),
        systematic_selection=systematic,
        systematic_stopping=systematic,
        systematic_sign=1 if estimate > miller_madow else -1,
        influence=None if common is None else _influence(common, floored),
        recent=recent,
    )


def _influence(rows: Tensor, mean: Tensor) -> Tensor:
    """−Σ p log p̄ − H(p) of rows (b, K)."""
    return -(rows @ mean.log()) - entropy(rows)


def _jackknife(statistic: ClassStatistic) -> float:
    """log IS by the delete-a-fold jackknife over the folds that have rows, n ≥ 2: at least two do."""
    counts = statistic.fold_counts
    # Sums of the other folds, because a difference from the total could fall below zero.
    others = 1.0 - torch.eye(FOLDS, dtype=counts.dtype, device=counts.device)
    without = (others @ statistic.fold_sums)[counts > 0] / (others @ counts)[counts > 0, None]
    folds = len(without)
    whole, parts = float(entropy(statistic.mean)), float(entropy(without).mean())
    return folds * whole - (folds - 1) * parts - statistic.entropy_mean


class InceptionScore(Score):
    """log IS̃ = H(p̃) − Ĥ, higher is better: how varied the classes are overall, and how sure each sample is of its own.

    In logarithms because the optimistic scores of the papers reach e^200. Raises FixError on fewer than 1 class.
    """

    declared = Declared

    def __init__(self, classes: int, *, device: torch.device | str = "cpu") -> None:
        if classes < 1:
            raise FixError(f"need at least 1 class, not {classes}")
        self.classes = self.dimension = classes
        self.widths = {"probabilities": classes}
        self.device = torch.device(device)

    def statistic(self) -> ClassStatistic:
        return ClassStatistic(self.classes, device=self.device)

    def plug_in(self, statistic: ClassStatistic) -> float:
        """log IS̃, never negative. Raises FixError on no samples and on a statistic of other classes."""
        self.check(statistic)
        return max(float(entropy(statistic.mean)) - statistic.entropy_mean, 0.0)

    def analyse(self, statistic: ClassStatistic, common: Common | None = None) -> Analysis:
        self.check(statistic, min_samples=2)
        rows = None if common is None else normalised(copied(common["probabilities"], self.device))
        return analyse_inception(statistic, self.plug_in(statistic), rows)

    def warnings(self, statistic: ClassStatistic) -> tuple[str, ...]:
        """A warning if there are fewer samples than classes."""
        samples, classes = statistic.samples, statistic.classes
        few = f"fewer samples than classes: {samples} samples and {classes} classes"
        return (few,) if samples < classes else ()


class InceptionTheoremBound(PaperBound):
    """IS-UCB of the seed paper (equations.md §2a) with C′ = log K, the largest entropy there is.

    value = log IS̃, optimistic = upper = log IŜ, which is +∞ from 1 sample.
    """

    name = "theorem"
    min_samples = 2

    def end(self, statistic: ClassStatistic, value: float) -> float:
        n, classes = statistic.samples, self.metric.classes
        level, entropy_level = math.log(4.0 * classes / self.delta), math.log(4.0 / self.delta)
        reach = (2.0 * level / n * statistic.variance).sqrt() + 7.0 * level / (3.0 * (n - 1))
        gap = math.sqrt(2.0 * statistic.entropy_variance * entropy_level / n)
        gap += 7.0 * math.log(classes) * entropy_level / (3.0 * (n - 1))
        return _largest_entropy(statistic.mean, reach) - statistic.entropy_mean + gap


class InceptionNaiveBound(PaperBound):
    """Naive-UCB of the seed paper (equations.md §2b), which uses only n and K; C′ = log K.

    value = log IS̃, optimistic = upper = log IŜ.
    """

    name = "naive"

    def end(self, statistic: ClassStatistic, value: float) -> float:
        n, classes = statistic.samples, self.metric.classes
        reach = torch.full_like(statistic.mean, math.sqrt(math.log(4.0 * classes / self.delta) / (2.0 * n)))
        gap = math.log(classes) * math.sqrt(math.log(4.0 / self.delta) / (2.0 * n))
        return _largest_entropy(statistic.mean, reach) - statistic.entropy_mean + gap


def _largest_entropy(mean: Tensor, reach: Tensor) -> float:
    """E(Clip_{1/e}(p̃, ε)), p̃ and ε (K): the most that Σ −p log p can be with each p[j] within ε[j] > 0 of p̃[j]."""
    # −p log p rises up to 1/e and falls after it.
    peak = torch.full_like(mean, 1.0 / math.e)
    return float(entropy(torch.clamp(peak, mean - reach, mean + reach)))


BOUNDS = {"theorem": InceptionTheoremBound, "naive": InceptionNaiveBound}


def make(declared: Declared, setting: Setting) -> InceptionScore:
    """The score of as many classes as the probabilities have columns."""
    return InceptionScore(setting.widths[declared.first_array()], device=setting.device)
