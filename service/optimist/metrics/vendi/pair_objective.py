"""The loss of mixtures where it is a mean over pairs of samples: RKE and MMD (docs/mixtures.md).

L(α) = Σ_ij α_i α_j U_ij, U_ij the mean of κ over pairs of a sample of generator i and another one of j. Where
generators have indices in common, pairs of one index are left out, as they are more alike than others.

Weights are not fitted by Û, but by the mean of Û and the published K̂, which has pairs of a sample with itself: K̂ adds
(κ(x, x) − U_ii)/n_i to the diagonal, as chance adds to the loss of weights that follow it. Measured on closed-form
problems (Gaussians in the plane; excess of log L in %, 25 samples each): weights by Û / the mean / K̂ are at 1.02 /
0.91 / 0.83 where the best mixture has all generators, and at 2.5 / 3.1 / 4.7 where one generator is best. On average
over seven problems, 12 to 500 samples, the mean is within 3 % of the better one.

Errors are of the first order in the samples, by κ̄_j(x), the mean of κ(x, ·) over the samples of j. The chance of it
makes them larger by twice the second order, which therefore is not added.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import cache, cached_property, partial

import numpy as np
import torch
from torch import Tensor

from optimist.estimates.programme import Floats, Quadratic
from optimist.metrics.mixtures.objective import Common, MixtureAnalysis, Objective, is_in_half
from optimist.metrics.state import copied
from optimist.metrics.vendi.statistic import KernelStatistic

ROWS = 128
"""Last rows of each generator by which errors are found: they are known to 6 % from one generator, better from more."""
MIN_LOSS = 1e-6
"""The least value of L that counts on a log scale, as in an estimate of one generator."""


RowFunction = Callable[[Tensor], Tensor]
"""A number (b,) for each of some features (b, w)."""


class PairObjective(Objective):
    """Base of a loss that is a mean over pairs, of κ, which is symmetric and positive semidefinite.

    Features of rows are `of` the φ that statistics hold.
    """

    constant = 0.0
    """A constant that is added to L."""
    is_log: bool
    """True if the metric's scale is log L, not L."""

    statistics: Sequence[KernelStatistic]

    def prepare(self) -> None:
        self.parts = [statistic.part(self.half) for statistic in self.statistics]
        self.samples = tuple(part.count for part in self.parts)
        self._given = [None if rows is None else self._mapped(rows) for rows in self.given]
        self._rows: dict[int, _Rows] = {}
        self._common: dict[int, _Rows] = {}

    def _mapped(self, rows: Common) -> Tensor:
        """φ (m, width) of common rows."""
        feature_map = self.statistics[0].feature_map
        return feature_map(copied(rows["features"], feature_map.device))

    @abstractmethod
    def of(self, rows: Tensor) -> Tensor:
        """Features (b, w) of rows φ (b, width), in memory of their own."""

    @abstractmethod
    def total(self, i: int, j: int) -> float:
        """Σ κ over all pairs of a sample of i and one of j, each with itself, too, where i = j."""

    @abstractmethod
    def unbiased(self, i: int) -> float:
        """The mean of κ over pairs of two different samples of i."""

    @abstractmethod
    def seen(self, features: Tensor, j: int) -> Tensor:
        """Σ κ (b,) between each of these features (b, w) and the samples of j."""

    def weighed(self, i: int, influence: Tensor, common: bool) -> Tensor:
        """Influences (b,) or (b, k) of the rows of i so that they vary as the mean over all samples does."""
        return influence

    def glimpsed(self, features: Tensor, j: int) -> Tensor:
        """The mean of κ (b,) over the samples of j, or over some of them where all would take long."""
        return self.seen(features, j) / self.samples[j]

    @abstractmethod
    def mix(self, shares: Floats) -> RowFunction:
        """Σ_j shares_j · seen(·, j)."""

    @abstractmethod
    def itself(self, features: Tensor) -> Tensor:
        """κ(x, x) (b,)."""

    @abstractmethod
    def matched(self, features: Tensor, others: Tensor) -> Tensor:
        """κ (b,) of each of these features (b, w) with the one in the same place of the others (b, w)."""

    @cached_property
    def _biased(self) -> Floats:
        """K̂ (G, G): the means over all pairs, also of a sample with itself."""
        return self._matrix(lambda i, j: self.total(i, j) / (self.samples[i] * self.samples[j]))

    @cached_property
    def _unbiased(self) -> Floats:
        """Û (G, G): the means over pairs of different samples."""
        return self._matrix(lambda i, j: self.unbiased(i) if i == j else self._apart(i, j))

    def _apart(self, i: int, j: int) -> float:
        """The mean of κ over the pairs of two generators with different indices."""
        mine, theirs = self._common_of(i), self._common_of(j)
        n, m = self.samples[i], self.samples[j]
        if mine is None or theirs is None or self.share == 0.0:
            return float(self._biased[i, j])
        same = self.share * min(n, m)
        each = float(self.matched(mine.features, theirs.features).mean())
        return (self.total(i, j) - same * each) / (n * m - same)

    @cached_property
    def _fitted(self) -> Floats:
        """The matrix (G, G) that weights are fitted by: with a multiple of 1 where an eigenvalue would be negative."""
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
        return Quadratic(matrix, np.zeros(len(matrix)), 0.0 if published else self.constant)

    def scaled(self, value: float) -> float:
        """L as a loss on the metric's scale."""
        return math.log(max(value, MIN_LOSS)) if self.is_log else value

    def deviations(self, weights: Floats) -> Floats:
        """Standard deviation (G,) of 2 Σ_j α_j κ̄_j(x) + 2 α_i κ̄_i(x) over the rows x of each generator i."""
        seen = self._seen_by(weights)

        def deviation(i: int) -> float:
            rows, share = self._rows_of(i), float(weights[i])
            added = seen(i, rows) + share * rows.own if share > 0.0 else seen(i, rows)
            return float(self.weighed(i, 2.0 * self._inflation(i) * added, False).std())

        return np.array([deviation(i) for i in range(len(weights))])

    def analyse(self, weights: Floats, *, slopes: bool = False) -> MixtureAnalysis:
        """The loss by Û, and the influences of the last rows."""
        generators = range(len(weights))
        value = self._value(weights)
        rate = 1.0 / max(value, MIN_LOSS) if self.is_log else 1.0
        gradient = 2.0 * rate * (self._unbiased @ weights)
        seen = self._seen_by(weights)

        def influence(i: int, rows: _Rows) -> Tensor:
            """The influence of a sample of i on the loss: 2 α_i Σ_j α_j κ̄_j(x)."""
            share = float(weights[i])
            if share == 0.0:
                return rows.features.new_zeros(len(rows.features))
            return 2.0 * rate * share * self._inflation(i) * seen(i, rows)

        def on_slopes(i: int, rows: _Rows) -> Tensor:
            """Influence of a sample of i on h_j: 2 α_i κ̄_j(x), on h_i also 2 Σ_j α_j κ̄_j(x), and what the rate adds."""
            share, scale, among = float(weights[i]), 2.0 * rate * self._inflation(i), seen(i, rows)
            changes = among.new_zeros(len(among), len(weights))
            if share > 0.0:
                each = [rows.own if i == j else self.glimpsed(rows.features, j) for j in generators]
                changes += scale * share * torch.stack(each, dim=1)
            changes[:, i] += scale * among
            if self.is_log:
                changes -= scale * share * among[:, None] * torch.from_numpy(gradient).to(changes.device)
            return changes

        def weighed(wanted: Callable[[int, _Rows], Tensor], i: int, common: bool) -> Tensor | None:
            rows = self._common_of(i) if common else self._rows_of(i)
            return None if rows is None else self.weighed(i, wanted(i, rows), common)

        return MixtureAnalysis.from_influences(
            loss=self.scaled(value),
            slopes=gradient,
            extra=np.zeros(0),
            of=partial(weighed, influence),
            on_slopes=partial(weighed, on_slopes) if slopes else None,
        )

    def loss(self, weights: Floats) -> float:
        return self.scaled(self._value(weights))

    def _value(self, weights: Floats) -> float:
        return float(weights @ self._unbiased @ weights) + self.constant

    def _seen_by(self, weights: Floats) -> Callable[[int, _Rows], Tensor]:
        """Σ_j α_j κ̄_j(x) (b,) of rows x of i; κ̄_i is over the samples of i but x itself."""
        # Made when it is needed: not for one generator alone.
        mix = cache(lambda: self.mix(weights / np.array(self.samples)))
        cached: dict[_Rows, Tensor] = {}

        def seen(i: int, rows: _Rows) -> Tensor:
            share = float(weights[i])
            if share == 1.0:
                return rows.own
            if rows not in cached:
                among = mix()(rows.features)
                cached[rows] = among if share == 0.0 else among + share * rows.apart
            return cached[rows]

        return seen

    def _rows_of(self, i: int) -> _Rows:
        """The last `ROWS` rows of i."""
        if i not in self._rows:
            samples = self.statistics[i].samples
            self._rows[i] = self._among(i, self.statistics[i].last_rows[-ROWS:], samples)
        return self._rows[i]

    def _common_of(self, i: int) -> _Rows | None:
        """The common rows of i. The position in the log counts as the index."""
        given = self._given[i] if self._given else None
        if given is not None and i not in self._common:
            self._common[i] = self._among(i, given, len(given))
        return self._common.get(i)

    def _among(self, i: int, rows: Tensor, samples: int) -> _Rows:
        return _Rows(self, i, self.of(rows), is_in_half(samples, len(rows), self.half, rows.device))

    def _inflation(self, i: int) -> float:
        """√κ, by which errors are larger with few samples."""
        # A choice, with which root-mean-square z of the losses of mixtures was 0.69 to 1.07 with 12 samples of each
        # generator and 0.79 to 1.20 with 50 (eleven problems).
        return (1.0 + 5.0 / self.samples[i]) ** 0.5


class _Rows:
    """Some rows of one generator, some of which (b,) are among the samples."""

    def __init__(self, pairs: PairObjective, i: int, features: Tensor, is_sample: Tensor) -> None:
        self.features = features
        self._pairs, self._i = pairs, i
        self._mine = is_sample.to(features.dtype)

    @cached_property
    def _itself(self) -> Tensor:
        return self._pairs.itself(self.features)

    @cached_property
    def own(self) -> Tensor:
        """κ̄_i (b,): the mean of κ over the samples of the generator but the row itself."""
        among = self._pairs.seen(self.features, self._i) - self._mine * self._itself
        return among / (self._pairs.samples[self._i] - self._mine)

    @cached_property
    def apart(self) -> Tensor:
        """By how much this is more than the mean over all samples (b,)."""
        return self._mine * (self.own - self._itself) / self._pairs.samples[self._i]
