"""A quadratic loss of the weights of a blend. Free of torch: policies use it, too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Quadratic:
    """L(α) = αᵀKα + fᵀα + c of weights α (G,) that are at least 0 and sum to 1."""

    matrix: Floats
    """K (G, G), symmetric."""
    linear: Floats
    """f (G,)."""
    constant: float = 0.0

    def value(self, weights: Floats) -> float:
        """L(α)."""
        return float(weights @ self.matrix @ weights + self.linear @ weights + self.constant)

    def gradient(self, weights: Floats) -> Floats:
        """2Kα + f (G,)."""
        return 2.0 * (self.matrix @ weights) + self.linear

    def of(self, places: Sequence[int]) -> Quadratic:
        """The loss of blends of the generators in these places alone."""
        chosen = np.asarray(places, dtype=np.int64)
        return Quadratic(self.matrix[np.ix_(chosen, chosen)], self.linear[chosen], self.constant)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {"matrix": self.matrix.tolist(), "linear": self.linear.tolist(), "constant": self.constant}

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Quadratic:
        """The inverse of `to_dict`."""
        return cls(np.array(fields["matrix"]), np.array(fields["linear"]), fields["constant"])
