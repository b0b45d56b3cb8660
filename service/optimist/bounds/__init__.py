"""How an estimate's interval is made: the default `influence` bound and those of the papers."""

from collections.abc import Callable

from optimist.bounds.base import Bound
from optimist.bounds.classical import AuthorsBound, NaiveBound, TheoremBound
from optimist.bounds.frechet_influence import FrechetAnalyst, FrechetInfluence
from optimist.bounds.influence import InfluenceBound
from optimist.bounds.track import Track
from optimist.metrics import FrechetDistance

_MAKERS: dict[str, tuple[Callable[..., Bound], tuple[str, ...]]] = {
    "influence": (InfluenceBound, ()),
    "theorem": (TheoremBound, ("sigma2", "tau", "mean_gap")),
    "authors": (AuthorsBound, ("M", "kappa")),
    "naive": (NaiveBound, ("sigma2", "mean_gap")),
}

BOUNDS = tuple(_MAKERS)
"""The names `make_bound` knows."""


def make_bound(name: str, metric: FrechetDistance, delta: float = 0.05, **options: float | None) -> Bound:
    """The bound of that name at failure probability δ; an option given as None takes its default (equations.md §1).

    Raises ValueError on an unknown name, an option that the bound does not take, or a value that makes no sense.
    """
    if name not in _MAKERS:
        raise ValueError(f"unknown bound {name!r}: one of {', '.join(BOUNDS)}")
    maker, taken = _MAKERS[name]
    given = {option: value for option, value in options.items() if value is not None}
    foreign = [option for option in given if option not in taken]
    if foreign:
        takes = f"it takes {', '.join(taken)}" if taken else "it takes none"
        raise ValueError(f"the bound {name!r} has no option {', '.join(foreign)}: {takes}")
    return maker(metric, delta, **given)


__all__ = [
    "BOUNDS",
    "AuthorsBound",
    "Bound",
    "FrechetAnalyst",
    "FrechetInfluence",
    "InfluenceBound",
    "NaiveBound",
    "TheoremBound",
    "Track",
    "make_bound",
]
