"""How an estimate's interval is made: the default `influence` bound and those of the papers."""

from __future__ import annotations

from collections.abc import Callable

from optimist.numerics.bound import Bound, InfluenceBound
from optimist.numerics.fid.bounds import FrechetAuthorsBound, FrechetNaiveBound, FrechetTheoremBound
from optimist.numerics.inception.bounds import InceptionNaiveBound, InceptionTheoremBound
from optimist.numerics.kernel.bounds import KernelTheoremBound
from optimist.numerics.metric import Metric

Maker = tuple[Callable[..., Bound], tuple[str, ...]]

_MAKERS: dict[str, dict[str, Maker]] = {
    "fid": {
        "influence": (InfluenceBound, ()),
        "theorem": (FrechetTheoremBound, ("sigma2", "tau", "mean_gap")),
        "authors": (FrechetAuthorsBound, ("M", "kappa")),
        "naive": (FrechetNaiveBound, ("sigma2", "mean_gap")),
    },
    "is": {
        "influence": (InfluenceBound, ()),
        "theorem": (InceptionTheoremBound, ()),
        "naive": (InceptionNaiveBound, ()),
    },
    "rke": {"influence": (InfluenceBound, ()), "theorem": (KernelTheoremBound, ())},
    "vendi": {"influence": (InfluenceBound, ()), "theorem": (KernelTheoremBound, ())},
    "conditional-vendi": {"influence": (InfluenceBound, ())},
    "information-vendi": {"influence": (InfluenceBound, ())},
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
    "Bound",
    "FrechetAuthorsBound",
    "FrechetNaiveBound",
    "FrechetTheoremBound",
    "InceptionNaiveBound",
    "InceptionTheoremBound",
    "InfluenceBound",
    "KernelTheoremBound",
    "bound_options",
    "make_bound",
]
