"""The Gram matrix of a growing stream's whitened rows, of which each part is computed once."""

from __future__ import annotations

from torch import Tensor

from optimist.metrics.spectra.eigen import double_centre
from optimist.metrics.spectra.symmetric import times_lower

BLOCK = 64
"""Rows that are whitened, and multiplied by all before them, at once. They are at fixed places, so that the bits of an
estimate do not depend on which estimates were made before it."""


class KeptGram:
    """ZZᵀ of rows Z = (X − x₀)Rᵀ, where the rows X of a stream only grow, and R (k, d) is a factor.

    Rows behind the last whole block are not kept.
    """

    def __init__(self, factor: Tensor) -> None:
        self._factor = factor
        self._count = 0
        self._whitened = factor.new_empty(0, len(factor))
        """A buffer that grows by a quarter; its first `count` rows are kept."""
        self._gram = factor.new_empty(0, 0)

    @property
    def bytes(self) -> int:
        """Bytes of what is kept."""
        return self._whitened.nbytes + self._gram.nbytes

    def take(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Z (n, k) of all rows (n, d), or of the first n, and the Gram matrix (n, n) of Z minus its mean.

        Z is valid until the next call.
        """
        n, whole = len(rows), len(rows) - len(rows) % BLOCK
        known = min(self._count, whole)
        gram, whitened = rows.new_empty(n, n), self._room(n)
        gram[:known, :known] = self._gram[:known, :known]
        for start in range(known, n, BLOCK):
            stop = min(start + BLOCK, n)
            whitened[start:stop] = times_lower(rows[start:stop] - rows[0], self._factor)
            block = whitened[start:stop] @ whitened[:stop].T
            gram[start:stop, :stop] = block
            gram[:start, start:stop] = block[:, :start].T
        if whole > self._count:
            self._count, self._gram = whole, gram[:whole, :whole].clone()
        return whitened, double_centre(gram)

    def _room(self, n: int) -> Tensor:
        """Rows (n, k) that begin with those that are kept, in memory that may be written to behind these."""
        if n < self._count:
            return self._whitened[:n].clone()
        if n > len(self._whitened):
            grown = self._factor.new_empty(max(n, min(n + n // 4, len(self._factor))), len(self._factor))
            grown[: self._count] = self._whitened[: self._count]
            self._whitened = grown
        return self._whitened[:n]
