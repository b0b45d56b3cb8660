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
from collections.abc import Callable, Sequence
from functools import cache, cached_property, partial
from typing import Protocol, TypeVar, overload

import numpy as np
import torch
from torch import Tensor

from optimist.metrics.mixtures.objective import MixtureAnalysis
from optimist.numerics.programme import Floats, Quadratic
from optimist_client.errors import FixError

ROWS = 128
"""Last rows of each generator by which errors are found: they are known to 6 % from one generator, better from more."""
LEAST = 1e-6
"""The least value of L that counts on a log scale, as in an estimate of one generator."""
FEW = 5.0
"""κ = 1 + FEW/n multiplies variances of n samples, those of one half. A choice, with which root-mean-square z of the
losses of mixtures was 0.69 to 1.07 with 12 samples of each generator and 0.79 to 1.20 with 50 (eleven problems)."""


Item = TypeVar("Item")
Seen = Callable[[Tensor], Tensor]
"""A number (b,) for each of some features (b, w)."""


class Pairs(Protocol):
    """κ over the samples of G generators that an objective is of. κ is symmetric and positive semidefinite."""

    samples: tuple[int, ...]
    """Samples (G,)."""
    constant: float
    """A constant that is added to L."""
    share: float
    """Which part of the samples of the smaller of two generators has an index in common (`SharedChance`)."""
    is_log: bool
    """True if the metric's scale is log L, not L."""

    def total(self, i: int, j: int) -> float:
        """Σ κ over all pairs of a sample of i and one of j, each with itself, too, where i = j."""
        ...

    def unbiased(self, i: int) -> float:
        """The mean of κ over pairs of two different samples of i."""
        ...

    def features(self, i: int) -> tuple[Tensor, Tensor]:
        """Features (b, w) of the last `ROWS` rows of i, and whether (b,) each is among the samples."""
        ...

    def common(self, i: int) -> tuple[Tensor, Tensor] | None:
        """Features (m, w) of the common rows of i, and whether (m,) each is among the samples; None without such
        rows.
        """
        ...

    def seen(self, features: Tensor, j: int) -> Tensor:
        """Σ κ (b,) between each of these features (b, w) and the samples of j."""
        ...

    def weighed(self, i: int, influence: Tensor, common: bool) -> Tensor:
        """Influences (b,) or (b, k) of the rows of i so that they vary as the mean over all samples does."""
        ...

    def glimpsed(self, features: Tensor, j: int) -> Tensor:
        """The mean of κ (b,) over the samples of j, or over some of them where all would take long."""
        ...

    def mix(self, shares: Floats) -> Seen:
        """Σ_j shares_j · seen(·, j)."""
        ...

    def itself(self, features: Tensor) -> Tensor:
        """κ(x, x) (b,)."""
        ...

    def matched(self, features: Tensor, others: Tensor) -> Tensor:
        """κ (b,) of each of these features (b, w) with the one in the same place of the others (b, w)."""
        ...


class PairObjective:
    """The `Objective` of a loss that is a mean over pairs."""

    def __init__(self, pairs: Pairs) -> None:
        self._pairs = pairs
        self.samples = pairs.samples
        self._rows: dict[int, _Rows] = {}
        self._common: dict[int, _Rows | None] = {}

    @cached_property
    def _biased(self) -> Floats:
        """K̂ (G, G): the means over all pairs, those of a sample with itself among them."""
        return self._matrix(lambda i, j: self._pairs.total(i, j) / (self.samples[i] * self.samples[j]))

    @cached_property
    def _unbiased(self) -> Floats:
        """Û (G, G): the means over pairs of different samples."""
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
        return Quadratic(matrix, np.zeros(len(matrix)), 0.0 if published else self._pairs.constant)

    def scaled(self, value: float) -> float:
        """L as a loss on the metric's scale."""
        return math.log(max(value, LEAST)) if self._pairs.is_log else value

    def deviations(self, weights: Floats) -> Floats:
        """Standard deviation (G,) of 2 Σ_j α_j κ̄_j(x) + 2 α_i κ̄_i(x) over the rows x of each generator i."""
        seen = self._seen_by(weights)

        def deviation(i: int) -> float:
            rows, share = self._rows_of(i), float(weights[i])
            added = seen(i, rows) + share * rows.own if share > 0.0 else seen(i, rows)
            return float(self._pairs.weighed(i, 2.0 * self._inflation(i) * added, False).std())

        return np.array([deviation(i) for i in range(len(weights))])

    def analyse(self, weights: Floats, *, slopes: bool = False) -> MixtureAnalysis:
        """The loss by Û, and the influences of the last rows."""
        places = range(len(weights))
        value = float(weights @ self._unbiased @ weights) + self._pairs.constant
        rate = 1.0 / max(value, LEAST) if self._pairs.is_log else 1.0
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
            found = among.new_zeros(len(among), len(weights))
            if share > 0.0:
                each = [rows.own if i == j else self._pairs.glimpsed(rows.features, j) for j in places]
                found += scale * share * torch.stack(each, dim=1)
            found[:, i] += scale * among
            if self._pairs.is_log:
                found -= scale * share * among[:, None] * torch.from_numpy(gradient).to(found.device)
            return found

        def of_common(wanted: Callable[[int, _Rows], Tensor], i: int) -> Tensor | None:
            rows = self._common_of(i)
            return None if rows is None else self._pairs.weighed(i, wanted(i, rows), True)

        def of_rows(wanted: Callable[[int, _Rows], Tensor], i: int) -> Tensor:
            return self._pairs.weighed(i, wanted(i, self._rows_of(i)), False)

        return MixtureAnalysis(
            loss=self.scaled(value),
            slopes=gradient,
            rows=_Later(len(weights), partial(of_rows, influence)),
            common=_Later(len(weights), partial(of_common, influence)),
            slope_rows=tuple(of_rows(on_slopes, i) for i in places) if slopes else (),
            common_slopes=tuple(of_common(on_slopes, i) for i in places) if slopes else (),
        )

    def _seen_by(self, weights: Floats) -> Callable[[int, _Rows], Tensor]:
        """Σ_j α_j κ̄_j(x) (b,) of rows x of i; κ̄_i is over the samples of i but x itself."""
        # Made when it is needed: not for one generator alone.
        mix = cache(lambda: self._pairs.mix(weights / np.array(self.samples)))
        found: dict[_Rows, Tensor] = {}

        def seen(i: int, rows: _Rows) -> Tensor:
            share = float(weights[i])
            if share == 1.0:
                return rows.own
            if rows not in found:
                among = mix()(rows.features)
                found[rows] = among if share == 0.0 else among + share * rows.apart
            return found[rows]

        return seen

    def _rows_of(self, i: int) -> _Rows:
        if i not in self._rows:
            self._rows[i] = _Rows(self._pairs, i, *self._pairs.features(i))
        return self._rows[i]

    def _common_of(self, i: int) -> _Rows | None:
        if i not in self._common:
            found = self._pairs.common(i)
            self._common[i] = None if found is None else _Rows(self._pairs, i, *found)
        return self._common[i]

    def _inflation(self, i: int) -> float:
        """√κ, by which errors are larger with few samples."""
        return (1.0 + FEW / self.samples[i]) ** 0.5


class _Rows:
    """Some rows of one generator, some of which (b,) are among the samples."""

    def __init__(self, pairs: Pairs, i: int, features: Tensor, is_sample: Tensor) -> None:
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


class _Later(Sequence[Item]):
    """The results of a function of 0 … count − 1, each computed when it is read, as a loss alone needs none of them."""

    def __init__(self, count: int, make: Callable[[int], Item]) -> None:
        self._count, self._make = count, make

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, place: int) -> Item: ...
    @overload
    def __getitem__(self, place: slice) -> list[Item]: ...
    def __getitem__(self, place: int | slice) -> Item | list[Item]:
        if isinstance(place, slice):
            return [self[each] for each in range(*place.indices(self._count))]
        return self._make(range(self._count)[place])


def places_in(samples: int, rows: int, half: int | None, device: torch.device) -> Tensor:
    """A mask (rows,): each of the last rows of a log of `samples` that has a place in this half, None: all."""
    if half is None:
        return torch.ones(rows, dtype=torch.bool, device=device)
    return torch.arange(samples - rows, samples, device=device) % 2 == half


def checked(samples: Sequence[int]) -> None:
    """Raise FixError unless each generator has at least 4 samples."""
    if not samples or min(samples) < 4:
        raise FixError("a mixture needs generators with at least 4 samples each")
