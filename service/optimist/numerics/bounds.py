"""How an estimate's interval is made: the default `influence` bound and those of the papers."""

from __future__ import annotations

from collections.abc import Callable

from optimist.numerics.bound import Bound
from optimist.numerics.fid.bounds import AuthorsBound, NaiveBound, TheoremBound
from optimist.numerics.fid.influence import FrechetAnalyst, FrechetInfluence
from optimist.numerics.fid.influence_bound import InfluenceBound
from optimist.numerics.inception.bounds import InceptionInfluenceBound, InceptionNaiveBound, InceptionTheoremBound
from optimist.numerics.kernel.bounds import KernelInfluenceBound, KernelTheoremBound
from optimist.numerics.metric import Metric
from optimist.numerics.pairs.bounds import ConditionalInfluenceBound

Maker = tuple[Callable[..., Bound], tuple[str, ...]]

_MAKERS: dict[str, dict[str, Maker]] = {
    "fid": {
        "influence": (InfluenceBound, ()),
        "theorem": (TheoremBound, ("sigma2", "tau", "mean_gap")),
        "authors": (AuthorsBound, ("M", "kappa")),
        "naive": (NaiveBound, ("sigma2", "mean_gap")),
    },
    "is": {
        "influence": (InceptionInfluenceBound, ()),
        "theorem": (InceptionTheoremBound, ()),
        "naive": (InceptionNaiveBound, ()),
    },
    "rke": {"influence": (KernelInfluenceBound, ()), "theorem": (KernelTheoremBound, ())},
    "vendi": {"influence": (KernelInfluenceBound, ()), "theorem": (KernelTheoremBound, ())},
    "conditional-vendi": {"influence": (ConditionalInfluenceBound, ())},
    "information-vendi": {"influence": (ConditionalInfluenceBound, ())},
}
"""Each metric's bounds by name, with the options they take."""


def bound_options(metric: str) -> dict[str, tuple[str, ...]]:
    """The bounds of a metric by name, with the options they take."""
    return {name: options for name, (_, options) in _MAKERS[metric].items()}


def make_bound(name: str, metric: Metric, delta: float = 0.05, **options: float | None) -> Bound:
    """The bound of that name at failure probability δ; an option given as None takes its default (equations.md §1).

    Raises ValueError on a name the metric does not have, an option that the bound does not take, or a value that makes
    no sense.
    """
    makers = _MAKERS[metric.name]
    if name not in makers:
        raise ValueError(f"unknown bound {name!r} of metric {metric.name!r}: one of {', '.join(makers)}")
    maker, taken = makers[name]
    given = {option: value for option, value in options.items() if value is not None}
    foreign = [option for option in given if option not in taken]
    if foreign:
        takes = f"it takes {', '.join(taken)}" if taken else "it takes none"
        raise ValueError(f"the bound {name!r} has no option {', '.join(foreign)}: {takes}")
    return maker(metric, delta, **given)


__all__ = [
    "AuthorsBound",
    "Bound",
    "ConditionalInfluenceBound",
    "FrechetAnalyst",
    "FrechetInfluence",
    "InceptionInfluenceBound",
    "InceptionNaiveBound",
    "InceptionTheoremBound",
    "InfluenceBound",
    "KernelInfluenceBound",
    "KernelTheoremBound",
    "NaiveBound",
    "TheoremBound",
    "bound_options",
    "make_bound",
]
