"""Base classes of a metric's computation: `Statistic` and `Score`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from optimist.estimates.estimate import Scale
from optimist.estimates.prompted import PromptedMean
from optimist.metrics.mixtures.objective import Common, Half, Objective
from optimist.metrics.reservoir import Reservoir
from optimist.metrics.state import Stateful
from optimist_client.errors import FixError
from optimist_client.metrics import Metric
from optimist_client.models.modes import ModeInfo, PromptGroupInfo


class Statistic(Stateful, ABC):
    """Base of every statistic. It depends only on the sequence of batches, not on the process that computes it.

    Its state is declared by `held`. A snapshot is accepted only by a statistic of the same layout whose empty state has
    the same names and shapes (`scoring.cached`).
    """

    samples: int = 0
    """Rows seen."""
    list_length: int | None = None
    """Number of prompts, where the metric gets the samples' prompts; `update` then takes `listed`, their indices
    (b)."""
    compares_unknown: ClassVar[bool] = False
    """True if rows with unknown prompts are compared by index, too."""

    allows_for_clusters: bool = False
    """True if its analysis itself allows for recurring prompts and for batches; other metrics are widened by the design
    effect that their influences show."""

    can_merge: ClassVar[bool] = False
    """True if it can `merge`."""

    device: torch.device = torch.device("cpu")
    """The device that it computes on."""

    @abstractmethod
    def update(self, *tensors: Any, **named: Any) -> None:
        """Add a batch: the tensors (b, …) named by `Metric.widths`, in its order.

        Raises FixError, and changes nothing, on other tensors.
        """

    def merge(self, other: Any) -> None:
        """Add the samples of another statistic, which follow. It must be of `Score.alone`, too, with the same score,
        and is not to be used any more."""
        raise NotImplementedError

    def _zeros(self, *shape: int) -> Tensor:
        return torch.zeros(shape, dtype=torch.float64, device=self.device)

    @property
    def holds_rows(self) -> bool:
        """True while estimates are computed from all rows, as there are few of them, and not from sums."""
        return False


Identity = list[tuple[str, tuple[Tensor, ...]]]
"""Names, each with tensors of any shape and dtype."""


@dataclass(frozen=True, kw_only=True)
class Analysis:
    """The numbers that a metric finds in a statistic of 2 samples or more, on the metric's scale.

    The errors are standard deviations, before any floor.
    """

    plug_in: float
    """The published formula on the samples as they are."""
    estimate: float
    """The de-biased value."""
    selection_error: float
    """sd_select of rules/estimates.md, by which policies rank."""
    stopping_error: float
    """sd_stop of rules/estimates.md, of which the interval is made."""
    bracket: tuple[float, float] | None = None
    """Two values with the true value between them on average; None for a metric without."""
    first_order: float = 1.0
    """Share of the sampling variance that is linear in the samples, V₁/(V₁ + V₂) (rules/estimates.md), in [0, 1]."""
    systematic_selection: float = 0.0
    """The part of `selection_error` that is not from sampling, a standard deviation; the errors add in squares."""
    systematic_stopping: float = 0.0
    """The part of `stopping_error` that is not from sampling, a standard deviation."""
    systematic_sign: int = 0
    """1 or −1: systematic parts of the same sign are errors in the same direction, as far as generators share chance,
    so that they partly cancel in a difference. 0: the parts of any two generators are independent."""
    influence: Tensor | None = None
    """Influence on the estimate of each row of `common` (m,), float64, up to an additive constant; None without."""
    recent: Tensor | None = None
    """The influence of the newest samples, as many as the metric keeps (b,), in log order, up to the same constant;
    None where the metric keeps none or weighs the values by their prompts."""
    reference: Tensor | None = None
    """Influence of some rows of the reference (k,), the same rows for every generator, up to a constant, divided by the
    root of the number of all rows. The variance of two generators' difference of these values is their scores'
    difference's variance by the choice of the reference. None: the reference is taken as exact."""
    skewness: float | None = None
    """Skewness of the rows' influences. `InfluenceBound` widens the sampling part of `stopping_error` by it, and
    policies differences by their own skewness. 0: only differences are widened; None: nothing is."""
    missing: float = 1.0
    """Factor of the sampling part of `stopping_error`² for rows that are rare among real rows and may be missing among
    the samples. The larger of this factor and the factor by `skewness` counts."""
    censored: int = 0
    """Number of samples whose values are only known to be at least the told number."""
    value_skewness: float | None = None
    """Skewness of the samples' values, where the estimate is their mean; None where it is not. Comparisons take from it
    what rare values may be missing (rules/calibration.md)."""
    farthest: tuple[float, float] | None = None
    """Distance of the farthest value below and above the mean, 0 or more. None where the estimate is no mean, and where
    the values' range, or their prompts, are known."""
    prompted: PromptedMean | None = None
    """The mean by prompts that come again, without whose terms no error of a difference is known; None where samples,
    or batches, are taken as independent."""
    prompts: int | None = None
    """Number of prompts that the errors count as clusters; None for other clusters."""
    batches: int | None = None
    """Number of batches that the errors count as clusters; None where they count samples, or prompts."""
    jackknife: Tensor | None = None
    """`Pairing.jackknife` (10,), float64; None from fewer than 10 samples, and where the metric makes none."""
    design_effect: float | None = None
    """The factor of the variance by sampling because samples of a cluster are alike; None where it is not known."""
    warnings: tuple[str, ...] = ()
    """Warnings that only the analysis can give; `Score.warnings` gives the others."""
    details: Mapping[str, float] = field(default_factory=dict[str, float])
    """Further numbers by name, which only tests look at."""


def linear_share(linear: float, variance: float) -> float:
    """`Analysis.first_order` of a sampling variance whose part that is linear in the samples is known."""
    return min(linear / variance, 1.0) if variance > 0.0 else 1.0


class Score:
    """The computation of a declared metric: its streaming statistic, and value, analysis, modes and mixtures of one.

    A subclass defines `declared`, `widths`, `statistic`, `plug_in` and `analyse`. The other parts have defaults, for a
    metric without cache, warnings, modes, mixtures and identity.
    """

    mixed: ClassVar[type[Objective] | None] = None
    """The loss of mixtures, where they have one."""
    declared: type[Metric] | Metric
    """The declared metric, with the name and the facts: a class, or an object where settings decide facts."""

    widths: Mapping[str, int]
    """The columns of each tensor that a batch must hold, by name, in the order that the statistic takes them."""

    @property
    def name(self) -> str:
        """The name users type, such as "fid"."""
        return self.declared.name

    @property
    def scale(self) -> Scale:
        """The scale of `plug_in` and of everything bounds make of it."""
        return self.declared.scale

    @property
    def lower_is_better(self) -> bool:
        """True if the best generator has the lowest value."""
        return self.declared.lower_is_better

    @property
    def floor(self) -> float | None:
        """The least value that is shown on the linear scale; None: any."""
        return self.declared.floor

    @property
    def offers(self) -> frozenset[str]:
        """Features among "mixtures", "modes" (only then a reservoir is kept beside the statistic), and "prompt groups",
        never without modes."""
        return self.declared.offers

    def statistic(self) -> Any:
        """An empty `Statistic`, laid out for `analyse`."""
        raise NotImplementedError

    def alone(self) -> Any:
        """An empty `Statistic` for estimates of one generator, which may leave out data that only mixtures need."""
        return self.statistic()

    @cached_property
    def layout(self) -> tuple[int, ...] | None:
        """The layout of the statistics that it takes."""
        return self.statistic().layout

    def check(self, statistic: Any, min_samples: int = 1) -> None:
        """Raise FixError unless the statistic has so many samples and the layout of this metric."""
        if statistic.layout != self.layout:
            raise FixError("the statistic is laid out for another metric or reference; make it with metric.statistic()")
        if statistic.samples < min_samples:
            raise FixError(f"the metric {self.name!r} needs at least {min_samples} sample{'s' * (min_samples > 1)}")

    def plug_in(self, statistic: Any) -> float:
        """The published formula on 1 sample or more. Raises FixError as `check` does."""
        raise NotImplementedError

    def analyse(self, statistic: Any, common: Common | None = None) -> Analysis:
        """The de-biased value and its errors, from 2 samples on. Raises FixError on fewer and as `check` does.

        common: rows seen by the statistic whose `influence` is wanted, for comparisons of generators with the same
        seeds. Without it, generators count as independent. "first" beside them has the indices (k,) of the first
        samples in log order, −1 for a sample without an index.
        """
        raise NotImplementedError

    def warnings(self, statistic: Any) -> tuple[str, ...]:
        """Warnings about the samples, for every estimate, from 1 sample on."""
        return ()

    def follow(self, statistic: Any) -> None:
        """Keep a cache that makes the plug-in of this statistic cheap; call it again after every batch.

        The plug-in then differs by at most 1e-7 (and rounding) from an unfollowed statistic's.
        """

    @cached_property
    def _beside(self) -> WeakKeyDictionary[Any, dict[str, Any]]:
        return WeakKeyDictionary()

    def cache(self, statistic: Any) -> dict[str, Any]:
        """Cached parts of this statistic's estimates, by name; all follow from the statistic alone."""
        return self._beside.setdefault(statistic, {})

    def forget(self, statistic: Any) -> None:
        """Drop the cache, which begins again from the statistic."""
        self._beside.pop(statistic, None)

    def cached_bytes(self, statistic: Any) -> int:
        """Bytes of memory of the cache."""
        return sum(map(_bytes_of, self._beside.get(statistic, {}).values()))

    def modes(self, statistic: Any, reservoir: Reservoir, count: int = 5, samples: int = 8) -> list[ModeInfo]:
        """The `count` modes of the largest share, each with the `samples` of the reservoir that show it best.

        Raises FixError where the metric offers none, on counts below 1 and where there are no samples.
        """
        raise FixError(f"the metric {self.name!r} has no kernel, hence no modes")

    def prompt_groups(self, reservoir: Reservoir, count: int = 5, samples: int = 8) -> list[PromptGroupInfo]:
        """The `count` largest types of prompt, each with its score and the `samples` whose prompts show it best.

        Raises FixError where the metric offers none, on counts below 1 and where there are no samples.
        """
        raise FixError(f"the metric {self.name!r} has no prompts")

    def objective(
        self, statistics: Sequence[Any], half: Half | None = None, common: Sequence[Common | None] = ()
    ) -> Objective:
        """The loss of mixtures of generators with these statistics, by one half of their samples; None: by all.

        common: of each generator the rows of indices that all have; () if generators are independent. Raises FixError
        where the metric offers no mixture, and if a statistic has fewer than 4 samples, or no separate halves.
        """
        if self.mixed is None or "mixtures" not in self.offers:
            raise FixError(f"the metric {self.name!r}, with these settings, has no score of mixtures")
        return self.mixed(self, statistics, half, common)

    def identity(self) -> Identity:
        """Names and tensors that a statistic's numbers depend on beside name, widths and layout, such as feature maps.

        A snapshot of a metric with another identity is refused.
        """
        return []


def _bytes_of(kept: Any) -> int:
    """Bytes of a tensor, of something with `bytes`, or of a collection of these."""
    if isinstance(kept, Mapping):
        return _bytes_of([*kept.values()])
    if isinstance(kept, list | tuple):
        return sum(map(_bytes_of, kept))
    return kept.nbytes if isinstance(kept, Tensor) else kept.bytes
