"""Rows of one index in generators that share seeds or prompts: they leave a blend together (docs/decisions.md §6).

C = Σ ω φφᵀ without all rows of one index, not one row alone, is independent of each of them. With the Gram matrix
R(w) = Φᵀ(C + w)⁻¹Φ of these rows Φ, one of each generator with a weight, Ω their shares and L = √Ω R √Ω,

    Q_i = φ_iᵀ(C₋ + w)⁻¹φ_i = ([(1 − L)⁻¹]_ii − 1)/ω_i            generator i has a weight
    Q_i = R_ii + r_iᵀ √Ω (1 − L)⁻¹ √Ω r_i                         it has none; r_i its column of R

What this is more than without the row alone is found from the common rows and holds for all.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from optimist.numerics.kernel.blended_spectrum import BlendedSpectrum
from optimist.numerics.mixtures.quadratic import Floats

INDICES = 128
"""First common indices that are looked at."""


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
        return self.fraction(place) * sum(self._spectrum.share(other) for other in self._others(place))

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
        inverse = self._inverse(ridges)
        if place in self._support:
            at = self._support.index(place)
            each = inverse[..., at, at] - 1.0 / (1.0 - self._leverage(ridges)[..., at, at]).clamp_min(1e-9)
            return each.mean(0) / self._spectrum.share(place)
        column = torch.stack([self._product(place, other, ridges) for other in self._support], dim=-1) * self._roots
        return torch.einsum("mwi,mwij,mwj->w", column, inverse, column) / len(column)

    def _inverse(self, ridges: Tensor) -> Tensor:
        """(1 − L)⁻¹ (m, W, S, S)."""
        if self._inverted is None:
            eye = torch.eye(len(self._support), dtype=ridges.dtype, device=ridges.device)
            self._inverted = torch.linalg.inv((1.0 + 1e-9) * eye - self._leverage(ridges))
        return self._inverted

    _inverted: Tensor | None = None
    _levered: Tensor | None = None

    def _leverage(self, ridges: Tensor) -> Tensor:
        """L (m, W, S, S)."""
        if self._levered is None:
            size = len(self._support)
            each = {(i, j): self._product(self._support[i], self._support[j], ridges) for i in range(size) for j in range(i + 1)}
            rows = [torch.stack([each[max(i, j), min(i, j)] for j in range(size)], dim=-1) for i in range(size)]
            self._levered = torch.stack(rows, dim=-2) * self._roots[:, None] * self._roots
        return self._levered

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
