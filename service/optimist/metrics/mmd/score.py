"""MMD², the squared distance of the mean feature from that of real data."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from optimist.metrics.mixtures.objective import Common, Half
from optimist.metrics.mmd.blends import mean_objective
from optimist.metrics.mmd.reference import RealMean
from optimist.metrics.mmd.sums import pair_sums, total_of
from optimist.metrics.pair_sums import standard_error
from optimist.metrics.rows import copied
from optimist.metrics.score import Analysis, BaseScore, Identity, linear_share
from optimist.metrics.vendi.pair_objective import ROWS, PairObjective
from optimist.metrics.vendi.statistic import KernelStatistic
from optimist.numerics.skewness import skewness
from optimist_client.errors import FixError
from optimist_client.metrics import CMMD, MMD, Metric


class MeanDiscrepancy(BaseScore):
    """`factor` · MMD² to real data, lower is better: unbiased, hence also below 0, with its exact variance."""

    declared: type[Metric] | Metric = MMD

    def __init__(self, declared: MMD, real: RealMean) -> None:
        self.real = real
        self.factor = declared.factor
        self._settings = declared.model_dump_json(include={"kernel", "normalise"})

    @property
    def widths(self) -> dict[str, int]:
        """d columns of "features"."""
        return {"features": self.real.dimension}

    def statistic(self) -> KernelStatistic:
        """An empty statistic of [φ, 1], which keeps what mixtures need past n = width: half-streams and last rows."""
        return KernelStatistic(self.real.feature_map, last=ROWS, halves=True)

    def restore(self, tensors: dict[str, Tensor]) -> KernelStatistic:
        """The statistic whose `state` was `tensors`. Raises KeyError or ValueError as `from_tensors` does."""
        return KernelStatistic.from_tensors(tensors, self.real.feature_map)

    def check(self, statistic: KernelStatistic) -> None:
        """Raises FixError unless the statistic has samples and a feature map of this one's sizes."""
        super().check(statistic)
        if statistic.sizes != (self.real.dimension, self.real.feature_map.width):
            raise FixError("the statistic is laid out for another metric; make it with metric.statistic()")

    def plug_in(self, statistic: KernelStatistic) -> float:
        """‖mean φ − m‖², the published V-statistic, which is too high by at most 2/n. Raises as `check` does."""
        self.check(statistic)
        gap = total_of(statistic) / statistic.samples - self.real.mean
        return self.factor * float(gap @ gap)

    def analyse(self, statistic: KernelStatistic) -> Analysis:
        """The unbiased value and its error, from n ≥ 2 samples. Raises FixError on fewer and as `check` does."""
        plug_in = self.plug_in(statistic)
        if statistic.samples < 2:
            raise FixError("MMD² needs at least 2 samples")
        sums = pair_sums(statistic, self.real.mean)
        error = self.factor * standard_error(sums.variance, sums.n)
        return Analysis(
            plug_in=plug_in,
            estimate=self.factor * (sums.mean - self.real.excess),
            selection_error=error,
            stopping_error=error,
            first_order=linear_share(sums.linear, sums.variance),
            skewness=float(skewness(self._influence(statistic, statistic.last_rows[:, :-1]).cpu().numpy())),
        )

    def analyse_paired(self, statistic: KernelStatistic, common: Mapping[str, Tensor]) -> Analysis:
        """The same with the influence of the rows "features" (m, d). Raises as `analyse` does."""
        real = self.real
        features = real.feature_map.plain(copied(common["features"], real.feature_map.device))
        return replace(
            self.analyse(statistic),
            influence=self._influence(statistic, features),
            recent=self._influence(statistic, statistic.last_rows[:, :-1]),
            reference=-2.0
            * self.factor
            / (statistic.samples * math.sqrt(real.samples))
            * (real.some @ total_of(statistic)),
        )

    def _influence(self, statistic: KernelStatistic, features: Tensor) -> Tensor:
        """That of samples (m,) with these φ (m, w)."""
        among = (features @ total_of(statistic) - 1.0) / max(statistic.samples - 1, 1)
        return 2.0 * self.factor * (among - features @ self.real.mean)

    def objective(
        self, statistics: Sequence[KernelStatistic], half: Half | None = None, common: Sequence[Common | None] = ()
    ) -> PairObjective:
        """The loss of blends by means over pairs. Raises FixError as `Score.objective` does."""
        return mean_objective(self, statistics, half, common)

    def identity(self) -> Identity:
        """The kernel's settings. Real data fixes the rest, and an experiment keeps its reference."""
        return [("kernel", (torch.tensor(list(self._settings.encode()), dtype=torch.uint8),))]


class EmbeddingDiscrepancy(MeanDiscrepancy):
    """CMMD."""

    declared = CMMD
