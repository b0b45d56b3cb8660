"""Makes the score of the declared metric FID, and the papers' bounds of it (equations.md §1)."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from optimist.metrics.bound import PaperBound
from optimist.metrics.fid.reference import FrechetReference
from optimist.metrics.fid.score import FrechetDistance
from optimist.metrics.fid.statistic import GaussianStatistic
from optimist.metrics.implementations import Setting, reference_of
from optimist.metrics.spectra.symmetric import SymmetricSum
from optimist.references.real_data import RealData
from optimist_client.errors import FixError
from optimist_client.metrics import FID


def _check(name: str, value: float, *, positive: bool = False) -> None:
    if not (math.isfinite(value) and value >= 0.0 and (value > 0.0 or not positive)):
        raise FixError(f"{name} must be finite and {'positive' if positive else 'not negative'}, not {value!r}")


def _kept_sums(scatter: SymmetricSum, n: int, threshold: float, weights: Tensor) -> tuple[float, float]:
    """Σ T and Σ T·`weights`, at least 0, where T (d, d) has those entries of scatter / n that reach `threshold` ≥ 0.

    `weights` (d, d) is symmetric. In blocks that the processor's caches hold: one pass over the matrices. Entries below
    zero are cut whatever their size, so Σ T is Σ |T|, and the second sum has no sign of its own.
    """
    block_rows = 32  # half a megabyte at d = 2048
    entries = trace = 0.0
    for part, rows, columns, times in scatter.parts():
        for block, of_weights in zip(part.split(block_rows), weights[rows, columns].split(block_rows), strict=True):
            kept = block / n
            kept = torch.where(kept >= threshold, kept, 0.0).flatten()
            entries += times * float(kept.sum())
            trace += times * float(kept @ of_weights.flatten())
    return entries, max(trace, 0.0)


@dataclass(frozen=True, eq=False)
class _FrechetBound(PaperBound):
    """value − bonus is the only finite end of the interval, by which a policy ranks."""

    def end(self, statistic: GaussianStatistic, value: float) -> float:
        return value - self.bonus(statistic)

    @abstractmethod
    def bonus(self, statistic: GaussianStatistic) -> float:
        """B of equations.md §1, from `min_samples` samples on."""


@dataclass(frozen=True, eq=False)
class FrechetTheoremBound(_FrechetBound):
    """FID-UCB of the seed paper with its Appendix D.5 (equations.md §1a): value = FID̃, optimistic = FID̃ − B.

    sigma2: σ², > 0; tau: the truncation of the covariance as a part of ‖Σ_r‖₂; mean_gap: ‖μ_g − μ_r‖, assumed.
    Raises FixError on values that make no sense.
    """

    name = "theorem"
    sigma2: float = 1.0
    tau: float = 0.075
    mean_gap: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        _check("sigma2", self.sigma2, positive=True)
        _check("tau", self.tau)
        _check("mean_gap", self.mean_gap)

    def statistic(self) -> GaussianStatistic:
        """An empty statistic that holds the scatter, which this bound reads from the first sample on."""
        return self.metric.statistic(scatter=True)

    def bonus(self, statistic: GaussianStatistic) -> float:
        n, d, delta, reference = statistic.samples, self.metric.dimension, self.delta, self.metric.reference
        scatter = statistic.triangle
        entries, trace = _kept_sums(scatter, n, self.tau * reference.norm, reference.covariance)
        norm = float(scatter.diagonal().amax()) / n + math.sqrt(math.log(1.0 / delta) / n)
        tail = math.sqrt(32.0 * math.log(24.0 * d / delta))
        own_gap = math.sqrt(2.0 * entries / n) * math.sqrt(tail)
        spread = math.sqrt(statistic.scatter_trace / n)
        lipschitz = 2.0 * (self.mean_gap + own_gap + spread)
        covariance_gap = 20.0 * self.sigma2 * norm * math.sqrt((4.0 * trace / norm + math.log(3.0 / delta)) / n)
        return (
            lipschitz * own_gap
            + trace * math.sqrt(8.0 / n * math.log(6.0 * d / delta))
            + reference.root_trace * math.sqrt(8.0 * (covariance_gap + 2.0 * entries / n * tail))
        )


@dataclass(frozen=True, eq=False)
class FrechetAuthorsBound(_FrechetBound):
    """FD-UCB, the authors' later bonus (equations.md §1b), on the distance with the 1/(n − 1) covariance.

    M: the threshold on the covariance's entries; kappa: κ. Raises FixError on values that make no sense.
    One sample has no such covariance: the value is the 1/n distance and the interval is infinite.
    """

    name = "authors"
    min_samples = 2
    M: float = 0.0
    kappa: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        _check("M", self.M)
        _check("kappa", self.kappa, positive=True)

    def statistic(self) -> GaussianStatistic:
        """An empty statistic that holds the scatter, which this bound reads from the first sample on."""
        return self.metric.statistic(scatter=True)

    def value(self, statistic: GaussianStatistic) -> float:
        return self.metric.plug_in(statistic, unbiased=True)

    def bonus(self, statistic: GaussianStatistic) -> float:
        n, reference = statistic.samples, self.metric.reference
        scatter, degrees = statistic.triangle, n - 1
        trace = float(scatter.diagonal().sum()) / degrees
        if self.M > 0.0:
            covariance = statistic.scatter / degrees
            deviations = covariance.diagonal().clamp_min(0.0).sqrt()
            noise = self.M * math.sqrt(2.0 * math.log(self.metric.dimension) / n) * deviations[:, None] * deviations
            covariance = torch.where(covariance.abs() < noise, 0.0, covariance)
            norm, squares = float(torch.linalg.eigvalsh(covariance)[-1]), float(covariance.square().sum())
        else:
            largest = self.metric.largest_eigenvalue(statistic)
            norm = (float(torch.linalg.eigvalsh(scatter.dense())[-1]) if largest is None else largest) / degrees
            squares = scatter.square_sum() / degrees / degrees
        norm = max(norm, 0.0)
        level = math.log(1.0 / self.delta)
        effective_rank = trace / norm if norm > 0.0 else 0.0
        mean_gap = math.sqrt((math.sqrt(squares * level) + norm * level) / n)
        covariance_gap = self.kappa**2 * norm * math.sqrt((effective_rank + level) / n) + mean_gap**2
        distance = float((statistic.mean - reference.mean).norm())
        return (
            mean_gap * (mean_gap + distance)
            + reference.root_trace * math.sqrt(covariance_gap)
            + trace * math.sqrt(level / n)
            + norm * level / n
        )


@dataclass(frozen=True, eq=False)
class FrechetNaiveBound(_FrechetBound):
    """Naive-UCB of the seed paper (equations.md §1c), which uses only the dimension and the spread of the data.

    sigma2: σ² > 0, or None for ‖Σ_r‖₂; mean_gap: ‖μ_g − μ_r‖, assumed. Raises FixError on values that make no sense.
    """

    name = "naive"
    sigma2: float | None = None
    mean_gap: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.sigma2 is not None:
            _check("sigma2", self.sigma2, positive=True)
        _check("mean_gap", self.mean_gap)

    def bonus(self, statistic: GaussianStatistic) -> float:
        n, d, delta, reference = statistic.samples, self.metric.dimension, self.delta, self.metric.reference
        sigma2 = reference.norm if self.sigma2 is None else self.sigma2
        level = math.log(6.0 * d / delta)
        own_gap = math.sqrt(sigma2 * d / n * level)
        lipschitz = 2.0 * (self.mean_gap + own_gap + math.sqrt(statistic.scatter_trace / n))
        ratio, tail = math.sqrt(d / n), math.sqrt(math.log(6.0 / delta) / (2.0 * n))
        covariance_gap = reference.norm * (2.0 * ratio + 2.0 * tail + (ratio + tail) ** 2) + sigma2 * d / n * level
        return (
            lipschitz * own_gap
            + reference.trace * math.sqrt(8.0 / n * level)
            + reference.root_trace * math.sqrt(8.0 * covariance_gap)
        )


BOUNDS = {"theorem": FrechetTheoremBound, "authors": FrechetAuthorsBound, "naive": FrechetNaiveBound}


def make(declared: FID, setting: Setting) -> FrechetDistance:
    """The distance to the metric's reference, which determines the width. Raises FixError without a reference."""
    return FrechetDistance(reference_of(declared, FrechetReference, "real features, or their mean and covariance"))


def reference(declared: FID, data: RealData, device: torch.device | str) -> FrechetReference:
    """The moments with their eigenbasis. Raises FixError, as `FrechetReference` does."""
    del declared
    return FrechetReference(data.mean, data.covariance, device, samples=data.samples, some_rows=data.some_rows)
