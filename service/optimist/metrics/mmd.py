"""MMD² and CMMD: squared distances of means in the features of a kernel (equations.md §6)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from optimist.estimates.programme import Floats
from optimist.estimates.skewness import skewness
from optimist.metrics.base import Analysis, Identity, Score, linear_share
from optimist.metrics.feature_maps import Cosine, FeatureMap, GaussianFourier, blocks_of
from optimist.metrics.implementations import Setting, reference_of
from optimist.metrics.mixtures.objective import Common
from optimist.metrics.pair_sums import PairSums, standard_error
from optimist.metrics.state import copied
from optimist.metrics.unsampled import unsampled
from optimist.metrics.vendi.kernels import LARGEST_FIT, Device, KernelSettings, fit_kernel, make_feature_map
from optimist.metrics.vendi.pair_objective import ROWS, PairObjective, RowFunction
from optimist.metrics.vendi.statistic import KernelStatistic
from optimist.references.real_data import RealData, Reference
from optimist_client.metrics import MMD, Kernel
from optimist_client.references import some_places


class MeanMap(FeatureMap):
    """φ (n, width) of rows (n, d), ‖φ‖ = 1, and the same with a 1 behind it (n, width + 1).

    The second moment of this map's output [φ, 1] holds Σφφᵀ, Σφ and n: all that an MMD needs of samples.
    """

    def __init__(self, inner: FeatureMap, normalise: bool) -> None:
        super().__init__(inner.dimension, inner.width + 1, inner.device)
        self.inner, self.name = inner, inner.name
        self._unit = Cosine(inner.dimension, inner.device) if normalise else None

    def check(self, rows: Tensor) -> None:
        if self._unit is not None:
            self._unit.check(rows)
            rows = self._unit(rows.to(self.device, torch.float64))
        self.inner.check(rows)

    def __call__(self, rows: Tensor) -> Tensor:
        """[φ, 1] (n, width) of finite float64 rows (n, d). Raises FixError on rows that have no φ."""
        features = self.plain(rows)
        return torch.cat([features, features.new_ones(len(rows), 1)], dim=1)

    def plain(self, rows: Tensor) -> Tensor:
        """φ (n, width − 1) of the same."""
        return self.inner(rows if self._unit is None else self._unit(rows))

    def tensors(self) -> tuple[Tensor, ...]:
        return self.inner.tensors()


def mean_map(kernel: Kernel, normalise: bool, real: NDArray[np.float64], device: Device) -> MeanMap:
    """The map of a kernel whose bandwidth and landmarks, if open, are fixed by real rows (m, d).

    Raises FixError as `fit_kernel` and `make_feature_map` do.
    """
    settings = KernelSettings.from_kernel(kernel)
    dimension = real.shape[1]
    if settings.is_open:
        chosen = np.random.default_rng(0).permutation(len(real))[: max(LARGEST_FIT, kernel.features)]
        some = torch.from_numpy(real[chosen])
        settings = fit_kernel(settings, Cosine(dimension)(some) if normalise else some)
    if settings.name == "gaussian" and settings.omegas is None and isinstance(settings.sigma, float):
        assert isinstance(settings.features, int)
        omegas = orthogonal_normals(dimension, settings.features, settings.seed) / settings.sigma
        return MeanMap(GaussianFourier(torch.from_numpy(omegas), device), normalise)
    return MeanMap(make_feature_map(settings, dimension, device), normalise)


def orthogonal_normals(dimension: int, count: int, seed: int) -> NDArray[np.float64]:
    """Columns (dimension, count) like draws of N(0, I), in groups of `dimension` that are orthogonal and equally long.

    The mean square of all lengths is exactly `dimension`. Over a wide kernel MMD² is a quadratic form in the difference
    of the means, and whole groups give that almost exactly: at d = 768 and σ = 10, where independent normals are off by
    5 %, by less than 0.1 %. Source: Yu et al., Orthogonal Random Features; equal lengths in a group are a choice.
    """
    rng = np.random.default_rng(seed)
    groups = math.ceil(count / dimension)
    bases = [np.linalg.qr(rng.standard_normal((dimension, dimension)))[0] for _ in range(groups)]
    lengths = np.repeat(np.linalg.norm(rng.standard_normal((groups, dimension)), axis=1), dimension)[:count]
    return np.concatenate(bases, axis=1)[:, :count] * (lengths / np.sqrt(np.square(lengths).mean() / dimension))


class RealMean(Reference):
    """The mean of φ over real rows (m, d), float64, m ≥ 2. Raises FixError on rows without a φ."""

    def __init__(self, feature_map: MeanMap, rows: NDArray[np.float64]) -> None:
        self.feature_map, self.dimension = feature_map, feature_map.dimension
        self.samples = len(rows)
        total = torch.zeros(feature_map.width - 1, dtype=torch.float64, device=feature_map.device)
        for block in blocks_of(rows, feature_map.device):
            total += feature_map.plain(block).sum(0)
        self.mean: Tensor = total / len(rows)
        """(width of φ,)"""
        self.some: Tensor = feature_map.plain(torch.from_numpy(rows[some_places(len(rows))]).to(feature_map.device))
        """φ of a random choice of the rows (k, width of φ)."""

    @cached_property
    def excess(self) -> float:
        """The mean kernel over all pairs of real rows minus that over pairs of different rows, which is unbiased."""
        square, m = float(self.mean @ self.mean), self.samples
        return (1.0 - square) / (m - 1)


@dataclass(frozen=True)
class FeatureSums:
    """Products of n features φ, ‖φ‖ = 1, by which pair sums against a mean m (w,) are computed: s = Σφ and C = Σφφᵀ."""

    n: int
    total: Tensor
    """s (w,)."""
    with_mean: Tensor
    """C m (w,)."""
    with_total: Tensor
    """C s (w,)."""
    square: float
    """‖C‖_F²."""

    def sums(self, mean: Tensor) -> PairSums:
        """The pair sums of q_ab = (φ_a − m)ᵀ(φ_b − m)."""
        n, s, cm = self.n, self.total, self.with_mean
        size, along, within = float(mean @ mean), float(s @ mean), float(mean @ cm)
        gap = s - n * mean
        length = float(gap @ gap)
        a = 1.0 + size
        own = n * a - 2.0 * along
        own_squares = n * a**2 - 4.0 * a * along + 4.0 * within
        crossed = a * length - 2.0 * float((cm - along * mean) @ gap)
        image = self.with_total - n * cm - float(mean @ gap) * s - float(s @ gap) * mean
        image += n * float(mean @ gap) * mean
        square = self.square - 4.0 * float(s @ cm) + 2.0 * n * within
        square += 2.0 * float(s @ s) * size + 2.0 * along**2 - 4.0 * n * along * size + (n * size) ** 2
        return PairSums(
            n,
            total=length - own,
            row_squares=float(gap @ image) - 2.0 * crossed + own_squares,
            squares=square - own_squares,
        )


def pair_sums(statistic: KernelStatistic, mean: Tensor) -> PairSums:
    """The pair sums of the samples against a mean (w,) of φ: of all rows while they are held, then of the moments."""
    rows = statistic.rows
    if rows is None:
        return moments_of(statistic, mean).sums(mean)
    centred = rows[:, :-1] - mean
    products = (centred @ centred.T).fill_diagonal_(0.0)
    by_row = products.sum(1)
    return PairSums(
        len(rows),
        total=float(by_row.sum()),
        row_squares=float(by_row.square().sum()),
        squares=float(products.square().sum()),
    )


def moments_of(statistic: KernelStatistic, mean: Tensor) -> FeatureSums:
    """The products of the second moment of [φ, 1] that `FeatureSums` holds."""
    n, total = statistic.samples, total_of(statistic)
    asked = torch.stack([mean, total])
    with_mean, with_total = statistic.times(torch.cat([asked, asked.new_zeros(2, 1)], dim=1))[:, :-1]
    square = statistic.square_sum - 2.0 * float(total @ total) - float(n) ** 2
    return FeatureSums(n, total, with_mean, with_total, square)


def total_of(statistic: KernelStatistic) -> Tensor:
    """The sum Σφ (w,) of the features of all samples."""
    rows = statistic.rows
    if rows is not None:
        return rows[:, :-1].sum(0)
    last = torch.zeros(1, statistic.width, dtype=torch.float64, device=statistic.feature_map.device)
    last[0, -1] = 1.0
    return statistic.times(last)[0, :-1]


class MeanObjective(PairObjective):
    """κ(x, y) = factor · (φ(x) − m)ᵀ(φ(y) − m), by the sums of φ. m is the mean of real data, taken as exact.

    As weights sum to 1, this is the quadratic loss with kernel k and linear part −2 Σ_y k(x, y) over real rows y.
    Features are φ − m.
    """

    is_log = False

    def prepare(self) -> None:
        super().prepare()
        metric: MeanDiscrepancy = self.metric
        self._mean, self._factor = metric.real.mean, metric.factor
        self._sums = [part.last_column[:-1] for part in self.parts]
        self._gaps = [total - n * self._mean for n, total in zip(self.samples, self._sums, strict=True)]
        self.constant = -metric.factor * metric.real.excess

    def of(self, rows: Tensor) -> Tensor:
        return rows[:, :-1] - self._mean

    def total(self, i: int, j: int) -> float:
        return self._factor * float(self._gaps[i] @ self._gaps[j])

    def unbiased(self, i: int) -> float:
        n, mean = self.samples[i], self._mean
        own = n * (1.0 + float(mean @ mean)) - 2.0 * float(self._sums[i] @ mean)
        return (self.total(i, i) - self._factor * own) / (n * (n - 1))

    def seen(self, features: Tensor, j: int) -> Tensor:
        return self._factor * (features @ self._gaps[j])

    def mix(self, shares: Floats) -> RowFunction:
        gap = torch.stack([float(share) * gap for share, gap in zip(shares, self._gaps, strict=True)]).sum(0)
        return lambda features: self._factor * (features @ gap)

    def itself(self, features: Tensor) -> Tensor:
        return self._factor * features.square().sum(-1)

    def matched(self, features: Tensor, others: Tensor) -> Tensor:
        return self._factor * (features * others).sum(-1)


class MeanDiscrepancy(Score):
    """`factor` · MMD² to real data, lower is better: unbiased, hence also below 0, with its exact variance."""

    mixed = MeanObjective

    def __init__(self, declared: MMD, real: RealMean) -> None:
        self.declared, self.real = type(declared), real
        self.widths = {"features": real.dimension}
        self.factor = declared.factor
        self._settings = declared.model_dump_json(include={"kernel", "normalise"})

    def statistic(self) -> KernelStatistic:
        """An empty statistic of [φ, 1], which keeps data for mixtures past n = width: half-streams and last rows."""
        return KernelStatistic(self.real.feature_map, last=ROWS, halves=True)

    def plug_in(self, statistic: KernelStatistic) -> float:
        """‖mean φ − m‖², the published V-statistic, which is too high by at most 2/n. Raises as `check` does."""
        self.check(statistic)
        gap = total_of(statistic) / statistic.samples - self.real.mean
        return self.factor * float(gap @ gap)

    def analyse(self, statistic: KernelStatistic, common: Common | None = None) -> Analysis:
        self.check(statistic, min_samples=2)
        plug_in = self.plug_in(statistic)
        real, sums = self.real, pair_sums(statistic, self.real.mean)
        error = self.factor * standard_error(sums.variance, sums.n)
        recent = self._influence(statistic, statistic.last_rows[:, :-1])
        analysis = Analysis(
            plug_in=plug_in,
            estimate=self.factor * (sums.mean - real.excess),
            selection_error=error,
            stopping_error=error,
            first_order=linear_share(sums.linear, sums.variance),
            skewness=float(skewness(recent.cpu().numpy())),
            recent=recent,
        )
        if common is None:
            return analysis
        features = real.feature_map.plain(copied(common["features"], real.feature_map.device))
        return replace(
            analysis,
            influence=self._influence(statistic, features),
            reference=-2.0
            * self.factor
            / (statistic.samples * math.sqrt(real.samples))
            * (real.some @ total_of(statistic)),
        )

    def warnings(self, statistic: KernelStatistic) -> tuple[str, ...]:
        """A warning if the φ of no sample is near the φ of any sampled real row."""
        return unsampled(self.real.some, statistic.last_rows[:, :-1], statistic.samples)

    def _influence(self, statistic: KernelStatistic, features: Tensor) -> Tensor:
        """The influence (m,) of samples with these φ (m, w) on the distance."""
        among = (features @ total_of(statistic) - 1.0) / max(statistic.samples - 1, 1)
        return 2.0 * self.factor * (among - features @ self.real.mean)

    def identity(self) -> Identity:
        """The kernel's settings. Real data fixes the rest, and an experiment keeps its reference."""
        return [("kernel", (torch.tensor(list(self._settings.encode()), dtype=torch.uint8),))]


def make(declared: MMD, setting: Setting) -> MeanDiscrepancy:
    """The distance to the metric's reference, which determines the width. Raises FixError without a reference."""
    del setting
    return MeanDiscrepancy(declared, reference_of(declared, RealMean))


def reference(declared: MMD, data: RealData, device: torch.device | str) -> RealMean:
    """The mean of the real rows' features. Raises FixError without rows, and on rows that have no features."""
    rows = data.rows_for(declared.name)
    return RealMean(mean_map(declared.kernel, declared.normalise, rows, device), rows)
