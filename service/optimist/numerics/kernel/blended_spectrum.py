"""The covariance of a blend, C = Σ α_i C_i, in its eigenbasis: by the Gram matrix of weighted rows while that is smaller.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from optimist.numerics.kernel.entropy import log_vendi
from optimist.numerics.kernel.spectrum import floored_at
from optimist.numerics.kernel.statistic import KernelStatistic
from optimist.numerics.mixtures.quadratic import Floats
from optimist.numerics.spectra import symmetric_product

KEPT = 512
"""Last rows of each generator by which influences are found, as in an estimate of one."""


@dataclass(frozen=True)
class Part:
    """The samples of one generator in one half of its log, or all."""

    statistic: KernelStatistic
    half: int | None

    @cached_property
    def count(self) -> int:
        """n."""
        samples = self.statistic.samples
        return samples if self.half is None else (samples + 1 - self.half) // 2

    @cached_property
    def rows(self) -> Tensor | None:
        """All φ (n, width) in log order, where they are held."""
        rows = self.statistic.rows
        return rows if rows is None or self.half is None else rows[self.half :: 2].clone()

    @cached_property
    def kept(self) -> Tensor:
        """φ of the last rows (b, width)."""
        if self.rows is not None:
            return self.rows[-KEPT:]
        last = self.statistic.last_rows
        return last if self.half is None else last[(self.statistic.samples - len(last) + self.half) % 2 :: 2]

    def moment(self) -> Tensor:
        """C_i (width, width). Raises ValueError where halves were not kept."""
        if self.rows is not None:
            return self.rows.T @ self.rows / self.count
        whole = self.statistic.moment if self.half is None else self.statistic.half_moment(self.half)
        return whole / self.count


class BlendedSpectrum:
    """Eigenvalues of the blend of some parts, and their rows in its eigenbasis, which need not span other rows."""

    def __init__(self, parts: Sequence[Part], weights: Floats) -> None:
        self.parts = parts
        self.weights = weights
        self.support = np.flatnonzero(weights).tolist()
        """Places of the generators with a weight above 0."""
        self._held = [part.rows for place, part in enumerate(parts) if weights[place] > 0.0]
        total = sum(parts[place].count for place in self.support)
        self.by_rows = all(rows is not None for rows in self._held) and total <= parts[0].statistic.width
        """Whether by the Gram matrix."""
        values, vectors = torch.linalg.eigh(self._gram() if self.by_rows else self._covariance())
        self._vectors = vectors.flip(-1)
        """(N, k) of the Gram matrix, (width, k) of C."""
        self.raw = values.flip(-1).clamp_min(0.0)
        """Eigenvalues (k), descending."""
        self.values = floored_at(self.raw)
        """The same, none below `FLOOR` times the largest."""

    def share(self, place: int) -> float:
        """ω of a row of this generator: its weight in C."""
        return float(self.weights[place]) / self.parts[place].count

    def plug_in(self, order: float) -> float:
        """The log score of the samples as they are."""
        return log_vendi(self.raw, order)

    @cached_property
    def count(self) -> float:
        """The effective number of samples, 1/Σ ω²."""
        return 1.0 / sum(float(self.weights[place]) ** 2 / self.parts[place].count for place in self.support)

    def coordinates(self, features: Tensor) -> Tensor:
        """v_kᵀφ (m, k) of any rows φ (m, width)."""
        if not self.by_rows:
            return features @ self._vectors
        return (features @ self._weighted.T) @ (self._vectors / self.values.sqrt())

    def kept(self, place: int) -> Tensor:
        """v_kᵀφ (b, k) of the kept rows of this generator."""
        if self.by_rows and self.weights[place] > 0.0:
            return self._entries(place)[-KEPT:] * (self.raw / self.share(place)).sqrt()
        return self.coordinates(self.parts[place].kept)

    def leverages(self, place: int) -> Tensor:
        """ω (v_kᵀφ)²/g_k (b, k) of the kept rows of a generator of the support, known where g_k is 0, too."""
        if self.by_rows:
            return self._entries(place)[-KEPT:].square()
        return self.coordinates(self.parts[place].kept).square() * (self.share(place) / self.values)

    def moment(self, place: int) -> Tensor:
        """C_i (k, k) in the eigenbasis."""
        part = self.parts[place]
        if part.rows is None:
            return self._vectors.T @ part.moment() @ self._vectors
        is_inside = self.by_rows and self.weights[place] > 0.0
        if is_inside:
            rows = self._entries(place) * (self.raw / self.share(place)).sqrt()
        else:
            rows = self.coordinates(part.rows)
        return symmetric_product(rows.T, rows) / part.count

    def _entries(self, place: int) -> Tensor:
        """The Gram matrix's eigenvectors at all rows of a generator of the support (n, k)."""
        start = sum(self.parts[before].count for before in self.support if before < place)
        return self._vectors[start : start + self.parts[place].count]

    @cached_property
    def _weighted(self) -> Tensor:
        """√ω φ (N, width) of all rows of the support."""
        scaled = [
            rows * self.share(place) ** 0.5 for place, rows in zip(self.support, self._held, strict=True) if rows is not None
        ]
        return torch.cat(scaled)

    def _gram(self) -> Tensor:
        return symmetric_product(self._weighted, self._weighted.T)

    def _covariance(self) -> Tensor:
        first, *others = self.support
        total = float(self.weights[first]) * self.parts[first].moment()
        for place in others:
            total += float(self.weights[place]) * self.parts[place].moment()
        return total
