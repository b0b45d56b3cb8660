"""The columns of contexts in which scores are linear, and how the first contexts fix them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from optimist.arrays import Floats
from optimist.records import checked_context
from optimist.references.distances import usual_distance
from optimist_client.errors import FixError
from optimist_client.goals import COMPONENTS


@dataclass(frozen=True, eq=False)
class Components:
    """The principal components of the first contexts, from their mean and scaled: directions · (y − origin)."""

    origin: Floats
    """Mean of the contexts (d,)."""
    directions: Floats
    """(k, d): v_j/√(λ_j + λ̄)/√k of the eigenpairs (λ_j, v_j) of their covariance, λ̄ the mean of these λ_j."""

    def __post_init__(self) -> None:
        if self.directions.ndim != 2 or self.origin.shape != self.directions.shape[1:]:
            raise FixError(
                f"components: expected an origin (d,) and directions (k, d), got {self.origin.shape} and "
                f"{self.directions.shape}"
            )
        if not (np.isfinite(self.origin).all() and np.isfinite(self.directions).all()):
            raise FixError("components: expected finite numbers")

    @classmethod
    def none(cls, dimension: int) -> Components:
        """No components, of contexts of d columns."""
        return cls(np.zeros(dimension), np.zeros((0, dimension)))

    @classmethod
    def from_contexts(cls, contexts: NDArray[Any], limit: int = COMPONENTS) -> Components:
        """The largest components of contexts (n, d): at most `limit`, and none where all contexts are equal.

        The smaller ones are stretched less than to the same spread (λ̄): they are known badly from few contexts.
        Signs make the largest entry positive, so that every process has the same directions.
        """
        rows = np.asarray(contexts, dtype=np.float64)
        origin = rows.mean(0)
        centred = rows - origin
        # By products of contexts, which are fewer than their columns.
        values, vectors = np.linalg.eigh(centred @ centred.T / len(rows))
        values, vectors = values[::-1], vectors[:, ::-1]
        # What is smaller is rounding: of float32 contexts against their size, and of the products against the largest.
        rounding = max(1e-12 * float(np.square(rows).sum(1).mean()), 1e-10 * float(values[0]))
        kept = min(limit, int((values > rounding).sum()))
        if not kept:
            return cls(origin, np.zeros((0, rows.shape[1])))
        values = values[:kept]
        directions = (vectors[:, :kept].T @ centred) / np.sqrt(len(rows) * values)[:, None]
        largest = directions[np.arange(kept), np.abs(directions).argmax(1)]
        scales = np.sign(largest) / np.sqrt(kept * (values + values.mean()))
        return cls(origin, directions * scales[:, None])


def columns_of(
    contexts: NDArray[Any], frequencies: NDArray[Any], origin: NDArray[Any], directions: NDArray[Any]
) -> NDArray[Any]:
    """The columns x (n, k + r) of contexts (n, d), as of `ContextMap.arrays`, in the dtype of these."""
    # A component is cut beyond 8 typical sizes: one context of a wrong size must not outweigh all others.
    reach = 8.0 / np.sqrt(max(len(directions), 1))
    linear = np.clip((contexts - origin) @ directions.T, -reach, reach)
    angles = contexts @ frequencies.T
    features = np.concatenate([np.cos(angles), np.sin(angles)], axis=-1) / np.sqrt(len(frequencies))
    return np.concatenate([linear, features], axis=-1).astype(frequencies.dtype, copy=False)


class ContextMap:
    """x(y) of contexts y (d): k principal components, then random features φ(y) = √(2/r) [cos Wy, sin Wy].

    ‖φ‖ = 1, and φ(x)·φ(y) ≈ exp(−‖x − y‖²/(2σ²)) (RFF-UCB, arXiv 2410.13287). `frequencies` is W (r/2, d). Scores are
    often nearly linear in an embedding, which the features of a narrow kernel learn slowly; the features hold what is
    not linear.
    """

    def __init__(self, frequencies: Floats, components: Components | None = None) -> None:
        if frequencies.ndim != 2 or not np.isfinite(frequencies).all():
            raise FixError(f"frequencies: expected finite numbers (r/2, d), got shape {frequencies.shape}")
        self.frequencies = np.asarray(frequencies, dtype=np.float64)
        self.components = Components.none(self.dimension) if components is None else components

    @classmethod
    def drawn(
        cls, dimension: int, features: int, bandwidth: float, seed: int = 0, components: Components | None = None
    ) -> ContextMap:
        """The map with `features` = r random features, an even number, of the Gaussian kernel of this bandwidth σ."""
        if features < 2 or features % 2:
            raise FixError(f"features: expected an even number of at least 2, got {features}")
        if not 0.0 < bandwidth < np.inf:
            raise FixError(f"bandwidth: expected a number above 0, got {bandwidth}")
        normals = np.random.default_rng(seed).standard_normal((features // 2, dimension))
        return cls(normals / bandwidth, components)

    @property
    def dimension(self) -> int:
        return self.frequencies.shape[1]

    @property
    def linear(self) -> int:
        """k, the columns that are principal components; they come first."""
        return len(self.components.directions)

    @property
    def width(self) -> int:
        """k + r, the columns of x."""
        return self.linear + 2 * len(self.frequencies)

    @property
    def arrays(self) -> tuple[Floats, Floats, Floats]:
        """Frequencies, origin and directions: all that determines the map."""
        return self.frequencies, self.components.origin, self.components.directions

    def __call__(self, contexts: NDArray[Any]) -> Floats:
        """x (n, k + r) of contexts (n, d), any real dtype."""
        return columns_of(np.asarray(contexts, dtype=np.float64), *self.arrays)


ContextBandwidth = float | Literal["median"]
CONTEXTS_TO_FIT = 64
"""Contexts, of all generators together, that fix the bandwidth "median" and the principal components."""


def contexts_to_fit(bandwidth: ContextBandwidth, generators: int) -> int:
    """The number of batches, 3 or more, that each of `generators` must have before the map can be fixed: 0 where the
    bandwidth is a number.

    A batch brings one context, however many rows it has. The first ones of every log are used, so that every process
    computes the same map at any time.
    """
    if bandwidth != "median":
        return 0
    return max(3, -(-CONTEXTS_TO_FIT // max(generators, 1)))


@dataclass(frozen=True, slots=True)
class ContextSettings:
    """The settings of a `ContextMap`. Its random frequencies are the same in all experiments."""

    dimension: int
    """d, the width of contexts."""
    features: int
    """r, an even number."""
    bandwidth: ContextBandwidth = "median"
    """A number fixes the map at once, without principal components."""
    components: Components | None = None
    """The principal components that the first contexts have fixed, with the bandwidth "median"."""

    @property
    def is_open(self) -> bool:
        """True if contexts must fix bandwidth and principal components first."""
        return self.bandwidth == "median"

    def to_fit(self, generators: int) -> int:
        """`contexts_to_fit` for these settings."""
        return contexts_to_fit(self.bandwidth, generators)

    def fitted(self, contexts: Sequence[Floats]) -> ContextSettings:
        """These settings with bandwidth and components fixed by the first contexts (n, d) of each generator."""
        if not self.is_open:
            return self
        first = np.concatenate(contexts)
        return replace(self, bandwidth=usual_distance(first), components=Components.from_contexts(first))

    @property
    def fixed(self) -> dict[str, Floats]:
        """The numbers that contexts have fixed: `sigma` (1,), `origin` (d,) and `directions` (k, d)."""
        fixed = Components.none(self.dimension) if self.components is None else self.components
        return {"sigma": np.array([self.bandwidth], np.float64), "origin": fixed.origin, "directions": fixed.directions}

    def closed(self, fixed: Mapping[str, Floats]) -> ContextSettings:
        """These settings with the numbers that `fixed` of others has."""
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
