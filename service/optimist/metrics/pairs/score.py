"""Prompt-conditioned kernel scores: signed sums of the entropies of outputs, prompts and both (equations.md §4)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from torch import Tensor

from optimist.metrics.feature_maps import GaussianFourier
from optimist.metrics.modes import Mode, PromptGroup
from optimist.metrics.pairs.influence import analyse_conditioned
from optimist.metrics.pairs.modes import prompt_groups
from optimist.metrics.pairs.statistic import JointStatistic, Part, joint_map
from optimist.metrics.reservoir import Reservoir
from optimist.metrics.score import BaseScore, Identity
from optimist.metrics.vendi.entropy import check_order, log_vendi
from optimist.metrics.vendi.influence import KernelAnalysis
from optimist.metrics.vendi.modes import modes_of
from optimist.metrics.vendi.score import VendiScore
from optimist.metrics.vendi.statistic import KernelStatistic
from optimist_client import metrics
from optimist_client.errors import FixError


class ConditionedScore(BaseScore):
    """A signed sum of entropies H_α of order α > 0, inf included, in log; higher is better.

    Each entropy is a `VendiScore` through its own map. Of the exact kernels, H_α(X, T) is at least H_α(T) and H_α(X)
    for every α (its spectrum is majorized by theirs), but only for α = 1 is it at most their sum: Information-Vendi of
    another order may be below 1. The joint map's kernel is the product of the two others only as r → ∞, so with random
    features no inequality holds exactly, and no sum is clamped. At order 2, `prompts` is the length of the list that
    the prompts are, if the score is that on these. Raises FixError on an order that is not positive, or on maps of
    different r.
    """

    terms: ClassVar[Mapping[Part, float]]
    """The entropies in the sum, with their signs."""

    def __init__(
        self,
        features_map: GaussianFourier,
        prompts_map: GaussianFourier,
        order: float = 1.0,
        prompts: int | None = None,
    ) -> None:
        self.prompts = prompts
        self.features_map = features_map
        self.prompts_map = prompts_map
        self.order = check_order(order)
        self.joint_map = joint_map(features_map, prompts_map)
        maps = {"joint": self.joint_map, "prompts": prompts_map, "features": features_map}
        self.entropies = {part: VendiScore(maps[part], order) for part in self.terms}

    @property
    def dimension(self) -> int:
        """d, the columns of an output."""
        return self.features_map.dimension

    @property
    def prompt_dimension(self) -> int:
        """d_t, the columns of a prompt."""
        return self.prompts_map.dimension

    @property
    def widths(self) -> dict[str, int]:
        """d columns of "features" and d_t of "prompts"."""
        return {"features": self.dimension, "prompts": self.prompt_dimension}

    @property
    def width(self) -> int:
        """2r, the columns of every φ."""
        return self.features_map.width

    @property
    def needs_halves(self) -> bool:
        """Whether its de-biased estimate reads the two half-streams (decisions.md §2)."""
        return self.entropies["joint"].needs_halves

    def statistic(self) -> JointStatistic:
        """An empty statistic of the parts in `terms`, which keeps half-streams past n = width if the analysis does."""
        return JointStatistic(
            self.features_map,
            self.prompts_map,
            halves=self.needs_halves,
            marginal="features" in self.terms,
            joint=self.joint_map,
            list_length=self.prompts,
        )

    def restore(self, tensors: dict[str, Tensor]) -> JointStatistic:
        """The statistic whose `state` was `tensors`. Raises KeyError or ValueError as `from_tensors` does."""
        return JointStatistic.from_tensors(tensors, self.features_map, self.prompts_map, self.joint_map)

    def check(self, statistic: JointStatistic) -> None:
        """Raises FixError unless the statistic has samples, the parts in `terms`, and maps of these ones' sizes."""
        own = (self.dimension, self.prompt_dimension, self.width)
        if statistic.sizes != own or ("features" in self.terms and statistic.features is None):
            raise FixError("the statistic is laid out for another metric; make it with metric.statistic()")
        if statistic.samples < 1:
            raise FixError("a kernel score needs at least 1 sample")

    def parts(self, statistic: JointStatistic) -> dict[Part, KernelStatistic]:
        """The statistic of each entropy in `terms`. Raises FixError as `check` does."""
        self.check(statistic)
        held = {"joint": statistic.joint, "prompts": statistic.prompts, "features": statistic.features}
        return {part: of_part for part, of_part in held.items() if of_part is not None and part in self.terms}

    def plug_in(self, statistic: JointStatistic) -> float:
        """The log score of the samples as they are. Raises FixError on no samples or another layout."""
        parts = self.parts(statistic)
        return sum(sign * self.entropies[part].plug_in(parts[part]) for part, sign in self.terms.items())

    def analyse(self, statistic: JointStatistic) -> KernelAnalysis:
        """The log score without its bias, from n ≥ 2 pairs. Raises FixError as `analyse_conditioned` does."""
        return analyse_conditioned(self, statistic)

    def analyse_paired(self, statistic: JointStatistic, common: Mapping[str, Tensor]) -> KernelAnalysis:
        """The same with the influence of the pairs "features" (m, d) and "prompts" (m, d_t).

        "listed" and what is raised are as in `VendiScore.analyse_paired`.
        """
        return analyse_conditioned(self, statistic, common)

    def modes(self, statistic: JointStatistic, reservoir: Reservoir, count: int = 5, samples: int = 8) -> list[Mode]:
        """The modes of the pairs, through the joint map φ_XT; `modes_of` says which.

        Raises FixError on a statistic without samples or of another metric, and as `modes_of` does.
        """
        self.check(statistic)
        return modes_of(statistic.joint, reservoir, self.widths, count, samples)

    def prompt_groups(self, reservoir: Reservoir, count: int = 5, samples: int = 8) -> list[PromptGroup]:
        """The largest types of prompt with the score of their outputs; raises as `pairs.modes.prompt_groups` does."""
        return prompt_groups(self.features_map, self.prompts_map, reservoir, self.order, count, samples)

    def identity(self) -> Identity:
        """The feature maps of samples and of prompts."""
        return [(each.name, each.tensors()) for each in (self.features_map, self.prompts_map)]

    @classmethod
    def of_spectra(cls, spectra: Mapping[Part, Tensor], order: float = 1.0) -> float:
        """The log score of eigenvalues (k) of sum 1 by part, as `exact_spectra` gives them.

        Raises FixError on an order that is not positive, KeyError on a missing part.
        """
        return sum(sign * log_vendi(spectra[part], order) for part, sign in cls.terms.items())


class ConditionalVendi(ConditionedScore):
    """log Conditional-Vendi_α = H_α(X, T) − H_α(T): the diversity that the model adds to its prompts'."""

    declared = metrics.ConditionalVendi
    terms: ClassVar[Mapping[Part, float]] = {"joint": 1.0, "prompts": -1.0}


class InformationVendi(ConditionedScore):
    """log Information-Vendi_α = H_α(X) + H_α(T) − H_α(X, T): how much the outputs tell of their prompts."""

    declared = metrics.InformationVendi
    terms: ClassVar[Mapping[Part, float]] = {"features": 1.0, "prompts": 1.0, "joint": -1.0}
