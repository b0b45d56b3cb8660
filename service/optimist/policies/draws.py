"""The random numbers of a round."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class Draws:
    """What chance says in round `round_` of the policy with this seed: the same each time, with any numpy (NEP 19)."""

    seed: int
    round_: int

    def uniform(self) -> float:
        """A number from [0, 1)."""
        return np.random.default_rng((self.seed, self.round_)).random()

    def normals(self, count: int) -> list[float]:
        """That many standard normal numbers."""
        return np.random.default_rng((self.seed, self.round_)).standard_normal(count).tolist()
