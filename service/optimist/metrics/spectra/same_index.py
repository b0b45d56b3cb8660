"""How much more rows of the same index change a leave-one-out than independent rows do (decisions.md §6, FID).

Rows of several generators that answer the same seed are alike. What is without a row must then be without all rows of
its index: Z_t, the rows of index t with the square roots of their weights, is taken out of M̂ = Σ_t Z_tᵀZ_t by

    Z_t(M̂₋ + w)⁻¹Z_tᵀ = K(I − K)⁻¹,   K = Z_t(M̂ + w)⁻¹Z_tᵀ

Rows of different indices, put together as if they were of one, show what independent rows would give. The ratio of the
two is 1 where generators are independent.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

LIMITS = (0.2, 50.0)
"""Bounds of the ratios, against rounding where there is nothing left."""


@dataclass(frozen=True, eq=False)
class SameIndex:
    """Rows of the same indices of S generators with weight, and of O without, in the eigenbasis of M̂."""

    rows: Tensor
    """(S, m, k): rows times the square root of their weight α_i/n_i, over the square root of the eigenvalue."""
    others: Tensor
    """(O, m, k): rows of generators without weight, over the square root of the eigenvalue."""
    own: Tensor
    """(S): α_i/n_i."""
    weights: Tensor
    """(S): α_i."""
    shared: Tensor
    """(S + O): which part of the samples of each generator has an index in common."""

    def ratios(self, held: Tensor, free: Tensor) -> tuple[Tensor, Tensor]:
        """Factors of zᵀ(M̂₋ + w)⁻¹z for rows of each generator (S + O, W), and of the degrees of freedom that a row
        takes along (W). held, free (k, W): g/(g + w) and w/(g + w).
        """
        moved, others = _moved(self.rows, 0), _moved(self.others, len(self.rows))
        found, alone, taken = self._without(self.rows, self.others, held, free)
        expected, usual, apart = self._without(moved, others, held, free)
        outside = _ratio(found, expected)
        part = float(self.weights @ self.shared[: len(self.weights)])
        return 1.0 + self.shared[:, None] * (outside - 1.0), 1.0 + part * (_ratio(alone + taken - apart, usual) - 1.0)

    def _alike(self) -> Tensor:
        """Correlations (S, S) of the rows of one index."""
        flat = (self.rows - self.rows.mean(1, keepdim=True)).flatten(1)
        lengths = flat.norm(dim=1)
        found = (flat @ flat.T) / torch.outer(lengths, lengths).clamp_min(1e-300)
        return found.fill_diagonal_(0.0)

    def _without(self, rows: Tensor, others: Tensor, held: Tensor, free: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Means over the indices of zᵀ(M̂₋ + w)⁻¹z (S + O, W), and of the degrees of freedom (W) that rows take along by
        themselves, and as far as they are alike."""
        inside, spread = _products(rows, rows, held), _products(rows, rows, held * free)
        identity = torch.eye(len(rows), dtype=held.dtype, device=held.device)
        left = identity - torch.outer(self.own.sqrt(), self.own.sqrt()) - inside
        inverse = torch.linalg.inv(_positive(left))
        outside = [(inverse * inside).sum(-1).mean(0)]
        if len(others):
            crossed = _products(others, rows, held)
            alone = torch.stack([each.square() @ held for each in others], -1)
            outside.append((alone + ((crossed @ inverse) * crossed).sum(-1)).mean(0))
        freedom = (inverse @ spread).mean(0)
        both = self._alike() * torch.outer(self.weights.sqrt(), self.weights.sqrt())
        own = freedom.diagonal(dim1=-2, dim2=-1) @ self.weights
        return torch.cat(outside, -1).T, own, (freedom * both).sum((-1, -2))


def _moved(rows: Tensor, first: int) -> Tensor:
    """The same rows (A, m, k), those of each generator by another number of places."""
    found = rows.clone()
    for place, each in enumerate(rows):
        found[place] = each.roll(first + place, 0)
    return found


def _products(some: Tensor, others: Tensor, scale: Tensor) -> Tensor:
    """Inner products (m, W, A, B) of rows of the same places, (A, m, k) and (B, m, k), by weights (k, W)."""
    return torch.stack([torch.stack([(one * other) @ scale for other in others], -1) for one in some], -2)


def _positive(left: Tensor) -> Tensor:
    """The same matrices with a small multiple of 1 where they are about to be singular."""
    floor = 1e-9 - torch.linalg.eigvalsh(left)[..., 0]
    return left + floor.clamp_min(0.0)[..., None, None] * torch.eye(
        left.shape[-1], dtype=left.dtype, device=left.device
    )


def _ratio(found: Tensor, expected: Tensor) -> Tensor:
    return torch.where(expected > 0.0, found / expected, 1.0).clamp(*LIMITS)
