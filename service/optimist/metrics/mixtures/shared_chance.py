"""How much the chance in the samples of several generators is the same, for errors of what depends on all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from optimist.metrics.mixtures.objective import Common
from optimist.numerics.mixtures.quadratic import Floats
from optimist.numerics.pairing import COMMON

FEWEST_COMMON = 10
"""Common indices below which nothing is known of a correlation."""


@dataclass(frozen=True)
class SharedChance:
    """Samples of each generator, and which part of the smaller number of two has an index in common."""

    samples: tuple[int, ...]
    share: float
    """0 where generators are independent, or nothing is known of it."""

    @classmethod
    def of(cls, samples: Sequence[int], common: Sequence[Common | None]) -> SharedChance:
        """Of generators with these samples, and the rows of the indices below `COMMON` that all have."""
        known = [len(next(iter(rows.values()))) for rows in common if rows is not None]
        share = min(min(known) / min(COMMON, *samples), 1.0) if known else 0.0
        return cls(tuple(samples), share)

    def of_half(self, samples: Sequence[int]) -> SharedChance:
        """The same of one half. A log in the order of the indices has the same indices there for all generators."""
        return SharedChance(tuple(samples), self.share)

    def variances(self, rows: Sequence[Tensor], common: Sequence[Tensor | None] = ()) -> Floats:
        """Variances (k,) of k numbers whose influences are `rows` (b_i, k) and, of the common rows, `common` (m, k).

        Σ_i V_i/n_i, and for two generators with common indices their covariance times the number of these over n_i n_j,
        by the correlation of the common rows.
        """
        spread = np.stack([each.var(0).cpu().numpy() for each in rows])
        found = (spread / np.array(self.samples, dtype=np.float64)[:, None]).sum(0)
        paired = self._paired(spread, common)
        if paired is None:
            return found
        scaled, overlap = paired
        products = np.einsum("imk,jmk->ijk", scaled, scaled)
        return np.maximum(found + np.einsum("ij,ijk->k", overlap, products), 0.05 * found)

    def covariance(self, rows: Sequence[Tensor], common: Sequence[Tensor | None] = ()) -> Floats:
        """Covariance (k, k) of the same k numbers, positive semidefinite."""
        centred = [each - each.mean(0) for each in rows]
        parts = [(each.T @ each / max(len(each) - 1, 1)).cpu().numpy() for each in centred]
        found = sum((part / n for part, n in zip(parts, self.samples, strict=True)), np.zeros_like(parts[0]))
        paired = self._paired(np.stack([np.diag(part) for part in parts]), common)
        if paired is not None:
            scaled, overlap = paired
            others = np.einsum("ij,jmk->imk", overlap, scaled)
            found = found + np.einsum("imk,iml->kl", scaled, others)
        values, vectors = np.linalg.eigh(0.5 * (found + found.T))
        return (vectors * np.maximum(values, 0.0)) @ vectors.T

    def _paired(self, spread: Floats, common: Sequence[Tensor | None]) -> tuple[Floats, Floats] | None:
        """Influences (g, m, k) of common rows whose products over m are covariances, from the variances (G, k), and how
        much of them counts for two generators (g, g); None where nothing is known."""
        counts = np.array(self.samples, dtype=np.float64)
        known = [place for place, each in enumerate(common) if each is not None and len(each) >= FEWEST_COMMON]
        if self.share == 0.0 or len(known) < 2:
            return None
        centred = np.stack([_centred(each) for each in common if each is not None])
        lengths = np.sqrt(np.square(centred).sum(1))
        scaled = centred / np.where(lengths > 0.0, lengths, np.inf)[:, None]
        scaled *= np.sqrt(spread[known])[:, None]
        overlap = self.share / np.maximum(counts[known][:, None], counts[known][None, :])
        np.fill_diagonal(overlap, 0.0)
        return scaled, overlap


def _centred(influence: Tensor) -> Floats:
    values = influence.cpu().numpy()
    return values - values.mean(0)
