"""The generators of a mixture as a Fréchet distance sees them, and the space in which their mixtures are decomposed.

Whitened rows are z = (x − μ_i)·root with root = basis √eigenvalues of the reference, so that Σ zzᵀ = A S_i A,
A = Σ_r^{1/2}, in the reference's eigenbasis.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from optimist.estimates.programme import Floats
from optimist.metrics.fid.reference import FrechetReference
from optimist.metrics.fid.statistic import GaussianStatistic, RowMoments
from optimist.metrics.mixtures.objective import Half
from optimist.metrics.spectra.eigen import centre
from optimist.metrics.spectra.symmetric import symmetric_product
from optimist_client.errors import FixError


@dataclass(frozen=True, eq=False)
class GeneratorMoments:
    """The samples of one generator, or of one half of them."""

    reference: FrechetReference
    count: int
    mean: Tensor
    """(d,)."""
    last: Tensor
    """The last rows (b, d) minus the mean: all of them where rows are held."""
    sums: tuple[float, Tensor] | None
    """`spread` and `moment` where not all rows are held: the scatter itself is not kept."""

    @classmethod
    def from_statistic(
        cls, reference: FrechetReference, statistic: GaussianStatistic, half: Half | None
    ) -> GeneratorMoments:
        """Raises FixError on fewer than 2 samples."""
        rows = statistic.rows
        if rows is not None:
            rows = rows if half is None else rows[half::2]
            if len(rows) < 2:
                raise FixError("a part of a mixture needs at least 2 samples")
            mean, centred = centre(rows)
            return cls(reference, len(rows), mean, centred, None)
        if half is None:
            moments, last = RowMoments(statistic.samples, statistic.mean, statistic.scatter), statistic.last_rows
        else:
            moments, last = statistic.half(half), statistic.last_of_half(half)
        root = root_of(reference)
        moment = symmetric_product(root.T, moments.scatter @ root) / moments.count
        spread = float(moments.scatter.trace()) / moments.count
        return cls(reference, moments.count, moments.mean, last - moments.mean, (spread, moment))

    @cached_property
    def spread(self) -> float:
        """Tr S_i/n_i, the trace of the covariance with 1/n."""
        return float(self.last.square().sum()) / self.count if self.sums is None else self.sums[0]

    @cached_property
    def second(self) -> float:
        """Mean ‖x − μ_r‖²: without bias, and linear in the samples."""
        return self.spread + float((self.mean - self.reference.mean).square().sum())

    @cached_property
    def whitened_mean(self) -> Tensor:
        """The whitened distance of the mean from the reference's (rank)."""
        return (self.mean - self.reference.mean) @ root_of(self.reference)

    @cached_property
    def whitened(self) -> Tensor:
        """The last rows, whitened (b, rank)."""
        return self.last @ root_of(self.reference)

    @cached_property
    def moment(self) -> Tensor:
        """A S_i A/n_i (rank, rank)."""
        if self.sums is None:
            return symmetric_product(self.whitened.T, self.whitened) / self.count
        return self.sums[1]


def root_of(reference: FrechetReference) -> Tensor:
    """A over the reference's rank (d, rank)."""
    return reference.root[:, : reference.rank]


@dataclass(frozen=True, eq=False)
class Space:
    """Coordinates (k) in which all mixtures are decomposed: the reference's eigenbasis, or, while there are fewer rows
    of all parts together, a basis of these, by their Gram matrix.
    """

    counts: tuple[int, ...]
    eigenvalues: Tensor
    """The eigenvalues of the reference (rank)."""
    means: Tensor
    """Whitened means (G, k) from one origin."""
    rows: tuple[Tensor, ...]
    """Whitened last rows (b_i, k) of each part, minus its mean."""
    moments: tuple[Tensor, ...]
    """A S_i A/n_i (k, k)."""
    same: tuple[Tensor | None, ...]
    """Whitened rows (m, k) of the same indices of each part, minus its mean; None where there are none."""
    shared: tuple[float, ...]
    """The share of each one's samples whose index the others have, too."""
    basis: Tensor | None = None
    """Whitened rows (b, rank) times this (rank, k) have these coordinates; None: they are the coordinates."""

    @classmethod
    def from_parts(
        cls, parts: Sequence[GeneratorMoments], same: Sequence[Tensor | None] = (), share: float = 0.0
    ) -> Space:
        """The smaller of the two spaces. same: rows (m, d) of the same indices of each part; share: as in
        `SharedChance`."""
        counts = tuple(part.count for part in parts)
        eigenvalues = parts[0].reference.eigenvalues
        means = torch.stack([part.whitened_mean for part in parts])
        rows = tuple(part.whitened for part in parts)
        shared = tuple(share * min(counts) / count for count in counts)
        matched = tuple(
            None if each is None else (each - part.mean) @ root_of(part.reference)
            for part, each in zip(parts, same, strict=False)
        )
        if sum(counts) > len(eigenvalues) or any(part.sums is not None for part in parts):
            return cls(counts, eigenvalues, means, rows, tuple(part.moment for part in parts), matched, shared)
        vectors = torch.cat([*rows, means[1:] - means[0]])
        squares, turned = torch.linalg.eigh(symmetric_product(vectors, vectors.T))
        kept = min(sum(counts) - 1, len(squares))
        roots = squares[-kept:].clamp_min(0.0).sqrt()
        *inside, shifts = (turned[:, -kept:] * roots).split([*counts, len(parts) - 1])
        means = torch.cat([shifts.new_zeros(1, kept), shifts])
        moments = tuple(symmetric_product(each.T, each) / len(each) for each in inside)
        # In directions without rows nothing is divided by a length of rounding.
        lengths = torch.where(roots > 1e-12 * roots[-1], roots, torch.inf)
        basis = vectors.T @ (turned[:, -kept:] / lengths)
        matched = tuple(None if each is None else each @ basis for each in matched)
        return cls(counts, eigenvalues, means, tuple(inside), moments, matched, shared, basis)

    @cached_property
    def overlap(self) -> Floats:
        """(G, G), 0 on the diagonal: m_ij/n_j tr C_ij/tr C_i, C_ij the covariance of rows of the same index, of which
        m_ij are among the samples."""
        overlap = np.zeros((len(self.counts), len(self.counts)))
        for i, mine in enumerate(self.same):
            for j, theirs in enumerate(self.same):
                if i == j or mine is None or theirs is None:
                    continue
                own = float(mine.square().sum())
                common = self.shared[i] * min(self.counts[i], self.counts[j]) / self.counts[j]
                overlap[i, j] = common * float((mine * theirs).sum()) / own if own > 0.0 else 0.0
        return overlap

    def inside(self, whitened: Tensor) -> Tensor:
        """Coordinates (b, k) of whitened rows (b, rank) of the samples."""
        return whitened if self.basis is None else whitened @ self.basis

    @property
    def rank(self) -> int:
        """The rank of the reference."""
        return len(self.eigenvalues)

    @property
    def width(self) -> int:
        """The number k of coordinates."""
        return self.means.shape[-1]
