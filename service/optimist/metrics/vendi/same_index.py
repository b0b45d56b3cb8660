"""Rows of one index in generators that share seeds or prompts: they leave a blend together (docs/decisions.md §6).

C = Σ ω φφᵀ without all rows of one index, not one row alone, is independent of each of them. With the Gram matrix
R(w) = Φᵀ(C + w)⁻¹Φ of these rows Φ, one of each generator with a weight, Ω their shares and L = √Ω R √Ω,

    Q_i = φ_iᵀ(C₋ + w)⁻¹φ_i = ([(1 − L)⁻¹]_ii − 1)/ω_i            generator i has a weight
    Q_i = R_ii + r_iᵀ √Ω (1 − L)⁻¹ √Ω r_i                         it has none; r_i its column of R

What this is more than without the row alone is found from the common rows and holds for all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cached_property

import torch
from torch import Tensor

from optimist.metrics.vendi.blended_spectrum import BlendedSpectrum

INDICES = 128
"""First common indices that are looked at."""
SLIGHT = 1e-9
"""The least that 1 − L counts as."""


class SameIndex:
    """The common rows of one blend.

    features: φ (m, width), of each generator that has them, by place: samples of the same indices in the same order.
    share: which part of the samples of the smaller of two generators has an index in common.
    """

    def __init__(self, spectrum: BlendedSpectrum, features: Mapping[int, Tensor], share: float) -> None:
        self._spectrum, self._features = spectrum, features
        self._support = [place for place in spectrum.support if place in features]
        self._share = share
        self._known: dict[int, Tensor] = {}
        self._inverse: tuple[Tensor, Tensor] | None = None

    def fraction(self, place: int) -> float:
        """Which part of the rows of a generator has rows of its index among those of the others in C."""
        weights, own = self._spectrum.weights, self._spectrum.parts[place].count
        others = self._others(place)
        total = sum(float(weights[other]) for other in others)
        if place not in self._features or total == 0.0:
            return 0.0
        least = [min(own, self._spectrum.parts[other].count) for other in others]
        paired = sum(float(weights[other]) * count for other, count in zip(others, least, strict=True))
        return self._share * paired / (own * total)

    def left(self, place: int) -> float:
        """What leaves the trace of C with a row of a generator, on average, beside its own share."""
        return self.sum_over(place, lambda mine, theirs: 1.0)

    def sum_over(self, place: int, of: Callable[[Tensor, Tensor], float]) -> float:
        """Σ_j ω_j of(x_i, x_j), the mean over the rows of a generator i, x (m, k) the common rows in C's eigenbasis."""
        fraction = self.fraction(place)
        if fraction == 0.0:
            return 0.0
        found, mine = self._coordinates, self._coordinates[place]
        return fraction * sum(self._spectrum.share(other) * of(mine, found[other]) for other in self._others(place))

    @cached_property
    def count(self) -> float:
        """The effective number of samples: rows of one index count as one as far as their φφᵀ vary together."""
        weights = self._spectrum.weights
        further = sum(float(weights[place]) * self.sum_over(place, _correlation) for place in self._support)
        return 1.0 / (1.0 / self._spectrum.count + further)

    def raised(self, place: int, ridges: Tensor) -> Tensor:
        """By how much Q (W,) of the rows of a generator is larger, on average, at ridges w (W,)."""
        fraction = self.fraction(place)
        if fraction == 0.0:
            return torch.zeros_like(ridges)
        if place not in self._known:
            self._known[place] = fraction * self._raised(place, ridges)
        return self._known[place]

    def _others(self, place: int) -> list[int]:
        return [other for other in self._support if other != place]

    def _raised(self, place: int, ridges: Tensor) -> Tensor:
        inverse, leverage = self._resolved(ridges)
        if place in self._support:
            at, share = self._support.index(place), self._spectrum.share(place)
            alone = (1.0 / (1.0 - leverage[..., at, at]).clamp_min(SLIGHT) - 1.0) / share
            found = (inverse[..., at, at] - 1.0) / share
        else:
            alone = self._product(place, place, ridges)
            column = torch.stack([self._product(place, other, ridges) for other in self._support], dim=-1)
            column = column * self._roots
            found = alone + torch.einsum("mwi,mwij,mwj->mw", column, inverse, column)
        # Without more rows Q is larger, and never above 1/w: rounding, or rows that are not in C, could say otherwise.
        alone = torch.minimum(alone, 1.0 / ridges)
        return (torch.minimum(torch.maximum(found, alone), 1.0 / ridges) - alone).mean(0)

    def _resolved(self, ridges: Tensor) -> tuple[Tensor, Tensor]:
        """(1 − L)⁻¹ and L (m, W, S, S)."""
        if self._inverse is None:
            size = len(self._support)
            each = {
                (i, j): self._product(self._support[i], self._support[j], ridges)
                for i in range(size)
                for j in range(i + 1)
            }
            rows = [torch.stack([each[max(i, j), min(i, j)] for j in range(size)], dim=-1) for i in range(size)]
            leverage = torch.stack(rows, dim=-2) * self._roots[:, None] * self._roots
            eye = torch.eye(size, dtype=ridges.dtype, device=ridges.device)
            self._inverse = torch.linalg.inv((1.0 + SLIGHT) * eye - leverage), leverage
        return self._inverse

    def _product(self, i: int, j: int, ridges: Tensor) -> Tensor:
        """φ_iᵀ(C + w)⁻¹φ_j (m, W) of rows of the same index."""
        inverse = 1.0 / (self._spectrum.values[:, None] + ridges)
        return (self._coordinates[i] * self._coordinates[j]) @ inverse

    @cached_property
    def _coordinates(self) -> dict[int, Tensor]:
        return {place: self._spectrum.coordinates(rows[:INDICES]) for place, rows in self._features.items()}

    @cached_property
    def _roots(self) -> Tensor:
        """√ω (S,)."""
        shares = [self._spectrum.share(place) for place in self._support]
        return torch.tensor(shares, dtype=self._spectrum.values.dtype, device=self._spectrum.values.device).sqrt()


def _correlation(mine: Tensor, theirs: Tensor) -> float:
    """That of φφᵀ of rows (m, k) in the same places, ≥ 0: by squared kernels, less those of different places."""
    within = [1.0 - float((rows @ rows.T).square().mean()) for rows in (mine, theirs)]
    across = (mine @ theirs.T).square()
    apart = float(across.diagonal().mean() - across.mean())
    return min(max(apart, 0.0) / math.sqrt(within[0] * within[1]), 1.0) if min(within) > 0.0 else 0.0
