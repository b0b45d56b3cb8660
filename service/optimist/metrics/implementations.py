"""The interface of a module that implements metrics, and the scores, references and bounds that are made with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal, Protocol, TypeVar, cast

import torch

from optimist.metrics.base import Score
from optimist.metrics.bound import Bound, InfluenceBound
from optimist.references.real_data import RealData, Reference
from optimist_client.errors import FixError
from optimist_client.metrics import Metric, find

AnyReference = TypeVar("AnyReference", bound=Reference)


@dataclass(frozen=True)
class Setting:
    """Settings of a score beside the settings of its declared metric."""

    widths: Mapping[str, int]
    """The columns of each array of a batch."""
    device: torch.device | str = "cpu"
    """Device of the statistics and of everything computed from them."""
    prompts: int | None = None
    """Number of prompts, if the metric gets each sample's prompt."""
    are_list: bool = False
    """True if the score is about exactly these prompts, instead of prompts like these."""
    clusters: Literal["batch"] | None = None
    """Groups of similar samples beside prompts; None for none."""

    @property
    def list_length(self) -> int | None:
        """Number of prompts, if the score is about exactly these; else None."""
        return self.prompts if self.are_list else None


class Implementation(Protocol):
    """The functions and constants that a module must define to implement metrics."""

    BOUNDS: Mapping[str, type[Bound]]
    """Optional: further bounds of the metric by name, each made as `bound(metric, delta, **options)`.

    Every metric has the bound `influence`, which uses its `analyse`.
    """

    def make(self, declared: Any, setting: Setting) -> Score:
        """Return the score of a declared metric, with fixed kernels and a reference from `reference`.

        Raises FixError if its settings do not fit the widths.
        """
        ...

    def reference(self, declared: Any, data: RealData, device: torch.device | str) -> Reference:
        """For metrics with a reference: the converted real data, computed once and shared by experiments.

        It depends only on the data and on the metric's settings other than `label` and `reads`. Raises FixError if the
        data does not suffice, as where rows are needed and were not kept.
        """
        ...


def implementation(metric: str) -> Implementation:
    """The module that computes the metric of this name. Raises FixError for an unknown one, and where it names none."""
    module = find(metric).implementation
    if not module:
        raise FixError(f"metric {metric!r}: expected the name of the module that computes it as `implementation`")
    return cast(Implementation, import_module(module))


def make_metric(declared: Metric, setting: Setting) -> Score:
    """The score of a declared metric. Raises FixError if its settings do not fit the widths."""
    return implementation(declared.name).make(declared, setting)


def reference_of(declared: Any, kind: type[AnyReference], made_of: str = "real features (n, d)") -> AnyReference:
    """The converted reference of a declared metric. Raises FixError without one."""
    if not isinstance(declared.reference, kind):
        raise FixError(f"the metric {declared.name!r} needs a reference: {made_of}")
    return declared.reference


def make_reference(declared: Metric, data: RealData, device: torch.device | str = "cpu") -> Reference:
    """The `Reference` that a metric makes of real data. Raises FixError where the data does not suffice."""
    return implementation(declared.name).reference(declared, data, device)


def make_bound(name: str, metric: Score, delta: float = 0.05, **options: float | None) -> Bound:
    """The bound of that name at failure probability δ; an option of None takes its default (equations.md §1).

    Raises FixError on a name the metric does not have, an option that the bound does not take, or a value that
    is out of range.
    """
    bounds = {"influence": InfluenceBound, **getattr(implementation(metric.name), "BOUNDS", {})}
    if name not in bounds:
        raise FixError(f"unknown bound {name!r} of metric {metric.name!r}: one of {', '.join(bounds)}")
    chosen = {option: value for option, value in options.items() if value is not None}
    find(metric.name).check_options(name, chosen)
    return bounds[name](metric, delta, **chosen)
