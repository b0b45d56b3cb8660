"""Files of prompts and the scores of generators on them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.lib.npyio import NpzFile
from numpy.typing import NDArray

from optimist.routing_gain.gain import RouteGain, route_gain
from optimist.routing_gain.prompt_types import PromptType, types_of
from optimist.routing_gain.scored_prompts import ScoredPrompts
from optimist_client.errors import FixError

TABLE = ("contexts", "scores")
LOGGED = ("contexts", "generator", "score", "probability")


@dataclass(frozen=True, eq=False)
class RouteReport:
    """What routing the prompts of a file would gain."""

    names: tuple[str, ...]
    gain: RouteGain
    types: list[PromptType]
    texts: tuple[str, ...] | None
    """The prompts' texts."""
    is_logged: bool
    """Whether each prompt was given to one generator, with a known probability."""

    @property
    def sentence(self) -> str:
        """The answer in a sentence."""
        if self.gain.error == 0.0:
            return f"Nothing is gained by routing: {self.gain.best} would get every prompt."
        low, high = self.gain.lower, self.gain.upper
        gained = f"{self.gain.gain:.3g} ± {self.gain.error:.2g} over {self.gain.best} alone"
        interval = "" if low is None or high is None else f" ({low:.3g} to {high:.3g} with 95% confidence)"
        less = " less the price of their costs" if self.gain.price else ""
        verdict = "A router would gain" if low is not None and low > 0.0 else "No gain of routing is shown:"
        return (
            f"{verdict} {gained}, in the mean of the scores{less}. Over the generator that is truly the best single one"
            f"{interval or ' it is not known'}."
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        found = self.gain
        return {
            "generators": list(self.names),
            "prompts": found.prompts,
            "price": found.price,
            "best": found.best,
            "gain": found.gain,
            "basis": found.basis,
            "error": found.error,
            "lower": found.lower,
            "upper": found.upper,
            "value": found.value,
            "single_value": found.single_value,
            "cost": found.cost,
            "single_cost": found.single_cost,
            "shares": found.shares,
            "types": [kind.to_dict() for kind in self.types],
        }


def route_file(
    file: Path,
    *,
    price: float = 0.0,
    ceiling: float | None = None,
    at_least: float | None = None,
    features: int = 256,
    types: int = 6,
    seed: int = 0,
) -> RouteReport:
    """The report on an .npz file of prompts, routed at a price of cost or within a budget.

    It has `contexts` (m, d), the embeddings of m prompts, and one of two sets of arrays. `scores` (m, G): what each of
    G generators scored on each prompt, NaN where it got none. Or, of a log in which every prompt was given to one
    generator: `generator` (m,), its place or its name, `score` (m,), and `probability` (m,), with which it was chosen.
    Optional are `names` (G,), `costs` (G,) of a sample, and `prompts` (m,), the texts. Raises FixError if the file
    cannot be read, lacks an array, or if the numbers do not fit.
    """
    arrays = _read(file)
    known = _known(arrays, file)
    texts = None if "prompts" not in arrays else tuple(map(str, arrays["prompts"]))
    if texts is not None and len(texts) != len(known.contexts):
        raise FixError(f"prompts: expected {len(known.contexts)} texts, as many as contexts; got {len(texts)}")
    if not 0.0 <= price < np.inf:
        raise FixError(f"price: expected a number of at least 0, got {price}")
    if price and known.costs is None:
        raise FixError(f"price: it is multiplied by costs, and {file} has no array `costs`")
    found = route_gain(known, price=price, ceiling=ceiling, at_least=at_least, features=features, seed=seed)
    if found.error is None:
        raise FixError(
            "what routing gains is not known: too few prompts have scores of both generators, that of the route and "
            "the best single one; a log needs probabilities below 1"
        )
    kinds = types_of(known, found, count=types, seed=seed)
    return RouteReport(known.names, found, kinds, texts, known.is_logged)


def prompts_in(file: Path) -> ScoredPrompts:
    """The prompts and scores of a file. Raises FixError as `route_file` does."""
    return _known(_read(file), file)


def _read(file: Path) -> dict[str, NDArray[Any]]:
    try:
        found = np.load(file, allow_pickle=False)
        if not isinstance(found, NpzFile):
            raise FixError("it holds a single array")
        with found:
            return {name: found[name] for name in found.files}
    except (OSError, BadZipFile, EOFError, ValueError) as error:
        raise FixError(f"{file}: expected an .npz file of several arrays: {error}") from None


def _known(arrays: Mapping[str, NDArray[Any]], file: Path) -> ScoredPrompts:
    wanted = TABLE if "scores" in arrays else LOGGED
    if missing := [name for name in wanted if name not in arrays]:
        expected = f"{', '.join(TABLE)}, or {', '.join(LOGGED)}"
        raise FixError(f"{file}: expected the arrays {expected}; found no {', '.join(missing)}")
    contexts = _numbers(arrays, "contexts", 2)
    costs = _numbers(arrays, "costs", 1) if "costs" in arrays else None
    names = tuple(map(str, arrays["names"])) if "names" in arrays else ()
    if wanted is TABLE:
        known = ScoredPrompts.of_table(contexts, _numbers(arrays, "scores", 2), names, costs)
    else:
        names, generator = _generators(arrays["generator"], names)
        score, probability = (_numbers(arrays, name, 1) for name in ("score", "probability"))
        for name, array in (("generator", generator), ("score", score), ("probability", probability)):
            if len(array) != len(contexts):
                raise FixError(f"{name}: expected {len(contexts)} numbers, as many as contexts; got {len(array)}")
        known = ScoredPrompts(names, contexts, np.arange(len(contexts)), generator, score, probability, costs)
    if costs is not None and len(costs) != len(known.names):
        raise FixError(f"costs: expected one for each of the {len(known.names)} generators, got {len(costs)}")
    return known


def _generators(given: NDArray[Any], names: tuple[str, ...]) -> tuple[tuple[str, ...], NDArray[np.int64]]:
    """The names, and each sample's place among them."""
    if given.dtype.kind in "iu":
        named = names or tuple(f"generator-{place}" for place in range(int(given.max(initial=0)) + 1))
        if given.size and not 0 <= given.min() <= given.max() < len(named):
            raise FixError(f"generator: expected places from 0 to {len(named) - 1}")
        return named, given.astype(np.int64)
    texts = [str(name) for name in given]
    named = names or tuple(sorted(set(texts)))
    if unknown := sorted(set(texts) - set(named)):
        raise FixError(f"generator: no generator is called {', '.join(unknown)}")
    return named, np.array([named.index(text) for text in texts], dtype=np.int64)


def _numbers(arrays: Mapping[str, NDArray[Any]], name: str, axes: int) -> NDArray[np.float64]:
    array = arrays[name]
    if array.dtype.kind not in "fiub" or array.ndim != axes:
        expected = "(m, d)" if axes == 2 else "(m,)"
        raise FixError(f"{name}: expected numbers {expected}, got {array.dtype} of shape {array.shape}")
    return array.astype(np.float64)
