"""The de-biased distance of one blend and its influences: decisions.md §1 for samples of weight α_i/n_i.

At a vertex the value is that of `FrechetInfluence`. The influence of a row x, from the blend's mean y = x − μ, is

    α_i (‖x − μ_r‖² − yᵀTy),   T = A (A Σ A)^{-1/2} A of the population without the row

by the same leave-one-out curve as the value. While there are few samples for the rank it is larger than the recipe's
influence, and its variance includes about what the second order and the jackknife add there (decisions.md, mixtures).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from torch import Tensor

from optimist.metrics.fid.blend_spectrum import BUFFER, BlendSpectrum
from optimist.metrics.fid.parts import Part, Space, root_of
from optimist.metrics.mixtures.objective import Blended
from optimist.numerics.mixtures.quadratic import Floats

DOUBT = 0.05
"""The systematic error over the part of the value that is extrapolated, and over what was taken off the distance of the
samples as they are: measured, it is still too low by 3 to 6 % of that."""
INFLATION = 10.0
"""Variances are those of the rows times 1 + INFLATION/n_i."""


class BlendAnalysis:
    """One blend of `parts` with weights (G,), and `common` rows (m, d) of each part, or none."""

    def __init__(
        self, parts: Sequence[Part], space: Space, weights: Floats, common: Sequence[Tensor | None], slopes: bool
    ) -> None:
        self._parts, self._weights = parts, weights
        self._reference = reference = parts[0].reference
        self._common = [None if each is None else each - part.mean for part, each in zip(parts, common, strict=False)]
        inside = [None if each is None else space.inside(each @ root_of(reference)) for each in self._common]
        self._spectrum = BlendSpectrum(space, weights, unbiased=True, common=inside, lean=not slopes)
        self._seconds = np.array([part.second for part in parts])
        self._slopes = slopes

    def blended(self) -> Blended:
        """What it finds; `slopes` are NaN unless asked for."""
        root = extrapolated = taken_off = 0.0
        if not self._spectrum.vanishes:
            curve = self._spectrum.curve
            root, extrapolated = float(curve.value), float(curve.extrapolated)
            taken_off = 2.0 * (root - self._spectrum.root_trace)
        places = range(len(self._parts))
        known = [place < len(self._common) and self._common[place] is not None for place in places]
        slopes = np.full(len(self._parts), np.nan)
        if self._slopes:
            slopes = self._seconds - 2.0 * self._spectrum.debiased_gradient()
        rows = tuple(self._influence(place) for place in places)
        beyond = [
            float(each.std()) * math.sqrt(INFLATION) / part.count for each, part in zip(rows, self._parts, strict=True)
        ]
        return Blended(
            loss=float(self._weights @ self._seconds) + self._reference.trace - 2.0 * root,
            slopes=slopes,
            rows=rows,
            extra=np.array([DOUBT * extrapolated, DOUBT * taken_off, *beyond]),
            common=tuple(self._influence(place, common=True) if known[place] else None for place in places),
            slope_rows=tuple(self._inclines(place) for place in places) if self._slopes else (),
            common_slopes=tuple(
                self._inclines(place, common=True) if self._slopes and known[place] else None for place in places
            ),
        )

    def _rows(self, place: int, common: bool) -> Tensor:
        """Rows (b, d) of a part, minus its mean."""
        rows = self._common[place] if common else self._parts[place].last
        assert rows is not None
        return rows

    def _influence(self, place: int, *, common: bool = False) -> Tensor:
        """The influence (b,) of the last, or of the common, rows of a part on the loss."""
        weight = float(self._weights[place])
        rows = self._rows(place, common)
        return weight * self._own(place, common) if weight > 0.0 else rows.new_zeros(len(rows))

    def _own(self, place: int, common: bool) -> Tensor:
        """‖x − μ_r‖² − yᵀTy (b,)."""
        part = self._parts[place]
        rows = self._rows(place, common) + (part.mean - self._reference.mean)
        return rows.square().sum(-1) - self._spectrum.scores(place, common=common)

    def _inclines(self, place: int, *, common: bool = False) -> Tensor:
        """The influence (b, G) of the same rows on the slopes.

        A row moves its own part's slope, and, as it moves the blend's covariance, those of all.
        """
        found = float(self._weights[place]) * self._spectrum.bends(place, common=common)
        found[:, place] += self._own(place, common)[-BUFFER:]
        return found
