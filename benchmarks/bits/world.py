"""The samples that the experiments are about: rows of named arrays, a pure function of generator, index and prompt."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
ROWS = 6000
"""Indices that have samples."""
CLASSES, PROMPT_WIDTH, OTHER_WIDTH = 5, 3, 6
PROMPTS = [f"prompt {number}" for number in range(12)]
KINDS = {"a": (0, 1), "b": (2, 3, 1), "c": (0,), "d": (1, 2)}
"""Which kinds of sample a generator makes: the best mixture has several generators."""
LEVELS = {"a": 0.0, "b": 0.12, "c": 0.5, "d": 0.3}
"""How far a generator's samples are shifted: neighbours are close, so that policies hesitate."""


class World:
    """Samples of `width` features. The chance of index i is in part common to all generators, as with common seeds."""

    def __init__(self, width: int, *, shared: float = 0.8) -> None:
        """shared: the part of the variance that samples of one index have in common."""
        self.width, self._shared = width, shared
        rng = np.random.default_rng((width, 5))
        self._centres = 1.5 * rng.standard_normal((4, width))
        self._common = rng.standard_normal((ROWS, width))
        self._own = {name: rng.standard_normal((ROWS, width)) for name in KINDS}
        self._kinds = {name: rng.choice(kinds, ROWS) for name, kinds in KINDS.items()}
        self._by_prompt = 0.7 * rng.standard_normal((len(PROMPTS), width))
        self._prompts = rng.standard_normal((len(PROMPTS), PROMPT_WIDTH))
        self._other = rng.standard_normal((width, OTHER_WIDTH))
        self._real = rng.standard_normal((90, width)) + self._centres[rng.integers(4, size=90)]

    def real(self, rows: int = 90) -> Floats:
        """Real features (rows, width)."""
        return self._real[:rows]

    def moments(self) -> tuple[Floats, Floats]:
        """Mean and covariance of the real features."""
        return self._real.mean(0), np.cov(self._real, rowvar=False)

    def real_others(self) -> Floats:
        """Real rows of the array "other"."""
        return np.tanh(self._real @ self._other)

    def batch(self, generator: str, indices: Sequence[int], prompts: Sequence[int] | None = None) -> dict[str, Floats]:
        """All arrays, a row for each index; `prompts` are the places of the samples' prompts in `PROMPTS`."""
        at = np.asarray(indices, dtype=np.int64)
        chance = np.sqrt(self._shared) * self._common[at] + np.sqrt(1.0 - self._shared) * self._own[generator][at]
        features = chance + LEVELS[generator] + self._centres[self._kinds[generator][at]]
        arrays: dict[str, Floats] = {}
        if prompts is not None:
            features = features + self._by_prompt[list(prompts)]
            arrays["prompts"] = self._prompts[list(prompts)]
        logits = np.exp(1.5 * features[:, :CLASSES])
        middle = (chance.mean(1) + 0.5 * LEVELS[generator])[:, None]
        return arrays | {
            "features": features,
            "probabilities": logits / logits.sum(1, keepdims=True),
            "values": 1.0 / (1.0 + np.exp(-middle)),
            "other": np.tanh(features @ self._other),
        }
