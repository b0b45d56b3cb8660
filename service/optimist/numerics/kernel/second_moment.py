"""Σ φφᵀ over some samples of a stream, as products that need no width × width matrix."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from optimist.numerics.symmetric import SymmetricSum


class SecondMoment:
    """S = Σ φφᵀ of `count` samples, by their rows (count, width), or as a sum of packed sums."""

    def __init__(self, rows: Tensor | None = None, sums: Sequence[SymmetricSum] = (), count: int = 0) -> None:
        self.rows = rows
        self.count = count if rows is None else len(rows)
        self._sums = tuple(sums)

    def dot(self, other: SecondMoment) -> float:
        """⟨S, S′⟩_F, the sum of k² over all pairs of a sample here and one there."""
        if self.rows is not None and other.rows is not None:
            return float((self.rows @ other.rows.T).square().sum())
        if self.rows is not None:
            return float(other.within(self.rows).sum())
        if other.rows is not None:
            return float(self.within(other.rows).sum())
        return sum(mine.dot(theirs) for mine in self._sums for theirs in other._sums)

    def times(self, rows: Tensor) -> Tensor:
        """Rows (b, width) times S (b, width)."""
        if self.rows is not None:
            return (rows @ self.rows.T) @ self.rows
        return torch.stack([each.times(rows) for each in self._sums]).sum(0)

    @property
    def last_column(self) -> Tensor:
        """S e (width,), e the last unit vector: of features whose last one is 1, their sum."""
        if self.rows is not None:
            return self.rows.T @ self.rows[:, -1]
        return torch.stack([each.last_row() for each in self._sums]).sum(0)

    def within(self, rows: Tensor) -> Tensor:
        """φᵀSφ (b,) of rows φ (b, width): the sum of k² over the samples."""
        if self.rows is not None:
            return (rows @ self.rows.T).square().sum(-1)
        return (self.times(rows) * rows).sum(-1)
