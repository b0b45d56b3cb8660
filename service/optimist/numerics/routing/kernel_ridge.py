"""The kernel ridge regressions of PAK-UCB as published: one for each generator, on all of its contexts."""

from __future__ import annotations

import numpy as np

from optimist.numerics.routing.features import Floats


class KernelRidge:
    """One generator's regression, updated by a sample at a time: mean k_yᵀ(K + aI)⁻¹v and width
    a^{−1/2} √(k(y, y) − k_yᵀ(K + aI)⁻¹k_y), Gaussian kernel exp(−‖x − y‖²/(2σ²)) (arXiv 2410.13287).

    `script_start`: as the authors' script begins, whose first inverse is 1/k + a instead of 1/(k + a), so that the
    first sample counts four times at a = 1. The inverse grows by blocks, in time O(n²) a sample.
    """

    def __init__(self, bandwidth: float, ridge: float = 1.0, *, script_start: bool = False) -> None:
        self._bandwidth = bandwidth
        self._ridge = ridge
        self._script_start = script_start
        self._contexts: Floats = np.zeros((0, 0))
        self._scores: Floats = np.zeros(0)
        self._inverse: Floats = np.zeros((0, 0))

    @property
    def samples(self) -> int:
        """Samples so far."""
        return len(self._scores)

    def add(self, context: Floats, score: float) -> None:
        """Add one context (d,) with its score."""
        if not self.samples:
            start = 1.0 + self._ridge if self._script_start else 1.0 / (1.0 + self._ridge)
            self._inverse = np.array([[start]])
            self._contexts = context[None].astype(np.float64)
        else:
            kernel = self._kernel(context)
            u = self._inverse @ kernel
            b = 1.0 / (1.0 + self._ridge - kernel @ u)
            corner = np.array([[b]])
            self._inverse = np.block([[self._inverse + b * np.outer(u, u), -b * u[:, None]], [-b * u[None], corner]])
            self._contexts = np.concatenate([self._contexts, context[None]])
        self._scores = np.append(self._scores, score)

    def predict(self, context: Floats) -> tuple[float, float]:
        """Mean and width at a context (d,), from 1 sample on."""
        kernel = self._kernel(context)
        left = max(1.0 - kernel @ self._inverse @ kernel, 0.0)
        return float(kernel @ self._inverse @ self._scores), float(np.sqrt(left / self._ridge))

    def _kernel(self, context: Floats) -> Floats:
        squares = np.square(self._contexts - context).sum(1)
        return np.exp(-squares / (2.0 * self._bandwidth**2))
