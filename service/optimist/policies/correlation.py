"""The chance that two estimates share: the correlation of their influences by index (rules/differences.md).

Estimates may lack indices that others have. An estimate is linear in the influences of its samples, to first order. λ u
is therefore what a part λ of its unshared samples has added to it, with u the mean influence of the shared samples
minus the mean of all. The weights λ have the least variance.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property, lru_cache
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from optimist.arrays import Floats, Ints
from optimist.estimates.pairing import COMMON, JACKKNIFE_GROUPS, Pairing, StoredInts, unpacked
from optimist.estimates.skewness import skewness

FEWEST_COMMON = 10
"""Common indices below which nothing is known of a correlation."""
CAP = 0.9999
"""The largest correlation that is believed, before it is shrunk."""


class InfluenceTable:
    """The influences of k estimates on their own values, one row each (k, m); NaN where an index has no sample."""

    def __init__(
        self, rows: NDArray[np.floating[Any]], effects: Floats | None = None, prompts: Sequence[StoredInts | None] = ()
    ) -> None:
        """effects: the design effect of each (k,), where prompts come again; prompts: `Pairing.prompts` of each."""
        self._effects, self._prompts = effects, prompts
        centred = rows.astype(np.float64)
        missing = np.isnan(centred)
        centred[missing] = 0.0
        told = 1.0 - missing
        # A constant has no meaning. Without it the sums below lose no digits.
        self.counts = told.sum(axis=1)
        """The number of known influences of each (k,)."""
        self.constant = centred.sum(axis=1) / np.maximum(self.counts, 1.0)
        """The mean of each (k,), without which they are compared."""
        centred -= self.constant[:, None]
        centred[missing] = 0.0
        self._told, self._centred = told, centred
        self._shared: dict[int, tuple[Floats, Floats, Floats]] = {}

    def shared(self, base: int) -> tuple[Floats, Floats, Floats]:
        """The number of indices that each has in common with `base` (k,), and the sums of its own and of base's
        influences there.

        The indices are those that all generators have first, and a constant is taken off the influences.
        """
        sums = self._shared.get(base)
        if sums is None:
            told, centred = self._told[base], self._centred[base]
            rows = (self._told, told), (self._centred, told), (self._told, centred)
            m, mine, theirs = (_products(*each) for each in rows)
            sums = self._shared[base] = m, mine, theirs
        return sums

    def correlations(self, base: int) -> Floats:
        """ρ_L of every row with the row of `base` over the indices that both have (k,): Fisher's z, shrunk towards 0.

        0 where fewer than `FEWEST_COMMON` indices are common, or one of the two does not vary over them.
        """
        told, centred = self._told[base], self._centred[base]
        m, mine, theirs = self.shared(base)
        enough = m >= FEWEST_COMMON
        m = np.where(enough, m, np.inf)
        product = _products(self._centred, centred) - mine * theirs / m
        squares = np.einsum("ij,ij,j->i", self._centred, self._centred, told)
        scale = np.sqrt(_varied(squares, mine, m) * _varied(_products(self._told, np.square(centred)), theirs, m))
        r = np.clip(np.divide(product, scale, out=np.zeros_like(scale), where=enough & (scale > 0.0)), -CAP, CAP)
        rho = _shrunk(r, np.where(enough, m - 3.0, 1.0))
        return rho if self._effects is None else self._by_prompt(base, rho, self._effects)

    def _by_prompt(self, base: int, of_rows: Floats, effects: Floats) -> Floats:
        """ρ_L (k,) of the influences' sums by prompt, where a variance is larger by its design effect (k,).

        Where only one of the two counts prompts, they are not common, and the covariance is by the rows.
        """
        rho, prompts = of_rows / np.sqrt(effects * effects[base]), self._prompts[base]
        for index, own in enumerate(self._prompts):
            if prompts is None or own is None:
                continue
            both = np.flatnonzero(self._told[index] * self._told[base] > 0.0)
            both = both[prompts[both] >= 0]
            names, at = np.unique(prompts[both], return_inverse=True)
            x, y = (np.bincount(at, row[both] - row[both].mean()) for row in self._centred[[index, base]])
            scale, freedom = math.sqrt(float(x @ x) * float(y @ y)), np.maximum(len(names) - 3.0, 1.0)
            r = float(x @ y) / scale if scale > 0.0 and len(names) >= FEWEST_COMMON else 0.0
            rho[index] = _shrunk(np.clip(r, -CAP, CAP), freedom)
        return rho

    def correlations_with_past(self, positions: Sequence[int], past: Sequence[bytes]) -> Floats:
        """ρ_L of these rows with the `packed` influences of earlier estimates (p,), over all indices of the latter.

        NaN where these are fewer than `FEWEST_COMMON`. The estimates of the rows must have the same indices.
        """
        theirs, m = unpacked(past, COMMON)
        own = np.where(np.arange(COMMON) < m[:, None], self._centred[list(positions), :COMMON], 0.0)
        m = np.where(m >= FEWEST_COMMON, m, np.nan)
        sums = own.sum(axis=1), theirs.sum(axis=1)
        squares = (_varied(np.einsum("ij,ij->i", x, x), total, m) for x, total in zip((own, theirs), sums, strict=True))
        scale = np.sqrt(math.prod(squares))
        product = np.einsum("ij,ij->i", own, theirs) - sums[0] * sums[1] / m
        r = np.clip(np.divide(product, scale, out=np.zeros_like(scale), where=scale > 0.0), -CAP, CAP)
        return _shrunk(np.where(np.isnan(m), m, r), m - 3.0)

    def only_in(self, base: int, rows: Ints) -> tuple[Floats, Floats]:
        """The number of indices that only `base` has, and not these rows (k,), and the sum of base's influences
        there.
        """
        m, _, theirs = self.shared(base)
        return self.counts[base] - m[rows], -theirs[rows]

    def only_in_rows(self, base: int, rows: Ints) -> tuple[Floats, Floats]:
        """The number of indices that only these rows have, and not `base` (k,), and the sums of their influences
        there.
        """
        m, mine, _ = self.shared(base)
        return (self.counts - m)[rows], -mine[rows]

    def moved_without_groups(self, first: Ints, base: int, at: Ints) -> tuple[Floats, Floats]:
        """u (`Side.moved`) without each of ten groups of indices, about the mean of the ten: two arrays (·, 10), of the
        rows `at` compared with `base`, and of `base` compared with them.

        first: the number of samples of each that are taken (k,), of the least indices.
        """
        is_taken = self._told.cumsum(axis=1) <= first[:, None]
        told, centred = _in_groups(self._told * is_taken), _in_groups(self._centred)
        shared = told[at] * told[base]
        own = [(told[at], centred[at]), (told[[base]], centred[[base]])]
        means = [(_means_without(shared, values), _means_without(weights, values)) for weights, values in own]
        of_each, of_base = (of_shared - of_all for of_shared, of_all in means)
        return of_each - of_each.mean(axis=1, keepdims=True), of_base - of_base.mean(axis=1, keepdims=True)

    def skewness(self, base: int) -> Floats:
        """The skewness (k,) of the difference of influences from the influences of `base`, over the indices that both
        have."""
        both = self._told * self._told[base] > 0.0
        return skewness(np.where(both, self._centred - self._centred[base], np.nan))

    def farthest_below(self, base: int, sign: float) -> Floats:
        """The distance of the lowest difference (k,) from the influences of `base` below the mean one, over the indices
        that both have. sign: by what differences are multiplied."""
        both = self._told * self._told[base]
        rows = both * (self._centred - self._centred[base]) * sign
        means = rows.sum(axis=1) / np.maximum(both.sum(axis=1), 1.0)
        return (both * (means[:, None] - rows)).max(axis=1, initial=0.0)


def _shrunk(r: Floats, freedom: Floats) -> Floats:
    """Correlations by Fisher's z, one standard error closer to 0."""
    z = np.arctanh(r)
    return np.copysign(np.tanh(np.maximum(np.abs(z) - 1.0 / np.sqrt(freedom), 0.0)), z)


def effective(rho: Floats, first: Floats, first_other: Floats, overlap: Floats) -> Floats:
    """ρ_e, correlation of two sampling errors: the second order correlates as the square (Hermite polynomials)."""
    linear, curved = np.sqrt(first * first_other), np.sqrt((1.0 - first) * (1.0 - first_other))
    return rho * linear * overlap + rho * np.abs(rho) * curved * np.square(overlap)


def _products(rows: Floats, row: Floats) -> Floats:
    # Not by BLAS, whose sums depend on the number of rows: a contrast is the same to the last bit in every company.
    return np.einsum("ij,j->i", rows, row)


def _in_groups(rows: Floats) -> Floats:
    """Rows (k, m) with a last axis of the groups of their indices (k, m/10, 10), zeros behind the last index."""
    behind = -rows.shape[1] % JACKKNIFE_GROUPS
    return np.pad(rows, ((0, 0), (0, behind))).reshape(len(rows), -1, JACKKNIFE_GROUPS)


def _means_without(weights: Floats, values: Floats) -> Floats:
    """The weighted means of values without each group (k, 10), both as of `_in_groups`."""
    sums, counts = np.einsum("kij,kij->kj", weights, values), weights.sum(axis=1)
    left = counts.sum(axis=1, keepdims=True) - counts
    return (sums.sum(axis=1, keepdims=True) - sums) / np.maximum(left, 1.0)


def _varied(squares: Floats, sums: Floats, m: Floats) -> Floats:
    varied = squares - np.square(sums) / m
    # What is this much smaller than its terms is rounding: the influences are all equal.
    return np.where(varied > 1e-12 * squares, varied, 0.0)


class Indices:
    """The indices of k estimates as intervals, one estimate after the other, and what one lacks of another."""

    def __init__(self, pairings: Sequence[Pairing], samples: Sequence[int]) -> None:
        self.pairings = pairings
        self.n = np.array(samples, float)
        self.first = np.array([each.first_order for each in pairings])
        self.are_whole = np.array([each.told == (0, n) for each, n in zip(pairings, samples, strict=True)])
        """A mask (k,): True if the samples have the indices 0 … n − 1."""

    def common(self, base: int) -> Floats:
        """The number of indices that each has in common with `base` (k,)."""
        if self.are_whole.all():
            return np.minimum(self.n, self.n[base])
        return self._told.within(self._told.before(base))

    def sides(self, influences: InfluenceTable, m: Floats, base: int, at: Ints) -> tuple[Side, Side]:
        """The estimates `at` these rows, and the one at `base` compared with each of them; m: their common samples."""
        lacking = [influences.only_in_rows(base, at), influences.only_in(base, at)]
        means = [np.zeros(len(at)), np.zeros(len(at))]
        if any(len(each.later) for each in self.pairings):
            later = _later(self, influences)
            means = [later.means[at], later.means[base]]
            beyond = later.only_in_rows(self._told, base, at), later.only_in(self._told, base, at)
            lacking = [(a + c, b + d) for (a, b), (c, d) in zip(lacking, beyond, strict=True)]
        side, of_base = (
            Side(self.n[index], self.first[index], np.minimum(unshared, self.n[index] - m), total - mean * unshared)
            for index, (unshared, total), mean in zip((at, base), lacking, means, strict=True)
        )
        return side, of_base

    @cached_property
    def _told(self) -> _Intervals:
        return _Intervals([each.told for each in self.pairings])


class _Intervals:
    """Intervals of k estimates, one estimate after the other: all starts and ends (e,)."""

    def __init__(self, intervals: Sequence[tuple[int, ...]]) -> None:
        parts = [_as_array(each or (0, 0)) for each in intervals]
        self.ends = np.concatenate(parts)
        """The start and the end of each interval (e,)."""
        self.lengths = self.ends[1::2] - self.ends[::2]
        """The number of indices of each interval (e/2,)."""
        self.first = np.array([0, *accumulate(map(len, parts))])

    def ends_of(self, index: int) -> Ints:
        """The starts and the ends of one estimate's intervals."""
        return self.ends[self.first[index] : self.first[index + 1]]

    def before(self, base: int) -> Floats:
        """The number of indices of `base` before each start and end."""
        ends = self.ends_of(base)
        counts = np.zeros(len(ends), np.int64)
        counts[1::2] = ends[1::2] - ends[::2]
        return np.interp(self.ends, ends, counts.cumsum())

    def within(self, before: Floats) -> Floats:
        """The sums within the intervals of each estimate (k,), from the sums of all that is before each start and
        end."""
        signed = before.copy()
        signed[::2] *= -1.0
        return np.add.reduceat(signed, self.first[:-1])


@lru_cache(maxsize=4096)  # of all estimates of a pick one or two are new
def _as_array(ends: tuple[int, ...]) -> Ints:
    return np.array(ends, np.int64)


class _Later:
    """The influences of k estimates beyond the common indices, minus the same constants as in `InfluenceTable`."""

    def __init__(self, pairings: Sequence[Pairing], influences: InfluenceTable) -> None:
        self._told = _Intervals([each.later_told for each in pairings])
        self._counts = np.array([len(each.later) for each in pairings])
        values = np.zeros((len(pairings), 1 + self._counts.max()))
        is_known = np.arange(values.shape[1] - 1) < self._counts[:, None]
        constants = np.repeat(influences.constant, self._counts)
        values[:, 1:][is_known] = np.concatenate([each.later for each in pairings]) - constants
        self._before = np.cumsum(values, axis=1)  # along each row: its bits do not depend on the others
        self._totals = self._before[:, -1]
        self.means = self._totals / np.maximum(influences.counts + self._counts, 1.0)
        """The mean of all known influences of each (k,); the mean of the common ones is 0."""

    def only_in_rows(self, told: _Intervals, base: int, at: Ints) -> tuple[Floats, Floats]:
        ends = told.ends_of(base)
        inside = (ends[:, None] - self._told.ends[::2]).clip(0, self._told.lengths)
        ranks = np.add.reduceat(inside, self._told.first[:-1] // 2, axis=1)[:, at]
        of_shared, shared = (
            (each[1::2] - each[::2]).sum(axis=0) for each in (self._before[at, ranks], ranks.astype(float))
        )
        return self._counts[at] - shared, self._totals[at] - of_shared

    def only_in(self, told: _Intervals, base: int, at: Ints) -> tuple[Floats, Floats]:
        own = self._told.ends_of(base)
        positions = (told.ends[:, None] - own[::2]).clip(0, own[1::2] - own[::2]).sum(axis=1)
        return (
            self._counts[base] - told.within(positions.astype(float))[at],
            self._totals[base] - told.within(self._before[base, positions])[at],
        )


@lru_cache(maxsize=4)  # as of `InfluenceTable`
def _later(indices: Indices, influences: InfluenceTable) -> _Later:
    return _Later(indices.pairings, influences)


class Side(NamedTuple):
    """One of the two estimates of each of k differences: arrays (k,) or numbers."""

    n: Floats
    """Samples."""
    first: Floats
    """The share f of the sampling variance that is linear in the samples."""
    unshared: Floats
    """Samples that the other one has not, as far as their influences are known."""
    influence: Floats
    """The sum of their influences on the value, each minus the mean over the estimate's samples."""

    @property
    def part(self) -> Floats:
        """The part q of the samples that is known to be unshared."""
        return self.unshared / self.n

    def moved(self, m: Floats) -> Floats:
        """u: the mean influence of the m shared samples minus the mean of all, by the known influences."""
        return -self.influence / m


def weights(a: Side, b: Side, s_a: Floats, s_b: Floats, rho: Floats, m: Floats) -> tuple[Floats, Floats]:
    """λ_a and λ_b of least linear variance, from the sampling variances s of e_a and e_b and the m common samples."""
    v_a, v_b = a.first * s_a * a.n, b.first * s_b * b.n
    c, q_a, q_b = rho * np.sqrt(v_a * v_b), a.part, b.part
    w_a, w_b = (v * (1.0 - side.part) * side.n / m for side, v in ((a, v_a), (b, v_b)))
    determinant = w_a * w_b - c * c * q_a * q_b
    numerators = m * c * (w_b / b.n + c * q_b / a.n), m * c * (w_a / a.n + c * q_a / b.n)
    of_a, of_b = (np.where(q > 0.0, each / determinant, 0.0) for each, q in zip(numerators, (q_a, q_b), strict=True))
    return of_a, of_b


def variance(a: Side, b: Side, s_a: Floats, s_b: Floats, rho: Floats, m: Floats, lambdas: Sequence[Floats]) -> Floats:
    """The sampling variance of e_a − e_b + λ_a u_a − λ_b u_b, from those s of e_a and e_b."""
    level = levelled(a, b, rho, m)
    floor = 0.25 * (1.0 - rho * rho) * (a.first * s_a + b.first * s_b)  # this part is left of the linear one, at least
    linear = np.maximum(_linear(a, b, a.first * s_a * a.n, b.first * s_b * b.n, level, m, lambdas), floor)
    return linear + _curved(a, b, (1.0 - a.first) * s_a, (1.0 - b.first) * s_b, level, m, lambdas)


def levelled(a: Side, b: Side, rho: Floats, m: Floats) -> Floats:
    """The correlation of the influences if both were linearised at the same samples.

    IF_a contains 2/n_a times the pairs of a sample with all of a. Those with unshared samples differ from the ones of b
    by chance, which the second order counts already.
    """
    curved = np.sqrt((1.0 - a.first) * (1.0 - b.first) / (a.first * b.first))
    return np.minimum(rho + 2.0 * rho * rho * (1.0 - m / np.sqrt(a.n * b.n)) * curved, CAP)


def _linear(a: Side, b: Side, v_a: Floats, v_b: Floats, rho: Floats, m: Floats, lambdas: Sequence[Floats]) -> Floats:
    """The part of the variance that is linear in the samples, of which one has the variance v."""
    c, q_a, q_b, (l_a, l_b) = rho * np.sqrt(v_a * v_b), a.part, b.part, lambdas
    total = v_a / a.n + v_b / b.n - 2.0 * c * m / (a.n * b.n) - 2.0 * l_a * l_b * c * q_a * q_b / m
    for side, v, q, each, other in ((a, v_a, q_a, l_a, b.n), (b, v_b, q_b, l_b, a.n)):
        total += each * each * v * q * (1.0 - q) * side.n / (m * m) - 2.0 * each * c * q / other
    return total


def _curved(a: Side, b: Side, c_a: Floats, c_b: Floats, rho: Floats, m: Floats, lambdas: Sequence[Floats]) -> Floats:
    """The part of the variance that is of second order, from those c of e_a and e_b.

    IF_a is linearised at all samples of a, so that u_a contains the pairs of an unshared sample with any other one, and
    takes most of them out. `both`, `one` and `none` say what is left in e_a + λ u_a of pairs of as many other samples.
    """
    others: list[Floats] = []
    total = np.zeros_like(c_a)
    for side, c, each in ((a, c_a, lambdas[0]), (b, c_b, lambdas[1])):
        q, scaled = side.part, each * side.n / m
        both = 1.0 + 2.0 * scaled * q
        one, none = 1.0 - scaled * (1.0 - 2.0 * q), 1.0 - 2.0 * scaled * (1.0 - q)
        total = total + c * (np.square((1.0 - q) * both) + 2.0 * q * (1.0 - q) * np.square(one) + np.square(q * none))
        others.append(both)
    shared = np.square(rho * m) / (a.n * b.n) * np.sqrt(c_a * c_b)
    return np.maximum(total - 2.0 * shared * others[0] * others[1], 0.0)
