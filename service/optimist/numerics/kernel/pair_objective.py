"""The loss of blends where it is a mean over pairs of samples: RKE and MMD (docs/mixtures.md).

L(α) = Σ_ij α_i α_j U_ij, U_ij the mean of κ over pairs of a sample of generator i and another one of j. Where
generators have indices in common, pairs of one index are left out, as they are more alike than others.

Weights are not fitted by Û, but by the mean of Û and the published K̂, which has pairs of a sample with itself: K̂ adds
(κ(x, x) − U_ii)/n_i to the diagonal, as chance adds to the loss of weights that follow it. Measured on closed-form beds
(Gaussians in the plane; excess of log L in %, 25 samples each): weights by Û / the mean / K̂ are at 1.02 / 0.91 / 0.83
where the best blend has all generators, and at 2.5 / 3.1 / 4.7 where one generator is best. On average over seven beds,
12 to 500 samples, the mean is within 3 % of the better one.
"""

from __future__ import annotations

import math
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
LEAST = 1e-6
"""The least value of L that counts on a log scale, as in an estimate of one generator."""
PAIRED_ROWS = 128
"""Those whose pairs give the second order."""
FEW = 5.0
"""κ = 1 + FEW/n multiplies variances of n samples, those of one half. A choice: without it root-mean-square z of the
losses of blends was 0.95 to 1.36 with 12 samples of each generator and 0.86 to 1.1 with 50; with it 0.7 to 1.01 and
0.79 to 1."""


class Pairs(Protocol):
    """κ over the samples of G generators that an objective is of. κ is symmetric and positive semidefinite."""

    samples: tuple[int, ...]
    """Samples (G,)."""
    constant: float
    """What is added to L."""
    share: float
    """Which part of the samples of the smaller of two generators has an index in common (`SharedChance`)."""
    is_log: bool
    """Whether the metric's scale is log L, not L."""

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

    def matched(self, features: Tensor, others: Tensor) -> Tensor:
        """κ (b,) of each of these features (b, w) with the one in the same place of the others (b, w)."""
        ...


class PairObjective:
    """The `Objective` of such a loss."""

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
        """Û (G, G)."""
        return self._matrix(lambda i, j: self._pairs.unbiased(i) if i == j else self._apart(i, j))

    def _apart(self, i: int, j: int) -> float:
        """The mean of κ over the pairs of two generators but those of one index."""
        mine, theirs = self._pairs.common(i), self._pairs.common(j)
        n, m = self.samples[i], self.samples[j]
        if mine is None or theirs is None or self._pairs.share == 0.0:
            return float(self._biased[i, j])
        same = self._pairs.share * min(n, m)
        each = float(self._pairs.matched(mine[0], theirs[0]).mean())
        return (self._pairs.total(i, j) - same * each) / (n * m - same)

    @cached_property
    def _fitted(self) -> Floats:
        """What weights are fitted by (G, G): a multiple of 1 is added where an eigenvalue would be negative."""
        own = np.diag(self._biased - self._unbiased)
        matrix = self._unbiased + np.diag(0.5 * own)
        lowest = float(np.linalg.eigvalsh(matrix)[0])
        return matrix + max(0.0, -lowest) * np.eye(len(own))

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
        matrix = self._biased if published else self._fitted
        return Quadratic(matrix, np.zeros(len(matrix)), 0.0 if published else self._pairs.constant)

    def scaled(self, value: float) -> float:
        """L as a loss on the metric's scale."""
        return math.log(max(value, LEAST)) if self._pairs.is_log else value

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
        rate = 1.0 / max(value, LEAST) if self._pairs.is_log else 1.0
        gradient = 2.0 * rate * (self._unbiased @ weights)
        has_common = [self._pairs.common(i) is not None for i in range(count)]

        def influence(i: int, common: bool = False) -> Tensor:
            if weights[i] == 0.0:
                return torch.zeros_like(self._mean(i, i, common))
            return 2.0 * rate * float(weights[i]) * self._inflation(i) * self._blended(i, weights, common)

        def on_slopes(i: int, common: bool = False) -> Tensor:
            """Of a sample of i on h_j: 2 α_i κ̄_j(x), on h_i twice that, and what the scale's rate adds."""
            scale = 2.0 * rate * self._inflation(i)
            own = self._blended(i, weights, common)
            found = own.new_zeros(len(own), count)
            if self._pairs.is_log:
                found -= influence(i, common)[:, None] * found.new_tensor(gradient)
            if weights[i] > 0.0:
                each = [self._mean(i, j, common) for j in range(count)]
                found += scale * float(weights[i]) * torch.stack(each, dim=1)
            found[:, i] += scale * own
            return found

        return Blended(
            loss=self.scaled(value),
            slopes=gradient,
            rows=tuple(influence(i) for i in range(count)),
            extra=rate * self._second_order(weights),
            common=tuple(influence(i, True) if has_common[i] else None for i in range(count)),
            slope_rows=tuple(on_slopes(i) for i in range(count)) if slopes else (),
            common_slopes=tuple(on_slopes(i, True) if has_common[i] else None for i in range(count)) if slopes else (),
        )

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
