"""Means of one number for each sample, with confidence sequences (rules/estimates.md).

Source: Waudby-Smith and Ramdas, Estimating means of bounded random variables by betting (2024), theorems 2 and 3.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import replace
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from optimist.estimates.clusters import FEW, Alike, alike_warning, clustered_variance, design_effect
from optimist.estimates.estimate import Estimate
from optimist.estimates.prompted import PromptedMean, ScoreTarget
from optimist.metrics.base import Analysis, Score, Statistic
from optimist.metrics.bound import Bound, InfluenceBound, with_strict_interval
from optimist.metrics.cluster_sums import BatchSums, PromptSums
from optimist.metrics.implementations import Setting
from optimist.metrics.mixtures.objective import Common
from optimist.metrics.state import Stateful, check_rows, copied
from optimist_client.errors import FixError
from optimist_client.metrics.mean import OfValues

GRID = 1001
"""Candidate means of the betting sequence, equally spaced from the least to the largest value."""
_MAX_BET = 0.5
"""Largest bet of both sequences, as a fraction of the possible loss."""


class ConfidenceSequence(Stateful, ABC):
    """The interval of the mean of values between two limits, after each of them, intersected over time.

    With probability 1 − `delta` the mean lies in it at all times, if each value has the same mean given all before.
    Values that contradict this, so that no mean is left, do not change the interval.
    """

    held = ("_count", "_sum", "_spread", "_ends", "is_contradicted")

    def __init__(self, limits: tuple[float, float], delta: float) -> None:
        self._limits = limits
        self._delta = delta
        self._level = math.log(2.0 / delta)
        self._count = 0
        self._sum = 0.0
        self._spread = 0.0  # of the scaled values, each about the running mean with itself
        self._ends = (0.0, 1.0)
        self.is_contradicted = False
        """True once the values left no mean, which has probability `delta` if they are alike."""

    @property
    def interval(self) -> tuple[float, float]:
        """The interval as it is now, on the values' scale."""
        low, high = self._limits
        lower, upper = (low + end * (high - low) for end in self._ends)
        return max(lower, low), min(upper, high)

    def add(self, values: Tensor) -> None:
        """Add values (b,), float64, in their order. Raises FixError, changing nothing, outside the limits."""
        low, high = self._limits
        if not low <= float(values.min()) <= float(values.max()) <= high:
            raise FixError(f"values: expected numbers from {low:g} to {high:g}")
        # Few rows at a time, because the betting sequence skips candidates that are already excluded.
        for part in ((values - low) / (high - low)).split(64):
            self._add(part)

    def _add(self, x: Tensor) -> None:
        """Add scaled values (b,), each in [0, 1]."""
        t = torch.arange(self._count + 1, self._count + len(x) + 1, dtype=torch.float64)
        sums = self._sum + x.cumsum(0)
        spreads = self._spread + (x - (0.5 + sums) / (t + 1.0)).square().cumsum(0)
        # Bets on a value use only earlier values.
        means = (0.5 + _before(self._sum, sums)) / t
        variances = (0.25 + _before(self._spread, spreads)) / t
        bets = (2.0 * self._level / (variances * t * torch.log1p(t))).sqrt()
        lower, upper = self._step(x, bets, means)
        self._count, self._sum, self._spread = self._count + len(x), float(sums[-1]), float(spreads[-1])
        self._narrow(lower, upper)

    @abstractmethod
    def _step(self, x: Tensor, bets: Tensor, means: Tensor) -> tuple[Tensor, Tensor]:
        """Add scaled values (b,) with their bets and the means before them; the ends (b,) after each of them."""

    def _narrow(self, lower: Tensor, upper: Tensor) -> None:
        if self.is_contradicted:
            return
        lower = lower.clamp_min(self._ends[0]).cummax(0).values
        upper = upper.clamp_max(self._ends[1]).cummin(0).values
        left = int((lower < upper).sum())  # after the first contradiction there are only more
        if left:
            self._ends = float(lower[left - 1]), float(upper[left - 1])
        self.is_contradicted = left < len(lower)


class EmpiricalBernstein(ConfidenceSequence):
    """The predictable plug-in empirical Bernstein sequence (theorem 2)."""

    held = (*ConfidenceSequence.held, "_totals")

    def __init__(self, limits: tuple[float, float], delta: float) -> None:
        super().__init__(limits, delta)
        self._totals = torch.zeros(3, dtype=torch.float64)  # of the bets λ, of λx, and of the variances that they cost

    def _step(self, x: Tensor, bets: Tensor, means: Tensor) -> tuple[Tensor, Tensor]:
        bets = bets.clamp_max(_MAX_BET)
        costs = (x - means).square() * (-torch.log1p(-bets) - bets)
        totals = self._totals[:, None] + torch.stack([bets, bets * x, costs]).cumsum(1)
        self._totals = totals[:, -1].clone()
        centre, half = totals[1] / totals[0], (self._level + totals[2]) / totals[0]
        return centre - half, centre + half


class Betting(ConfidenceSequence):
    """The hedged capital sequence (theorem 3): the capital of a gambler who bets against each candidate mean.

    Betting that the mean is above m earns less for larger m, and the other way round. So the remaining means form an
    interval, and its ends lie between two candidates: the excluded candidate is taken, which is safe.
    """

    held = (*ConfidenceSequence.held, "_wealth")

    def __init__(self, limits: tuple[float, float], delta: float) -> None:
        super().__init__(limits, delta)
        self._grid = torch.arange(GRID, dtype=torch.float64) / (GRID - 1)
        self._wealth = torch.zeros(2, GRID, dtype=torch.float64)  # logarithms: of bets above, and below, each candidate

    def _step(self, x: Tensor, bets: Tensor, means: Tensor) -> tuple[Tensor, Tensor]:
        del means
        # Candidates outside of the ends stay excluded, whatever they would win or lose from here on.
        first, last = (round(end * (GRID - 1)) for end in self._ends)
        grid, wealth = self._grid[first : last + 1], self._wealth[:, first : last + 1]
        gain, bets = x[:, None] - grid, bets[:, None]
        above = torch.log1p(bets.minimum(_MAX_BET / grid) * gain).cumsum(0) + wealth[0]
        below = torch.log1p(-bets.minimum(_MAX_BET / (1.0 - grid)) * gain).cumsum(0) + wealth[1]
        wealth[0], wealth[1] = above[-1], below[-1]
        too_low, too_high = (above >= self._level).sum(1), (below >= self._level).sum(1)
        return grid[(too_low - 1).clamp_min(0)], grid[(len(grid) - too_high).clamp_max(len(grid) - 1)]


def _before(start: float, running: Tensor) -> Tensor:
    """The running sums (b,) before each value instead of after it."""
    return torch.cat([torch.tensor([start], dtype=torch.float64), running[:-1]])


class MeanStatistic(Statistic):
    """Mean, sums of powers of deviations, and extremes, updated one batch at a time in float64, on the CPU.

    Deviations are never taken as Σx² − (Σx)²/n, so that equal values have a variance of exactly zero. Sources: Chan et
    al. (1979) for the squares, Pébay (2008) for the cubes.
    """

    held = ("samples", "mean", "squares", "cubes", "lowest", "highest", "censored", "sequence", "prompts", "batches")
    compares_unknown = True
    allows_for_clusters = True

    def __init__(
        self,
        sequence: ConfidenceSequence | None = None,
        prompts: int | None = None,
        censored_at: float | None = None,
    ) -> None:
        """sequence: an empty confidence sequence, which is given all values in their order.

        prompts: the number of prompts, where `update` gets each value's prompt; None: batches are clusters.
        censored_at: as of `Mean`.
        """
        self.samples = 0
        self.censored = 0
        """Number of values that are at least the told number."""
        self._censored_at = math.inf if censored_at is None else censored_at
        self.mean = 0.0
        self.squares = 0.0
        """Σ (x − mean)²."""
        self.cubes = 0.0
        """Σ (x − mean)³."""
        self.lowest, self.highest = math.inf, -math.inf
        self.sequence = sequence
        self.list_length = prompts
        self.prompts = None if prompts is None else PromptSums(prompts)
        self.batches = BatchSums() if prompts is None else None

    @property
    def variance(self) -> float:
        """The variance with 1/(n − 1). Raises FixError on fewer than 2 samples."""
        if self.samples < 2:
            raise FixError("the variance needs at least 2 samples")
        return self.squares / (self.samples - 1)

    @property
    def farthest(self) -> tuple[float, float]:
        """Distance of the lowest value below the mean, and of the highest above it."""
        return max(self.mean - self.lowest, 0.0), max(self.highest - self.mean, 0.0)

    @property
    def skewness(self) -> float:
        """Σ (x − mean)³/n over the deviation³ by 1/n; 0 where all values are equal, or too large for their cubes."""
        scale = self.squares * math.sqrt(self.squares / self.samples) if self.samples else 0.0
        value = self.cubes / scale if scale > 0.0 else 0.0
        return value if math.isfinite(value) else 0.0

    def update(self, values: Tensor, *, listed: Tensor | None = None) -> None:
        """Add a batch (b ≥ 1, 1) of any real dtype; `listed` (b): its prompts by number, None if unknown.

        Raises FixError, changing nothing, on other shapes, on numbers that are not finite or too large, on an invalid
        prompt, and outside the limits of the confidence sequence.
        """
        check_rows("values", values, 1)
        rows = copied(values, torch.device("cpu")).flatten()
        prompts = None if self.prompts is None else self.prompts.check(listed, len(rows))
        if self.sequence is not None:
            self.sequence.add(rows)
        if self.prompts is not None and prompts is not None:
            self.prompts.add(rows.numpy(), prompts)
        if self.batches is not None:
            self.batches.add(rows.numpy())
        self.censored += int((rows >= self._censored_at).sum())
        # About the first value, so that equal values vary by exactly zero.
        mean = float(rows[0] + (rows - rows[0]).mean())
        before, count, shift = self.samples, len(rows), mean - self.mean
        total, deviations = before + count, rows - mean
        squares, cubes = (float(deviations.pow(power).sum()) for power in (2, 3))
        self.cubes += cubes + shift * shift * shift * (before * count / total * ((before - count) / total))
        self.cubes += 3.0 * shift * ((before * squares - count * self.squares) / total)
        self.squares += squares + shift * shift * (before * count / total)
        self.lowest, self.highest = min(self.lowest, float(rows.min())), max(self.highest, float(rows.max()))
        self.mean += shift * (count / total)
        self.samples = total


UNBOUNDED = (
    "no range is declared, so that time-outs and other rare large values may be missing: the bound betting allows for "
    "them, with a range up to the time-out or the highest cost"
)
"""The warning of latencies, costs, and other means of which lower is better and no value is below 0."""


_INDEPENDENT = Setting({"values": 1})


class MeanScore(Score):
    """The mean of one number for each sample, which has no bias."""

    def __init__(self, declared: OfValues, setting: Setting = _INDEPENDENT) -> None:
        self.declared, self.widths = declared, {"values": 1}
        self.limits = declared.limits.get(declared.first_array())
        self._censored_at: float | None = declared.setting("censored_at")
        self.is_audited = declared.is_audited
        """True if the values are a judge's, of which people audit some."""
        # Answers of people are compared by index, whatever the prompts are.
        self.prompts = None if self.is_audited else setting.prompts
        self.kind: ScoreTarget = "sample" if not setting.are_list else "repeatable" if declared.repeatable else "list"
        self.by_batch = setting.clusters == "batch"
        self.answers_between = declared.answers_between

    def statistic(self, sequence: ConfidenceSequence | None = None) -> MeanStatistic:
        return MeanStatistic(sequence, self.prompts, self._censored_at)

    def plug_in(self, statistic: MeanStatistic) -> float:
        self.check(statistic)
        return statistic.mean

    def analyse(self, statistic: MeanStatistic, common: Common | None = None) -> Analysis:
        """The influence of common rows is their distance from the mean."""
        analysis = self._of_values(statistic, common)
        if statistic.prompts is not None and len(statistic.prompts.seen) > 0:
            return self._of_prompts(statistic, statistic.prompts, common, analysis)
        return analysis if statistic.batches is None else self._of_batches(statistic, statistic.batches, analysis)

    def _of_values(self, statistic: MeanStatistic, common: Common | None) -> Analysis:
        """Analysis of independent samples."""
        n, mean = statistic.samples, statistic.mean
        error = math.sqrt(statistic.variance / n * (1.0 + FEW / n))
        if statistic.squares == 0.0 and self.limits is not None:
            # Equal values have no spread; one sample at the farther limit would have had about this one.
            error = max(mean - self.limits[0], self.limits[1] - mean) / n
        rows = None if common is None else copied(common["values"], torch.device("cpu")).flatten()
        # Values that repeat may be equal in all pairs of two generators; one more pair could differ by a step.
        step = 0.0 if rows is None else min(step_of(rows) / (math.sqrt(2.0) * n), error)
        return Analysis(
            plug_in=mean,
            estimate=mean,
            selection_error=error,
            stopping_error=error,
            systematic_selection=step,
            systematic_stopping=step,
            influence=None if rows is None else rows - mean,
            value_skewness=statistic.skewness,
            censored=statistic.censored,
            farthest=None if self.limits else statistic.farthest,
            warnings=(*self._rare_values(statistic), *self._censored(statistic)),
        )

    def _of_prompts(
        self, statistic: MeanStatistic, sums: PromptSums, common: Common | None, analysis: Analysis
    ) -> Analysis:
        """Analysis of samples of recurring prompts (rules/calibration.md)."""
        mean = self._prompted(statistic, sums, common)
        variance = mean.parts.total
        if statistic.squares == 0.0:
            # Equal values say as little about other prompts as about other samples.
            variance = 0.0 if mean.is_complete else analysis.stopping_error**2
        error, step = math.sqrt(variance), analysis.systematic_stopping
        if mean.kind == "repeatable":
            step *= math.sqrt(max(1.0 - len(mean.prompts) / mean.length, 0.0))
        value = analysis.estimate if mean.kind != "repeatable" else float(sums.means[mean.prompts].mean())
        step = min(step, error)
        errors = {"selection_error": error, "stopping_error": error}
        errors |= {"systematic_selection": step, "systematic_stopping": step}
        warnings = self._censored(statistic) if mean.is_complete else analysis.warnings
        # Equal values of a prompt may have a share of the squares by rounding.
        if mean.kind == "repeatable" and sums.squares > 1e-12 * statistic.squares:
            warnings += ("answers to one prompt have different scores, so that they are not repeatable",)
        return replace(analysis, estimate=value, prompted=mean, farthest=None, warnings=warnings, **errors)

    def _prompted(self, statistic: MeanStatistic, sums: PromptSums, common: Common | None) -> PromptedMean:
        """The mean for comparisons. Where a prompt always has the same score, each prompt counts once, and values of
        unknown prompts are left out.
        """
        seen = sums.seen
        means, counts = sums.means[seen], sums.counts[seen]
        prompts = seen.astype(np.int32)
        if self.kind == "repeatable":
            spread = float(means.var(ddof=1)) if len(seen) > 1 else statistic.variance
            ones = np.ones(len(seen), np.int32)
            of_all = means - float(means.mean())
            return PromptedMean(self.kind, len(sums.counts), prompts, ones, of_all, spread, 0.0)
        strays = sums.stray_squares + sums.stray_count * (sums.stray_mean - statistic.mean) ** 2
        residuals = np.zeros(0)
        if common is not None and sums.counts.sum() > len(seen):
            residuals = sums.residuals(copied(common["values"], torch.device("cpu")).flatten(), common["listed"])
        return PromptedMean(
            kind=self.kind,
            length=len(sums.counts),
            prompts=prompts,
            counts=counts.astype(np.int32),
            means=means - statistic.mean,
            variance=statistic.variance,
            squares=sums.squares,
            strays=sums.stray_count,
            stray_squares=strays,
            residuals=residuals,
        )

    def _of_batches(self, statistic: MeanStatistic, sums: BatchSums, analysis: Analysis) -> Analysis:
        """The analysis with a warning where samples of a batch are alike, or with errors that allow for it.

        The added variance is independent of other generators, whatever the seeds are.
        """
        n, batches = statistic.samples, sums.batches
        parts = np.array([sums.root(statistic.mean, n)])
        effect = design_effect(parts, batches, n, statistic.variance)
        if not self.by_batch:
            if not (warnings := alike_warning(Alike(effect, math.sqrt(2.0 / batches)), n, batches)):
                return analysis
            return replace(analysis, design_effect=effect, warnings=(*analysis.warnings, *warnings))
        square = analysis.stopping_error**2
        added = max(float(clustered_variance(parts, batches)) - square, 0.0) if batches > 1 else 0.0
        error, systematic = math.sqrt(square + added), math.sqrt(analysis.systematic_stopping**2 + added)
        changed = {"selection_error": error, "stopping_error": error, "batches": batches, "design_effect": effect}
        return replace(analysis, **changed, systematic_selection=systematic, systematic_stopping=systematic)

    def _censored(self, statistic: MeanStatistic) -> tuple[str, ...]:
        """A warning where values are at least the told number; else none."""
        if not statistic.censored:
            return ()
        counted = f"{statistic.censored:,} of {statistic.samples:,} values were cut off at"
        return (f"{counted} {self._censored_at:g}: the mean is at least what is shown",)

    def _rare_values(self, statistic: MeanStatistic) -> tuple[str, ...]:
        """A warning where the mean may depend on rare values that have not occurred yet; else none."""
        n, skewness = statistic.samples, statistic.skewness
        # No decision is made with fewer.
        if n < 20:
            return ()
        warnings = () if self.limits or not self.lower_is_better or statistic.lowest < 0.0 else (UNBOUNDED,)
        if statistic.squares == 0.0:
            equal = f"all {n:,} values are equal: rare other ones may decide the mean"
            return warnings if self.limits else (*warnings, equal)
        # As for values of two points, one of them with fewer than about five samples.
        if skewness**2 <= 0.2 * n:
            return warnings
        rare = f"rare values decide the mean (skewness {skewness:.1f} of {n:,} samples): more of them may come"
        return (*warnings, rare)


def step_of(values: Tensor) -> float:
    """The distance of a value of `values` (m,) from the nearest other one, as a root mean square over all of them.

    A value that occurs once counts as 0: continuous values are not equal by chance. 0 where all values are equal.
    """
    levels, counts = torch.unique(values, return_counts=True)
    if len(levels) < 2:
        return 0.0
    gaps, end = levels.diff(), levels.new_full((1,), math.inf)
    nearest = torch.minimum(torch.cat([end, gaps]), torch.cat([gaps, end]))
    return math.sqrt(float((nearest.square() * counts * (counts > 1)).sum()) / len(values))


CONTRADICTED = "the values contradict their own earlier interval: their mean may have changed"
"""The warning of a confidence sequence that no mean is left to."""


class _SequenceBound(Bound):
    """The interval of a confidence sequence at level δ around the mean, with the standard error of `influence`.

    Raises FixError on δ outside [1e-12, 1), or a metric without limits.
    """

    sequence: ClassVar[type[ConfidenceSequence]]

    def __post_init__(self) -> None:
        super().__post_init__()
        self._empty()

    def _empty(self) -> ConfidenceSequence:
        if self.metric.limits is None:
            raise FixError("range: a confidence sequence needs the least and the largest value")
        return self.sequence(self.metric.limits, self.delta)

    def statistic(self) -> MeanStatistic:
        return self.metric.statistic(self._empty())

    def estimate(self, statistic: MeanStatistic) -> Estimate:
        estimate, sequence = InfluenceBound(self.metric, self.delta).estimate(statistic), statistic.sequence
        if sequence is None:
            raise FixError("the statistic has no confidence sequence; make it with bound.statistic()")
        return with_strict_interval(estimate, *sequence.interval, (CONTRADICTED,) if sequence.is_contradicted else ())


class EmpiricalBernsteinBound(_SequenceBound):
    """The interval of the empirical Bernstein sequence."""

    name = "empirical-bernstein"
    sequence = EmpiricalBernstein


class BettingBound(_SequenceBound):
    """The interval of the betting sequence, which is narrower and takes a grid of candidate means."""

    name = "betting"
    sequence = Betting


BOUNDS = {"empirical-bernstein": EmpiricalBernsteinBound, "betting": BettingBound}


def make(declared: OfValues, setting: Setting) -> MeanScore:
    """The score of the values. Its sums are a few numbers, which stay on the CPU whatever the device."""
    return MeanScore(declared, setting)
