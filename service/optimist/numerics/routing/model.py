"""The model that answers asks: regressions of all generators as bytes, read and evaluated without torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optimist.numerics.routing.features import ContextMap
from optimist.numerics.routing.ridge import Published, Regressions

Singles = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class RouteModel:
    """What each generator is expected to score on a context, and how sure that is. Arrays are float32.

    Scores are those of the metric: where lower is better, `predict` answers them negated, so that more is better.
    """

    generators: tuple[int, ...]
    """Ordinals of the generators in it, ascending: places in the arrays."""
    samples: tuple[int, ...]
    """Samples of each that it was made of."""
    frequencies: Singles
    """W of the `ContextMap` (r/2, d)."""
    offsets: Singles
    """(G,): the mean of generator g at φ is offsets[g] + weights[g]·φ."""
    weights: Singles
    """(G, r)."""
    factors: Singles
    """F (G, r, r): the width of generator g at φ is scales[g] √(1/samples[g] + ‖F(φ − centre_g)‖²)."""
    centres: Singles
    """F centre (G, r)."""
    scales: Singles
    """(G,)."""
    single: Singles
    """Expected score (G,) over the prompts of all generators: the best single one has the largest."""

    @classmethod
    def of(
        cls,
        generators: Sequence[int],
        samples: Sequence[int],
        contexts: ContextMap,
        found: Regressions | Published,
        single: NDArray[np.float64],
    ) -> RouteModel:
        """The model of regressions of generators with these ordinals, as of `RoutePolicy.is_published`."""
        raise NotImplementedError

    def predict(self, contexts: NDArray[np.float32]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Means (n, G) and widths (n, G) of the expected scores at contexts (n, d)."""
        raise NotImplementedError

    def pack(self) -> bytes:
        """As bytes."""
        raise NotImplementedError

    @classmethod
    def unpack(cls, packed: bytes) -> RouteModel:
        """The inverse of `pack`. Raises ValueError for other bytes."""
        raise NotImplementedError
