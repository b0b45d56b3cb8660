"""The de-biased distance of one blend and its influences: the recipe of decisions.md §2 for samples of weight α_i/n_i.

Where n enters, it is the effective number 1/Σ α_i²/n_i. At a vertex it is the analysis of that generator alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from optimist.numerics.fid.blend_spectrum import BlendSpectrum
from optimist.numerics.fid.parts import Part, Space, root_of
from optimist.numerics.mixtures.objective import Blended
from optimist.numerics.mixtures.quadratic import Floats
from optimist.numerics.spectra import eigen_coordinates, gram_square_sum, pair_sum

BUFFER = 256
"""Number of last rows of each generator from which variances are computed."""


def analyse(
    parts: Sequence[Part], space: Space, weights: Floats, common: Sequence[Tensor | None], slopes: bool
) -> Blended:
    """The analysis of the blend of `parts` with these weights (G,); `common`: rows (m, d) of each. Slopes: or NaN."""
    blend = _Blend(parts, space, weights)
    spectrum, reference = blend.spectrum, parts[0].reference
    root, extrapolated = 0.0, 0.0
    if not spectrum.vanishes:
        curve = spectrum.curve if slopes else spectrum.lone_curve()
        root, extrapolated = float(curve.value), float(curve.extrapolated)
    rows: list[Tensor | None] = [part.last[-BUFFER:] for part in parts]
    others = [None if each is None else each - part.mean for each, part in zip(common, parts, strict=False)]
    places = [*range(len(parts)), *range(len(others))]
    influences, second_order = blend.influences([*rows, *others], places)
    own = tuple(each for each in influences[: len(parts)] if each is not None)
    found = Blended(
        loss=float(weights @ blend.seconds) + reference.trace - 2.0 * root,
        slopes=np.full(len(parts), np.nan),
        rows=own,
        extra=np.append(blend.further_errors(own, second_order), 0.05 * extrapolated),
        common=tuple(influences[len(parts) :]),
    )
    if not slopes:
        return found
    inclines = blend.inclines([*rows, *others], places)
    return Blended(
        loss=found.loss,
        slopes=blend.seconds - 2.0 * spectrum.debiased_gradient(),
        rows=found.rows,
        extra=found.extra,
        common=found.common,
        slope_rows=tuple(each for each in inclines[: len(parts)] if each is not None),
        common_slopes=tuple(inclines[len(parts) :]),
    )


class _Blend:
    """One blend with what the parts of its analysis share."""

    def __init__(self, parts: Sequence[Part], space: Space, weights: Floats) -> None:
        self.parts, self.space, self.weights = parts, space, weights
        self.spectrum = BlendSpectrum(space, weights, unbiased=True)
        self.seconds = np.array([part.second for part in parts])
        self.counts = np.array([part.count for part in parts], dtype=np.float64)
        self.size = 1.0 / float(np.square(weights) @ (1.0 / self.counts))
        """The effective number of samples."""
        # Without multiplying by zero: at a vertex the mean is that of the generator, to the last bit.
        means = [float(weight) * part.mean for weight, part in zip(weights, parts, strict=True) if weight > 0.0]
        self.mean = torch.stack(means).sum(0) if len(means) > 1 else means[0]

    def influences(self, blocks: Sequence[Tensor | None], places: Sequence[int]) -> tuple[list[Tensor | None], float]:
        """Influence (b,) of rows (b, d), minus the mean of their parts (`places`), and the second-order variance."""
        shift = self.mean - self.parts[0].reference.mean
        used = [
            (index, block + (self.parts[place].mean - self.mean), float(self.weights[place]))
            for index, (block, place) in enumerate(zip(blocks, places, strict=True))
            if block is not None and self.weights[place] > 0.0
        ]
        found = [None if block is None else block.new_zeros(len(block)) for block in blocks]
        forms, pairs = self._forms([rows for _, rows, _ in used])
        for (index, rows, weight), form in zip(used, forms, strict=True):
            found[index] = weight * (2.0 * (rows @ shift) + rows.square().sum(-1) - form)
        square, trace = self._square_trace(), self._trace()
        return found, 2.0 * max(square - trace**2 / self.size, 0.05 * square) + pairs

    def _forms(self, blocks: Sequence[Tensor]) -> tuple[list[Tensor], float]:
        """yᵀTy (b,) of rows y (b, d) from the blend's mean, and Σ_ij (s_i s_j/(s_i + s_j))², as in the recipe."""
        reference, spectrum = self.parts[0].reference, self.spectrum
        none = [block.new_zeros(len(block)) for block in blocks], 0.0
        if spectrum.vanishes:
            return none
        scale = float(spectrum.moment.trace()) / reference.square_trace
        share = min(1.0, reference.rank / self.size)
        if share == 1.0:
            forms = [(block @ reference.basis).square().sum(-1) / math.sqrt(scale) for block in blocks]
            return forms, scale * reference.pair_sum
        mixed = (1.0 - share) * spectrum.moment + share * scale * reference.eigenvalues.square().diag()
        root = root_of(reference)
        squares, *coordinates = eigen_coordinates(mixed, *(block @ root for block in blocks))
        kept = squares > 1e-9 * squares[-1]
        roots = squares[kept].sqrt()
        return [(each[:, kept].square() / roots).sum(-1) for each in coordinates], pair_sum(roots)

    def _trace(self) -> float:
        """Tr Σ(α), without bias."""
        total = 0.0
        for place in self.spectrum.support:
            part = self.parts[place]
            apart = float((part.mean - self.mean).square().sum())
            total += float(self.weights[place]) * (float(self.spectrum.scales[place]) * part.spread + apart)
        return total

    def _square_trace(self) -> float:
        """Tr Σ(α)²."""
        support = self.spectrum.support
        within = [
            float(self.weights[place] * self.spectrum.scales[place]) / self.parts[place].count for place in support
        ]
        shifts = [self.parts[place].mean - self.mean for place in support]
        if all(self.parts[place].scatter is None for place in support):
            rows = [
                math.sqrt(scale) * self.parts[place].last + math.sqrt(self.spectrum.weight(place)) * shift
                for place, scale, shift in zip(support, within, shifts, strict=True)
            ]
            return gram_square_sum(torch.cat(rows))
        covariance = torch.zeros_like(self.parts[0].reference.covariance)
        for place, scale, shift in zip(support, within, shifts, strict=True):
            part = self.parts[place]
            scatter = part.last.T @ part.last if part.scatter is None else part.scatter
            covariance.add_(scatter, alpha=scale).addr_(shift, shift, alpha=float(self.weights[place]))
        return float(covariance.square().sum())

    def further_errors(self, rows: Sequence[Tensor], second_order: float) -> Floats:
        """Errors beyond the first order: the inflation 1 + 20/n by part (G), and the second order by pair (G²)."""
        deviations = np.array([float(each.std()) for each in rows])
        inflation = deviations / self.counts * math.sqrt(20.0)
        sizes = self.weights / np.sqrt(self.counts)
        pairs = np.outer(sizes, sizes).flatten() * math.sqrt(second_order * (1.0 + 20.0 / self.size))
        return np.concatenate([inflation, pairs])

    def inclines(self, blocks: Sequence[Tensor | None], places: Sequence[int]) -> list[Tensor | None]:
        """Influence (b, G) on the slopes of rows (b, d), minus the mean of their parts (`places`)."""
        reference = self.parts[0].reference
        found: list[Tensor | None] = []
        for block, place in zip(blocks, places, strict=True):
            if block is None:
                found.append(None)
                continue
            part = self.parts[place]
            rows = self.spectrum.rows(place, self.space.inside(block @ root_of(reference)))
            # A row moves its own generator's slope, and by the blend's covariance those of all.
            slopes = float(self.weights[place]) * self.spectrum.bends(rows)
            distances = (block + (part.mean - reference.mean)).square().sum(-1)
            slopes[:, place] += distances - self.spectrum.scores(place, rows)
            found.append(slopes)
        return found
