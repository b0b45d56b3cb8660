"""The model that answers asks: regressions of all generators as bytes, read and evaluated without torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optimist.arrays import Floats
from optimist.routing.answers.features import ContextMap, columns_of
from optimist.routing.answers.ridge import PublishedRidge, Regressions
from optimist_client import tensors
from optimist_client.errors import FixError

_STEPS = np.linspace(0.0, 1.0, 256)
"""The grid on which the distributions are compared."""


def normal_below(z: Floats) -> Floats:
    """Φ(z), with an error below 7.5e-8 (Abramowitz and Stegun 26.2.17): numpy has no error function."""
    t = 1.0 / (1.0 + 0.2316419 * np.abs(z))
    tail = t * (0.319381530 + t * (-0.356563782 + t * (1.781477937 + t * (-1.821255978 + t * 1.330274429))))
    tail = tail * np.exp(-0.5 * np.square(z)) / np.sqrt(2.0 * np.pi)
    return np.where(z >= 0.0, 1.0 - tail, tail)


def best_chances(means: Floats, errors: Floats, floor: float = 0.0, reach: float = 5.0) -> Floats:
    """The chance (…, G) that each of independent normal variables (…, G) is the largest, each at least `floor`/G.

    errors: standard deviations, above 0. These are the probabilities by which Thompson sampling chooses: drawing from
    them is drawing all variables and taking the largest. Between two points of a grid, variable g is the largest with
    the probability that it lies there times the probability of all others to lie below. The grid reaches `reach`
    standard errors beyond the means.
    """
    count = means.shape[-1]
    # Only differences count, and a grid about a large mean would be too coarse for small errors.
    means = means - means.max(axis=-1, keepdims=True)
    low = (means - reach * errors).max(axis=-1, keepdims=True)
    high = (means + reach * errors).max(axis=-1, keepdims=True)
    grid = low + (high - low) * _STEPS
    below = normal_below((grid[..., None, :] - means[..., :, None]) / errors[..., :, None])
    inside = np.maximum(below[..., 1:] - below[..., :-1], 0.0)
    logs = np.log(np.maximum(0.5 * (below[..., 1:] + below[..., :-1]), 1e-300))
    others = np.exp(logs.sum(axis=-2, keepdims=True) - logs)
    chances = (inside * others).sum(axis=-1)
    chances = chances / chances.sum(axis=-1, keepdims=True)
    return (1.0 - floor) * chances + floor / count


Singles = NDArray[np.float32]
FORMAT = 1
"""Version of the bytes."""
_SHAPES = {
    "frequencies": ("r/2", "d"),
    "origin": ("d",),
    "directions": ("k", "d"),
    "offsets": ("G",),
    "weights": ("G", "k + r"),
    "factors": ("G", "k + r", "k + r"),
    "centres": ("G", "k + r"),
    "floors": ("G",),
    "scales": ("G",),
    "single": ("G",),
    "sampled_means": ("m", "G"),
    "sampled_widths": ("m", "G"),
}
"""The arrays of a model, and the sides of each."""


@dataclass(frozen=True, eq=False)
class RouteModel:
    """The expected score of each generator on a context, and how sure it is. Arrays are float32.

    More is better: the moments that it is made of have the scores of a metric whose lower values are better negated.
    """

    generators: tuple[int, ...]
    """Ordinals of the generators in it, ascending: their order in the arrays."""
    samples: tuple[int, ...]
    """Samples of each that it was made of."""
    frequencies: Singles
    """W of the `ContextMap` (r/2, d)."""
    origin: Singles
    """The origin (d,) of the principal components."""
    directions: Singles
    """(k, d)."""
    offsets: Singles
    """(G,): the mean of generator g at columns x is level + offsets[g] + weights[g]·x."""
    weights: Singles
    """(G, k + r)."""
    factors: Singles
    """F (G, k + r, k + r): the width of generator g at x is scales[g] √(floors[g] + ‖F(x − centre_g)‖²)."""
    centres: Singles
    """F centre_g (G, k + r); 0 as published."""
    floors: Singles
    """(G,): 1/samples; 0 as published."""
    scales: Singles
    """(G,)."""
    single: Singles
    """Expected score (G,) over the prompts of all generators, less the level: the best single one has the largest."""
    sampled_means: Singles
    """The expected scores less the level (m, G) on m of the recorded prompts, a uniform sample; m is 0 unless a budget
    is to be kept."""
    sampled_widths: Singles
    """(m, G)."""
    level: float = 0.0
    """About what all score: float32 would lose the differences of scores such as 1,000,000.1 and 1,000,000.2."""

    @property
    def singles(self) -> Floats:
        """Expected score (G,) over the prompts of all generators."""
        return self.level + self.single.astype(np.float64)

    @property
    def sampled(self) -> tuple[Floats, Floats]:
        """Means and widths (m, G) on the sampled prompts."""
        return self.level + self.sampled_means.astype(np.float64), self.sampled_widths.astype(np.float64)

    @classmethod
    def from_regressions(
        cls,
        generators: Sequence[int],
        samples: Sequence[int],
        contexts: ContextMap,
        regressions: Regressions | PublishedRidge,
        single: Floats,
        sampled: NDArray[np.float32] | None = None,
    ) -> RouteModel:
        """The model of regressions of generators with these ordinals, as of `RoutePolicy.is_published`.

        sampled: contexts (m, d) of recorded prompts.
        """
        shown = regressions if isinstance(regressions, Regressions) else None
        level = 0.0 if shown is None else float(shown.means.mean())
        empty = np.zeros((0, len(generators)))
        means, widths = (empty, empty) if sampled is None else regressions.predict(contexts(sampled))
        arrays = {
            **dict(zip(("frequencies", "origin", "directions"), contexts.arrays, strict=True)),
            "offsets": np.zeros(len(generators)) if shown is None else shown.offsets - level,
            "weights": regressions.weights,
            "factors": regressions.factors,
            "centres": np.zeros(regressions.weights.shape) if shown is None else shown.factored_centres,
            "floors": np.zeros(len(generators)) if shown is None else 1.0 / shown.samples,
            "scales": np.ones(len(generators)) if shown is None else shown.noise,
            "single": single - level,
            "sampled_means": means - level,
            "sampled_widths": widths,
        }
        return cls(tuple(generators), tuple(samples), **_checked(len(generators), _as_singles(arrays)), level=level)

    def predict(self, contexts: NDArray[np.float32]) -> tuple[Floats, Floats]:
        """Means (n, G) and widths (n, G) of the expected scores at contexts (n, d)."""
        arrays = self.frequencies, self.origin, self.directions
        with np.errstate(over="ignore", invalid="ignore"):
            features = columns_of(contexts, *arrays)
        if not np.isfinite(features).all():  # contexts far beyond those that the bandwidth was taken from
            wide = (each.astype(np.float64) for each in (contexts, *arrays))
            features = columns_of(*wide).astype(np.float32)
        means = features @ self.weights.T + self.offsets
        # All factors in one product.
        stretched = features @ self.factors.reshape(-1, features.shape[1]).T
        stretched -= self.centres.reshape(-1)
        parts = stretched.reshape(len(features), *self.centres.shape)
        squares = np.einsum("ngr,ngr->ng", parts, parts)
        return self.level + means.astype(np.float64), (self.scales * np.sqrt(self.floors + squares)).astype(np.float64)

    def pack(self) -> bytes:
        """The model as safetensors: the arrays; the version of this format, ordinals, samples and level as float64."""
        arrays: dict[str, NDArray[Any]] = {name: getattr(self, name) for name in _SHAPES}
        numbers = {"format": [FORMAT], "generators": self.generators, "samples": self.samples, "level": [self.level]}
        return tensors.encode(arrays | {name: np.array(each, dtype=np.float64) for name, each in numbers.items()})

    @classmethod
    def unpack(cls, packed: bytes) -> RouteModel:
        """The inverse of `pack`. Raises FixError for other bytes."""
        arrays = tensors.decode(packed)
        version = arrays.pop("format", np.zeros(1)).tolist()
        if version != [FORMAT]:
            raise FixError(f"expected a model of format {FORMAT}, found {version}")
        generators, samples = (
            tuple(int(number) for number in arrays.pop(name, np.zeros(0))) for name in ("generators", "samples")
        )
        if len(samples) != len(generators):
            raise FixError(f"a model of {len(generators)} generators has the samples of {len(samples)}")
        level = float(arrays.pop("level", np.zeros(1))[0])
        if not np.isfinite(level):
            raise FixError(f"level: expected a finite number, found {level}")
        return cls(generators, samples, **_checked(len(generators), arrays), level=level)


def _as_singles(arrays: Mapping[str, Floats]) -> dict[str, Singles]:
    with np.errstate(over="ignore"):  # `_checked` refuses what is too large
        return {name: np.ascontiguousarray(array, dtype=np.float32) for name, array in arrays.items()}


def _checked(generators: int, arrays: Mapping[str, NDArray[Any]]) -> dict[str, Singles]:
    """The arrays of a model. Raises FixError for other names, types or shapes, and numbers that are not finite."""
    if arrays.keys() != _SHAPES.keys() or any(array.dtype != np.float32 for array in arrays.values()):
        raise FixError(f"expected float32 arrays {', '.join(_SHAPES)}, found {', '.join(arrays)}")
    frequencies, linear = arrays["frequencies"], len(arrays["directions"])
    width = linear + 2 * len(frequencies)
    sizes = {"m": len(arrays["sampled_means"]), "G": generators}
    sizes |= {"k": linear, "k + r": width, "r/2": len(frequencies), "d": frequencies.shape[-1]}
    for name, sides in _SHAPES.items():
        if arrays[name].shape != tuple(sizes[side] for side in sides):
            raise FixError(f"{name}: expected shape {sides} with {sizes}, found {arrays[name].shape}")
        if not np.isfinite(arrays[name]).all():
            raise FixError(f"{name}: expected finite numbers")
    return dict(arrays)
