"""KEN: how many kinds of sample a generator makes more than η times as often as real data have them, and how often."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from optimist.metrics.modes import Mode
from optimist.metrics.novelty.influence import NoveltyAnalysis, analyse_novelty
from optimist.metrics.novelty.reference import RealMoment
from optimist.metrics.novelty.spectrum import Novel, ken
from optimist.metrics.reservoir import Reservoir
from optimist.metrics.rows import copied
from optimist.metrics.score import BaseScore, Identity
from optimist.metrics.vendi.modes import SMALLEST_SHARE, check_counts, shown
from optimist.metrics.vendi.statistic import KernelStatistic
from optimist_client.errors import FixError
from optimist_client.metrics import KEN


class NoveltyScore(BaseScore):
    """KEN of the positive eigenvalues of C_X − η C_Y, the second moments of φ of samples and of real data."""

    declared = KEN

    def __init__(self, real: RealMoment, eta: float) -> None:
        self.real = real
        self.eta = eta
        self.feature_map = real.feature_map

    @property
    def widths(self) -> dict[str, int]:
        """d columns of "features"."""
        return {"features": self.feature_map.dimension}

    def statistic(self) -> KernelStatistic:
        """An empty statistic that keeps the two half-streams apart."""
        return KernelStatistic(self.feature_map, halves=True)

    def restore(self, tensors: dict[str, Tensor]) -> KernelStatistic:
        """The statistic whose `state` was `tensors`. Raises KeyError or ValueError as `from_tensors` does."""
        return KernelStatistic.from_tensors(tensors, self.feature_map)

    def check(self, statistic: KernelStatistic) -> None:
        """Raise FixError unless the statistic has samples and a feature map of this one's sizes."""
        if statistic.sizes != (self.feature_map.dimension, self.feature_map.width):
            raise FixError("the statistic is laid out for another metric; make it with metric.statistic()")
        super().check(statistic)

    def plug_in(self, statistic: KernelStatistic) -> float:
        """KEN of the samples as they are, which is too high on average; from 1 sample or more."""
        self.check(statistic)
        return ken(torch.linalg.eigvalsh(statistic.moment / statistic.samples - self._known()))

    def analyse(self, statistic: KernelStatistic) -> NoveltyAnalysis:
        """The de-biased KEN, from n ≥ 2 samples. Raises FixError on fewer, or on another metric's statistic."""
        self.check(statistic)
        return analyse_novelty(statistic, self._known())

    def analyse_paired(self, statistic: KernelStatistic, common: Mapping[str, Tensor]) -> NoveltyAnalysis:
        """The same with the influence of the rows "features" (m, d). Raises as `analyse` does."""
        self.check(statistic)
        rows = copied(common["features"], self.feature_map.device)
        return analyse_novelty(statistic, self._known(), self.feature_map(rows))

    def modes(self, statistic: KernelStatistic, reservoir: Reservoir, count: int = 5, samples: int = 8) -> list[Mode]:
        """The novel modes: the eigenvectors of the `count` largest positive eigenvalues, with their shares of them all.

        There may be fewer, or none. Raises FixError on a statistic without samples or of another metric, on a
        reservoir without samples and on counts below 1.
        """
        self.check(statistic)
        check_counts(count, samples)
        novel = Novel.of(statistic.moment / statistic.samples - self._known())
        shares = novel.values / novel.values.sum()
        kept = int((shares[:count] > SMALLEST_SHARE).sum())
        vectors = novel.vectors[:, :kept]
        return shown(self.feature_map, reservoir, self.widths, shares[:kept], vectors, samples)

    def identity(self) -> Identity:
        """The feature map."""
        return [(self.feature_map.name, self.feature_map.tensors())]

    def _known(self) -> Tensor:
        """η C_Y (width, width)."""
        return self.eta * self.real.moment
