"""How contexts become features, where samples may have to fix the bandwidth first. Free of torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from optimist.numerics.routing.features import ContextMap, Floats, checked_context, usual_distance

Bandwidth = float | Literal["median"]
CONTEXTS_TO_FIT = 50
"""Contexts, of all generators together, whose distances give the bandwidth "median"."""
FEWEST_CONTEXTS = 3
"""Of each generator."""


def contexts_to_fit(bandwidth: Bandwidth, generators: int) -> int:
    """How many batches each of `generators` must have before the bandwidth can be fixed: 0 where it is a number.

    A batch brings one context, however many rows it has. The first ones of every log are used, so that every process
    computes the same bandwidth at any time.
    """
    if bandwidth != "median":
        return 0
    return max(FEWEST_CONTEXTS, -(-CONTEXTS_TO_FIT // max(generators, 1)))


@dataclass(frozen=True, slots=True)
class ContextSettings:
    """The settings of a `ContextMap`. Its random frequencies are the same in all experiments."""

    dimension: int
    """d, the width of contexts."""
    features: int
    """r, an even number."""
    bandwidth: Bandwidth = "median"

    @property
    def is_open(self) -> bool:
        """Whether contexts must fix the bandwidth first."""
        return self.bandwidth == "median"

    def to_fit(self, generators: int) -> int:
        """`contexts_to_fit` for these."""
        return contexts_to_fit(self.bandwidth, generators)

    def fitted(self, contexts: Sequence[Floats]) -> ContextSettings:
        """With the bandwidth fixed by the first contexts (n, d) of each generator."""
        return replace(self, bandwidth=usual_distance(np.concatenate(contexts))) if self.is_open else self

    def read(self, context: NDArray[Any]) -> Floats:
        """A context (d,) as `fitted` takes it. Raises ValueError unless it has d finite numbers."""
        return checked_context(context, self.dimension).astype(np.float64)

    def made(self) -> ContextMap:
        """The map. Raises ValueError while the bandwidth is open."""
        if self.bandwidth == "median":
            raise ValueError("the bandwidth of contexts is not fixed yet")
        return ContextMap.drawn(self.dimension, self.features, self.bandwidth)
