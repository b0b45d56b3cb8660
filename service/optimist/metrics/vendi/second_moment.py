"""Σ φφᵀ over some samples of a stream, as products that need no width × width matrix."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from optimist.metrics.symmetric import SymmetricSum, edges


class SecondMoment:
    """S = Σ φφᵀ of `count` samples, by their rows (count, width), or as a sum of packed sums."""

    def __init__(self, rows: Tensor | None = None, sums: Sequence[SymmetricSum] = (), count: int = 0) -> None:
        self.rows = rows
        self.count = count if rows is None else len(rows)
        self._sums = tuple(sums)

    def panel(self, place: int) -> Tensor:
        """The rows of S in a panel at this place of `symmetric.edges`, up to its diagonal block."""
        if self.rows is not None:
            start, stop = edges(self.width)[place]
            return self.rows[:, start:stop].T @ self.rows[:, :stop]
        return torch.stack([each.panel(place) for each in self._sums]).sum(0)

    def times(self, rows: Tensor) -> Tensor:
        """Rows (b, width) times S (b, width)."""
        if self.rows is not None:
            return (rows @ self.rows.T) @ self.rows
        return torch.stack([each.times(rows) for each in self._sums]).sum(0)

    @property
    def width(self) -> int:
        """The columns of φ."""
        return self._sums[0].width if self.rows is None else self.rows.shape[1]

    @property
    def device(self) -> torch.device:
        """Where φ are."""
        return self._sums[0].packed.device if self.rows is None else self.rows.device

    def add_to(self, whole: SymmetricSum, share: float) -> None:
        """Add share · S to a sum."""
        if self.rows is not None:
            whole.add(math.sqrt(share) * self.rows)
        for each in self._sums:
            whole.packed.add_(each.packed, alpha=share)

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


def inner_products(parts: Sequence[SecondMoment]) -> NDArray[np.float64]:
    """⟨S_i, S_j⟩_F (G, G), the sums of k² over all pairs of a sample of one part and one of another.

    By the rows while they are few and all held. Otherwise panel by panel, so that only one panel of each S is in memory
    beside what is kept.
    """
    width, count = parts[0].width, len(parts)
    found = np.zeros((count, count))
    held = [part.rows for part in parts if part.rows is not None]
    if len(held) == count and sum(map(len, held)) <= 1.5 * width:
        for i, mine in enumerate(held):
            for j, theirs in enumerate(held[: i + 1]):
                found[i, j] = found[j, i] = float((mine @ theirs.T).square().sum())
        return found
    for place, (start, _) in enumerate(edges(width)):
        panels = torch.stack([part.panel(place) for part in parts])
        flat, corners = panels.flatten(1), panels[:, :, start:].flatten(1)
        # Entries below the diagonal count twice.
        found += (2.0 * (flat @ flat.T) - corners @ corners.T).cpu().numpy()
    return found


def blended(parts: Sequence[SecondMoment], shares: NDArray[np.float64]) -> Callable[[Tensor], Tensor]:
    """φᵀ(Σ_j shares_j S_j)φ (b,) of rows φ (b, width), shares at least 0.

    By the rows while they are fewer than the width and all held, otherwise by one weighted sum.
    """
    used = [(part, float(share)) for part, share in zip(parts, shares, strict=True) if share > 0.0]
    held = [(part.rows, share) for part, share in used if part.rows is not None]
    width = parts[0].width
    if len(held) == len(used) and sum(len(rows) for rows, _ in held) <= width:
        scaled = torch.cat([math.sqrt(share) * rows for rows, share in held])
        return lambda features: (features @ scaled.T).square().sum(-1)
    whole = SymmetricSum(width, parts[0].device)
    for part, share in used:
        part.add_to(whole, share)
    return SecondMoment(sums=(whole,)).within
