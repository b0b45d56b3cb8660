"""How contexts become columns of a regression, which the first contexts may have to fix. Free of torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from optimist.numerics.routing.features import Components, ContextMap, Floats, checked_context, usual_distance
from optimist_client.errors import FixError

Bandwidth = float | Literal["median"]
CONTEXTS_TO_FIT = 64
"""Contexts, of all generators together, that fix the bandwidth "median" and the principal components."""
FEWEST_CONTEXTS = 3
"""Of each generator."""


def contexts_to_fit(bandwidth: Bandwidth, generators: int) -> int:
    """How many batches each of `generators` must have before the map can be fixed: 0 where the bandwidth is a number.

    A batch brings one context, however many rows it has. The first ones of every log are used, so that every process
    computes the same map at any time.
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
    """A number fixes the map at once, without principal components."""
    components: Components | None = None
    """The principal components that the first contexts have fixed, with the bandwidth "median"."""

    @property
    def is_open(self) -> bool:
        """Whether contexts must fix bandwidth and principal components first."""
        return self.bandwidth == "median"

    def to_fit(self, generators: int) -> int:
        """`contexts_to_fit` for these."""
        return contexts_to_fit(self.bandwidth, generators)

    def fitted(self, contexts: Sequence[Floats]) -> ContextSettings:
        """With bandwidth and principal components fixed by the first contexts (n, d) of each generator."""
        if not self.is_open:
            return self
        first = np.concatenate(contexts)
        return replace(self, bandwidth=usual_distance(first), components=Components.of(first))

    @property
    def fixed(self) -> dict[str, Floats]:
        """What contexts have fixed: `sigma` (1,), `origin` (d,) and `directions` (k, d)."""
        known = Components.none(self.dimension) if self.components is None else self.components
        return {"sigma": np.array([self.bandwidth], np.float64), "origin": known.origin, "directions": known.directions}

    def closed(self, fixed: Mapping[str, Floats]) -> ContextSettings:
        """With what `fixed` of others has."""
        return replace(
            self, bandwidth=float(fixed["sigma"][0]), components=Components(fixed["origin"], fixed["directions"])
        )

    def read(self, context: NDArray[Any]) -> Floats:
        """A context (d,) as `fitted` takes it. Raises FixError unless it has d finite numbers."""
        return checked_context(context, self.dimension).astype(np.float64)

    def made(self) -> ContextMap:
        """The map. Raises FixError while the bandwidth is open."""
        if self.bandwidth == "median":
            raise FixError("the bandwidth of contexts is not fixed yet")
        return ContextMap.drawn(self.dimension, self.features, self.bandwidth, components=self.components)
