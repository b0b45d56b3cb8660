"""KEN: kinds of samples that are more frequent than in real data (equations.md §8)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from optimist.metrics.base import Analysis, Identity, Score
from optimist.metrics.feature_maps import FeatureMap, blocks_of
from optimist.metrics.implementations import Setting, reference_of
from optimist.metrics.mixtures.objective import Common
from optimist.metrics.reservoir import Reservoir
from optimist.metrics.state import copied
from optimist.metrics.vendi.kernels import LARGEST_FIT, feature_map_of, fit_kernel
from optimist.metrics.vendi.spectrum import SMALLEST_SHARE, check_shown, modes_by_vectors
from optimist.metrics.vendi.statistic import KernelStatistic
from optimist.references.real_data import RealData, Reference
from optimist_client.metrics import KEN
from optimist_client.models.modes import ModeInfo


class RealMoment(Reference):
    """C_Y = (1/m) Σ φφᵀ over real rows (m, d), float64, m ≥ 1. Raises FixError on rows that have no φ."""

    def __init__(self, feature_map: FeatureMap, rows: NDArray[np.float64]) -> None:
        self.feature_map, self.dimension = feature_map, feature_map.dimension
        width, device = feature_map.width, feature_map.device
        total = torch.zeros(width, width, dtype=torch.float64, device=device)
        for block in blocks_of(rows, device):
            features = feature_map(block)
            total.addmm_(features.T, features)
        self.moment = total.div_(len(rows))
        """(width, width)"""


ROUNDING = 1e-12
"""Eigenvalues up to this count as zero. The trace of C_X is 1."""


@dataclass(frozen=True)
class Novel:
    """The positive eigenvalues (k), descending, of a difference D (w, w) with their eigenvectors (w, k)."""

    values: Tensor
    vectors: Tensor

    @classmethod
    def from_difference(cls, difference: Tensor) -> Novel:
        """The positive part of a symmetric matrix."""
        values, vectors = (part.flip(-1) for part in torch.linalg.eigh(difference))
        kept = int((values > ROUNDING).sum())
        return cls(values[:kept], vectors[:, :kept])

    @property
    def score(self) -> float:
        """KEN of these eigenvalues."""
        return ken(self.values)

    @cached_property
    def slopes(self) -> Tensor:
        """log(S/λ) (k), the derivative of KEN in each eigenvalue; S is their sum."""
        return (self.values.sum() / self.values).log()

    def along(self, features: Tensor) -> Tensor:
        """⟨G, φφᵀ⟩ (b,) of φ (b, w), where G is the gradient of KEN: the influence of a sample, up to a constant."""
        return (features @ self.vectors).square() @ self.slopes

    def linear(self, difference: Tensor) -> float:
        """⟨G, D⟩ of another difference D: its KEN, linearised at this one. Of this difference itself it is KEN."""
        return float(((difference @ self.vectors) * self.vectors).sum(0) @ self.slopes)


def ken(eigenvalues: Tensor) -> float:
    """Σ λ log(S/λ) over positive eigenvalues (k), S their sum; 0 where none is positive."""
    positive = eigenvalues[eigenvalues > ROUNDING]
    return float((positive * (positive.sum() / positive).log()).sum())


def analyse_novelty(statistic: KernelStatistic, real: Tensor, common: Tensor | None = None) -> Analysis:
    """The analysis of n ≥ 2 samples against `real`, η C_Y (width, width).

    The estimate is 2 KEN − ½ (KEN of each half of the stream), and a sample's influence 2 q − q of its own half, where
    q = φᵀGφ with the gradient G. Each half's gradient also predicts KEN from the samples of the other half, too low on
    average where KEN of the samples is too high: the two are the bracket. common: φ (m, width) whose influence is
    wanted.
    """
    n = statistic.samples
    whole = Novel.from_difference(statistic.moment / n - real)
    counts = ((n + 1) // 2, n // 2)
    differences = [statistic.half_moment(parity) / count - real for parity, count in enumerate(counts)]
    halves = [Novel.from_difference(difference) for difference in differences]
    plug_in = whole.score
    estimate = 2.0 * plug_in - 0.5 * sum(half.score for half in halves)
    predicted = 0.5 * (halves[0].linear(differences[1]) + halves[1].linear(differences[0]))
    width = max(plug_in - predicted, 0.0)
    # Measured: the remaining bias is below the square of the bracket's width, relative to the score.
    systematic = width * min(0.5 * width / plug_in, 1.0) if plug_in > 0.0 else 0.0
    last = statistic.last_rows
    parity = torch.arange(n - len(last), n, device=last.device) % 2
    own = torch.where(parity == 0, halves[0].along(last), halves[1].along(last))
    recent = whole.along(last)
    variance = float((2.0 * recent - own).var()) / n
    error = math.hypot(math.sqrt(variance), systematic)
    biased = (
        f"few samples for what they show: of {n} samples KEN is too high by an unknown part of {width:.2g}, which is "
        "removed by an estimate"
    )
    return Analysis(
        plug_in=plug_in,
        estimate=estimate,
        details={"sampling_error": math.sqrt(variance)},
        selection_error=error,
        stopping_error=error,
        bracket=(max(min(predicted, estimate), 0.0), max(plug_in, estimate)),
        systematic_selection=systematic,
        systematic_stopping=systematic,
        influence=None if common is None else whole.along(common),
        recent=recent,
        warnings=(biased,) if systematic**2 > variance else (),
    )


class NoveltyScore(Score):
    """KEN of the positive eigenvalues of C_X − η C_Y, the second moments of φ of samples and of real data."""

    declared = KEN

    def __init__(self, real: RealMoment, eta: float) -> None:
        self.real = real
        self.eta = eta
        self.feature_map = real.feature_map
        self.widths = {"features": real.dimension}

    def statistic(self) -> KernelStatistic:
        """An empty statistic that keeps the two half-streams apart."""
        return KernelStatistic(self.feature_map, halves=True)

    def plug_in(self, statistic: KernelStatistic) -> float:
        """KEN of the samples, too high on average; from 1 sample or more."""
        self.check(statistic)
        return ken(torch.linalg.eigvalsh(statistic.moment / statistic.samples - self._scaled_real()))

    def analyse(self, statistic: KernelStatistic, common: Common | None = None) -> Analysis:
        self.check(statistic, min_samples=2)
        rows = None if common is None else self.feature_map(copied(common["features"], self.feature_map.device))
        return analyse_novelty(statistic, self._scaled_real(), rows)

    def modes(
        self, statistic: KernelStatistic, reservoir: Reservoir, count: int = 5, samples: int = 8
    ) -> list[ModeInfo]:
        """The novel modes: the eigenvectors of the `count` largest positive eigenvalues, with their shares of the sum.

        There may be fewer, or none. Raises FixError on a statistic without samples or of another metric, on a
        reservoir without samples and on counts below 1.
        """
        self.check(statistic)
        check_shown(self.feature_map, count, samples)
        novel = Novel.from_difference(statistic.moment / statistic.samples - self._scaled_real())
        shares = novel.values / novel.values.sum()
        kept = int((shares[:count] > SMALLEST_SHARE).sum())
        vectors = novel.vectors[:, :kept]
        return modes_by_vectors(self.feature_map, reservoir, self.widths, shares[:kept], vectors, samples)

    def identity(self) -> Identity:
        return [(self.feature_map.name, self.feature_map.tensors())]

    def _scaled_real(self) -> Tensor:
        """η C_Y (width, width)."""
        return self.eta * self.real.moment


def make(declared: KEN, setting: Setting) -> NoveltyScore:
    """The novelty against the reference, which determines width and kernel. Raises FixError without a reference."""
    del setting
    return NoveltyScore(reference_of(declared, RealMoment), declared.eta)


def reference(declared: KEN, data: RealData, device: torch.device | str) -> RealMoment:
    """The second moment of the real rows' φ. Raises FixError without rows, and on rows that have no φ."""
    rows = data.rows_for(declared.name)
    # Some rows of all, as real data may be in the order of their classes.
    some = np.random.default_rng(0).permutation(len(rows))[: max(LARGEST_FIT, declared.kernel.features)]
    settings = fit_kernel(declared.kernel, torch.from_numpy(rows[some]))
    return RealMoment(feature_map_of(settings, rows.shape[1], device), rows)
