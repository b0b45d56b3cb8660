"""The Inception score of a generator's class probabilities (equations.md §2), kept as its logarithm."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from optimist.metrics.inception.influence import InceptionAnalysis, analyse_inception
from optimist.metrics.inception.statistic import ClassStatistic, entropy, normalised
from optimist.metrics.rows import copied
from optimist.metrics.score import BaseScore
from optimist_client.errors import FixError
from optimist_client.metrics import InceptionScore as Declared


class InceptionScore(BaseScore):
    """log IS̃ = H(p̃) − Ĥ, higher is better: how varied the classes are overall, and how sure each sample is of its own.

    In logarithms because the optimistic scores of the papers reach e^200. Raises FixError on fewer than 1 class.
    """

    declared = Declared

    def __init__(self, classes: int, *, device: torch.device | str = "cpu") -> None:
        if classes < 1:
            raise FixError(f"need at least 1 class, not {classes}")
        self.classes = classes
        self.device = torch.device(device)

    @property
    def dimension(self) -> int:
        """K, the number of classes."""
        return self.classes

    @property
    def widths(self) -> dict[str, int]:
        """K columns of "probabilities"."""
        return {"probabilities": self.dimension}

    def statistic(self) -> ClassStatistic:
        """An empty statistic of this many classes."""
        return ClassStatistic(self.classes, device=self.device)

    def restore(self, tensors: dict[str, Tensor]) -> ClassStatistic:
        """The statistic whose `state` was `tensors`, on the device. Raises KeyError on missing tensors."""
        return ClassStatistic.from_tensors(tensors, self.device)

    def check(self, statistic: ClassStatistic) -> None:
        """Raises FixError unless the statistic has samples and this many classes."""
        if statistic.classes != self.classes:
            raise FixError(
                f"the statistic has {statistic.classes} classes, not {self.classes}; make it with metric.statistic()"
            )
        if statistic.samples < 1:
            raise FixError("an Inception score needs at least 1 sample")

    def plug_in(self, statistic: ClassStatistic) -> float:
        """log IS̃, never negative. Raises FixError on no samples and on a statistic of other classes."""
        self.check(statistic)
        return max(float(entropy(statistic.mean)) - statistic.entropy_mean, 0.0)

    def analyse(self, statistic: ClassStatistic) -> InceptionAnalysis:
        """The de-biased log IS, from n ≥ 2 samples. Raises FixError on fewer, or on other classes."""
        return analyse_inception(statistic, self.plug_in(statistic))

    def analyse_paired(self, statistic: ClassStatistic, common: Mapping[str, Tensor]) -> InceptionAnalysis:
        """The same with the influence of the rows "probabilities" (m, K). Raises as `analyse` does."""
        rows = normalised(copied(common["probabilities"], self.device))
        return analyse_inception(statistic, self.plug_in(statistic), rows)

    def warnings(self, statistic: ClassStatistic) -> tuple[str, ...]:
        """A warning if there are fewer samples than classes."""
        samples, classes = statistic.samples, statistic.classes
        few = f"fewer samples than classes: {samples} samples and {classes} classes"
        return (few,) if samples < classes else ()
