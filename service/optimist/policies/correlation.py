"""How much the chance in two estimates is the same: the correlation of their influences by index (decisions.md §3)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optimist.numerics.pairing import COMMON
from optimist.numerics.past_influences import unpacked
from optimist.numerics.skewness import skewness

FEWEST_COMMON = 10
"""Common indices below which nothing is known of a correlation."""
CAP = 0.9999
"""The largest correlation that is believed, before it is shrunk."""
_ROUNDING = 1e-12
"""A sum of squares this much smaller than its terms is rounding: the influences are all equal."""

Array = NDArray[np.float64]


class Influences:
    """The influences of k estimates on their own values, one row each (k, m); NaN where an index was not told."""

    def __init__(self, rows: NDArray[np.floating[Any]]) -> None:
        known = rows.astype(np.float64)
        missing = np.isnan(known)
        known[missing] = 0.0
        told = 1.0 - missing
        # A constant has no meaning. Without it the sums below lose no digits.
        self.counts = told.sum(axis=1)
        """How many are known of each (k,)."""
        self.constant = known.sum(axis=1) / np.maximum(self.counts, 1.0)
        """The mean of each (k,), without which they are compared."""
        known -= self.constant[:, None]
        known[missing] = 0.0
        self._told, self._known = told, known
        self._shared: dict[int, tuple[Array, Array, Array]] = {}

    def shared(self, base: int) -> tuple[Array, Array, Array]:
        """How many indices each has in common with `base` (k,), and the sums of its own and of base's influences there.

        The indices are those that all generators have first, and a constant is taken off the influences.
        """
        found = self._shared.get(base)
        if found is None:
            told, known = self._told[base], self._known[base]
            rows = (self._told, told), (self._known, told), (self._told, known)
            m, mine, theirs = (_products(*each) for each in rows)
            found = self._shared[base] = m, mine, theirs
        return found

    def correlations(self, base: int) -> Array:
        """ρ_L of every row with that of `base` over the indices that both have (k,): Fisher's z, shrunk towards 0.

        0 where fewer than `FEWEST_COMMON` indices are common, or one of the two does not vary over them.
        """
        told, known = self._told[base], self._known[base]
        m, mine, theirs = self.shared(base)
        enough = m >= FEWEST_COMMON
        m = np.where(enough, m, np.inf)
        product = _products(self._known, known) - mine * theirs / m
        squares = np.einsum("ij,ij,j->i", self._known, self._known, told)
        scale = np.sqrt(_varied(squares, mine, m) * _varied(_products(self._told, np.square(known)), theirs, m))
        r = np.clip(np.divide(product, scale, out=np.zeros_like(scale), where=enough & (scale > 0.0)), -CAP, CAP)
        return _shrunk(r, np.where(enough, m - 3.0, 1.0))

    def correlations_with_past(self, places: Sequence[int], past: Sequence[bytes]) -> Array:
        """ρ_L of these rows with the `packed` influences of earlier estimates (p,), over all indices of the latter.

        NaN where these are fewer than `FEWEST_COMMON`. The rows must have been told the same indices.
        """
        theirs, m = unpacked(past, COMMON)
        own = np.where(np.arange(COMMON) < m[:, None], self._known[list(places), :COMMON], 0.0)
        m = np.where(m >= FEWEST_COMMON, m, np.nan)
        sums = own.sum(axis=1), theirs.sum(axis=1)
        squares = (_varied(np.einsum("ij,ij->i", x, x), total, m) for x, total in zip((own, theirs), sums, strict=True))
        scale = np.sqrt(math.prod(squares))
        product = np.einsum("ij,ij->i", own, theirs) - sums[0] * sums[1] / m
        r = np.clip(np.divide(product, scale, out=np.zeros_like(scale), where=scale > 0.0), -CAP, CAP)
        return _shrunk(np.where(np.isnan(m), m, r), m - 3.0)

    def only_in(self, base: int, rows: NDArray[np.int64]) -> tuple[Array, Array]:
        """How many indices `base` has that these rows have not, and the sum of its influences there."""
        m, _, theirs = self.shared(base)
        return self.counts[base] - m[rows], -theirs[rows]

    def only_in_rows(self, base: int, rows: NDArray[np.int64]) -> tuple[Array, Array]:
        """How many indices these rows have that `base` has not, and the sums of their influences there."""
        m, mine, _ = self.shared(base)
        return (self.counts - m)[rows], -mine[rows]

    def skewness(self, base: int) -> Array:
        """Of what every row has more influence than `base`, over the indices that both have (k,)."""
        both = self._told * self._told[base] > 0.0
        return skewness(np.where(both, self._known - self._known[base], np.nan))


def _shrunk(r: Array, freedom: Array) -> Array:
    """Correlations by Fisher's z, one standard error closer to 0."""
    z = np.arctanh(r)
    return np.copysign(np.tanh(np.maximum(np.abs(z) - 1.0 / np.sqrt(freedom), 0.0)), z)


def effective(rho: Array, first: Array, first_other: Array, overlap: Array) -> Array:
    """ρ_e, correlation of two sampling errors: the second order correlates as the square (Hermite polynomials)."""
    linear, curved = np.sqrt(first * first_other), np.sqrt((1.0 - first) * (1.0 - first_other))
    return rho * linear * overlap + rho * np.abs(rho) * curved * np.square(overlap)


def _products(rows: Array, row: Array) -> Array:
    # Not by BLAS, whose sums depend on the number of rows: a contrast is the same to the last bit in every company.
    return np.einsum("ij,j->i", rows, row)


def _varied(squares: Array, sums: Array, m: Array) -> Array:
    varied = squares - np.square(sums) / m
    return np.where(varied > _ROUNDING * squares, varied, 0.0)
