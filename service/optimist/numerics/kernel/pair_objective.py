"""The loss of blends where it is a mean over pairs of samples: RKE and MMD (docs/mixtures.md).

L(α) = Σ_ij α_i α_j U_ij, U_ij the mean of κ over pairs of a sample of generator i and another one of j.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from optimist.numerics.mixtures.objective import Blended
from optimist.numerics.mixtures.quadratic import Floats, Quadratic

ROWS = 256
"""Last rows of each generator by which errors are found."""
PAIRED_ROWS = 128
"""Those whose pairs give the second order."""
FEW = 5.0
"""κ = 1 + FEW/n multiplies variances of n samples, those of one half. A choice: without it root-mean-square z of blends'
losses was 0.95 to 1.36 with 12 samples of each generator, 0.86 to 1.1 with 50, and with it 0.70 to 1.01 and 0.79 to 1."""


class Pairs(Protocol):
    """κ over the samples of G generators that an objective is of. κ is symmetric and positive semidefinite."""

    samples: tuple[int, ...]
    """Samples (G,)."""
    constant: float
    """What is added to L."""

    def total(self, i: int, j: int) -> float:
        """Σ κ over all pairs of a sample of i and one of j, each with itself, too, where i = j."""
        ...

    def unbiased(self, i: int) -> float:
        """The mean of κ over pairs of two different samples of i."""
        ...

    def features(self, i: int) -> tuple[Tensor, Tensor]:
        """Features (b, w) of the last rows of i, and whether (b,) each is among the samples."""
        ...

    def common(self, i: int) -> tuple[Tensor, Tensor] | None:
        """The same of the common rows (m, w) of i, if there are any."""
        ...

    def seen(self, features: Tensor, j: int) -> Tensor:
        """Σ κ (b,) between each of these features (b, w) and the samples of j."""
        ...

    def itself(self, features: Tensor) -> Tensor:
        """κ(x, x) (b,)."""
        ...

    def between(self, features: Tensor, others: Tensor) -> Tensor:
        """κ (b, c) of each of these features with each of the others."""
        ...

    def scaled(self, value: float) -> float:
        """L as a loss on the metric's scale."""
        ...

    def rate(self, value: float) -> float:
        """The derivative of `scaled`."""
        ...


class PairObjective:
    """The `Objective` of such a loss. Weights are fitted by U, made positive semidefinite where it is not."""

    def __init__(self, pairs: Pairs) -> None:
        self._pairs = pairs
        self.samples = pairs.samples
        self._means: dict[tuple[int, int, bool], Tensor] = {}
        self._spreads: dict[tuple[int, int], float] = {}

    @cached_property
    def _biased(self) -> Floats:
        """K̂ (G, G): the means over all pairs, those of a sample with itself among them."""
        return self._matrix(lambda i, j: self._pairs.total(i, j) / (self.samples[i] * self.samples[j]))

    @cached_property
    def _unbiased(self) -> Floats:
        """U (G, G)."""
        return self._matrix(lambda i, j: self._pairs.unbiased(i) if i == j else float(self._biased[i, j]))

    @cached_property
    def _definite(self) -> Floats:
        """U with the multiple of 1 added by which it has no negative eigenvalue."""
        lowest = float(np.linalg.eigvalsh(self._unbiased)[0])
        return self._unbiased + max(0.0, -lowest) * np.eye(len(self.samples))

    def _matrix(self, entry: Callable[[int, int], float]) -> Floats:
        count = len(self.samples)
        matrix = np.zeros((count, count))
        for i in range(count):
            for j in range(i + 1):
                matrix[i, j] = matrix[j, i] = entry(i, j)
        return matrix

    def model(self, weights: Floats, *, published: bool = False) -> Quadratic:
        """L, exact at all weights."""
        del weights
        matrix = self._biased if published else self._definite
        return Quadratic(matrix, np.zeros(len(matrix)), self._pairs.constant)

    def scaled(self, value: float) -> float:
        """L as a loss on the metric's scale."""
        return self._pairs.scaled(value)

    def deviations(self, weights: Floats) -> Floats:
        """Standard deviation (G,) of 2 Σ_j α_j κ̄_j(x) + 2 α_i κ̄_i(x) over the rows x of each generator i."""

        def deviation(i: int) -> float:
            added = self._blended(i, weights) + float(weights[i]) * self._mean(i, i)
            return float((2.0 * self._inflation(i) * added).std())

        return np.array([deviation(i) for i in range(len(weights))])

    def analyse(self, weights: Floats, *, slopes: bool = False) -> Blended:
        """The loss by U, and the influences of the last rows."""
        count = len(weights)
        value = float(weights @ self._unbiased @ weights) + self._pairs.constant
        rate = self._pairs.rate(value)
        gradient = 2.0 * rate * (self._unbiased @ weights)
        has_common = [self._pairs.common(i) is not None for i in range(count)]

        def influence(i: int, common: bool = False) -> Tensor:
            if weights[i] == 0.0:
                return torch.zeros_like(self._mean(i, i, common))
            return 2.0 * rate * float(weights[i]) * self._inflation(i) * self._blended(i, weights, common)

        def on_slopes(i: int, common: bool = False) -> Tensor:
            """Of a sample of i on h_j: 2 α_i κ̄_j(x), on h_i twice that, and what the scale's rate adds."""
            scale = 2.0 * rate * self._inflation(i)
            found = -influence(i, common)[:, None] * self._curved(value) * torch.from_numpy(gradient)[None, :]
            if weights[i] > 0.0:
                each = [self._mean(i, j, common) for j in range(count)]
                found = found + scale * float(weights[i]) * torch.stack(each, dim=1)
            found[:, i] += scale * self._blended(i, weights, common)
            return found

        return Blended(
            loss=self._pairs.scaled(value),
            slopes=gradient,
            rows=tuple(influence(i) for i in range(count)),
            extra=rate * self._second_order(weights),
            common=tuple(influence(i, True) if has_common[i] else None for i in range(count)),
            slope_rows=tuple(on_slopes(i) for i in range(count)) if slopes else (),
            common_slopes=tuple(on_slopes(i, True) if has_common[i] else None for i in range(count)) if slopes else (),
        )

    def _curved(self, value: float) -> float:
        """By how much the rate falls for each unit of loss: 1 on a log scale, 0 on a linear one."""
        rate = self._pairs.rate(value)
        step = 1e-4 * abs(value) or 1e-4
        return (rate - self._pairs.rate(value + step)) / (step * rate**2) if rate else 0.0

    def _inflation(self, i: int) -> float:
        """√κ, by which errors are larger with few samples."""
        return (1.0 + FEW / self.samples[i]) ** 0.5

    def _blended(self, i: int, weights: Floats, common: bool = False) -> Tensor:
        """Σ_j α_j κ̄_j(x) (b,) of the rows of i."""
        parts = [float(weights[j]) * self._mean(i, j, common) for j in np.flatnonzero(weights).tolist()]
        return torch.stack(parts).sum(0)

    def _mean(self, i: int, j: int, common: bool = False) -> Tensor:
        """κ̄_j(x) (b,) of the rows x of i: the mean of κ over the samples of j, but x itself."""
        if (i, j, common) not in self._means:
            found = self._pairs.common(i) if common else self._pairs.features(i)
            assert found is not None
            features, is_sample = found
            seen, n = self._pairs.seen(features, j), self.samples[j]
            if i == j:
                mine = is_sample.to(seen.dtype)
                seen = (seen - mine * self._pairs.itself(features)) / (n - mine)
            else:
                seen = seen / n
            self._means[i, j, common] = seen
        return self._means[i, j, common]

    def _second_order(self, weights: Floats) -> Floats:
        """Errors (G²,) of L by pairs: α_i α_j √(2 v_ij/(n_i n_j)), v_ij the variance of κ over pairs."""
        count = len(weights)
        found = np.zeros((count, count))
        support = np.flatnonzero(weights).tolist()
        for i in support:
            for j in support:
                size = 2.0 * self._spread(max(i, j), min(i, j)) / (self.samples[i] * self.samples[j])
                found[i, j] = weights[i] * weights[j] * (size * self._inflation(i) * self._inflation(j)) ** 0.5
        return found.ravel()

    def _spread(self, i: int, j: int) -> float:
        if (i, j) not in self._spreads:
            mine, theirs = (self._pairs.features(place)[0][-PAIRED_ROWS:] for place in (i, j))
            values = self._pairs.between(mine, theirs)
            if i == j:
                values = values[~torch.eye(len(values), dtype=torch.bool, device=values.device)]
            self._spreads[i, j] = float(values.var())
        return self._spreads[i, j]


def places_in(samples: int, rows: int, half: int | None, device: torch.device) -> Tensor:
    """Whether (rows,) each of the last rows of a log of `samples` has a place in this half, None: always."""
    if half is None:
        return torch.ones(rows, dtype=torch.bool, device=device)
    return torch.arange(samples - rows, samples, device=device) % 2 == half


def checked(samples: Sequence[int]) -> None:
    """Raise ValueError unless each generator has at least 4 samples."""
    if not samples or min(samples) < 4:
        raise ValueError("a blend needs generators with at least 4 samples each")
