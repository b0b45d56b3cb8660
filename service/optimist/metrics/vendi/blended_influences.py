"""Influences of the rows of a blend on minus its log score and on the slopes of that (docs/mixtures.md)."""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from optimist.metrics.spectra.differences import differences
from optimist.metrics.vendi.blended_entropy import BlendedEntropy, slopes_of
from optimist.metrics.vendi.blended_spectrum import BlendedSpectrum
from optimist.metrics.vendi.spectrum import second_order, slopes
from optimist.numerics.mixtures.quadratic import Floats


class Influences:
    """Of one blend. All are scaled, so that variances have κ, and the larger one of two influences' variance.

    As for one generator: that of the plug-in sees each row from inside, the other one from outside.
    """

    def __init__(self, spectrum: BlendedSpectrum, entropy: BlendedEntropy, order: float) -> None:
        self._spectrum, self._entropy, self._order = spectrum, entropy, order
        self.estimate = entropy.estimate
        """H."""
        derivative = slopes(spectrum.values, order)
        outside = inside = 0.0
        for place in spectrum.support:
            size = float(spectrum.weights[place]) * spectrum.share(place)
            outside += size * float(entropy.influence(place).var())
            inside += size * float((spectrum.squares(place) @ derivative).var())
        larger = max(1.0, inside / outside) if outside > 0.0 else 1.0
        self._scale = math.sqrt(entropy.inflation * larger)

    @cached_property
    def slopes(self) -> Floats:
        """∂(−H)/∂α (G,)."""
        return -slopes_of(self._spectrum, self._entropy)

    @cached_property
    def beyond(self) -> Floats:
        """Errors (G² + G,): of second order by pairs of generators; systematic ones by √α, as if each had its own."""
        spectrum = self._spectrum
        derivative = slopes(spectrum.values, self._order)
        # Above, the systematic part is half of the whole correction, as for one generator.
        curvature = second_order(spectrum.values, derivative, self._order) if self._order < 2.0 else 0.0
        parts = np.array([weight * spectrum.share(place) for place, weight in enumerate(spectrum.weights.tolist())])
        crowded = spectrum.count / self._entropy.count
        pairs = crowded * math.sqrt(curvature * self._entropy.inflation) * np.sqrt(np.outer(parts, parts))
        return np.concatenate([pairs.ravel(), self._entropy.systematic * np.sqrt(spectrum.weights)])

    def of_rows(self, place: int) -> Tensor:
        """On the loss (b,), of the kept rows of a generator."""
        weight, kept = float(self._spectrum.weights[place]), self._spectrum.parts[place].kept
        return kept.new_zeros(len(kept)) if weight == 0.0 else -self._scale * weight * self._entropy.influence(place)

    def of_rows_on_slopes(self, place: int) -> Tensor:
        """On the slopes (b, G)."""
        return self._on_slopes(place, self._entropy.influence(place), self._spectrum.kept(place))

    def of_common(self, place: int, features: Tensor, is_sample: Tensor) -> Tensor:
        """On the loss (m,), of rows φ (m, width) of a generator, of which some are samples."""
        return -self._scale * float(self._spectrum.weights[place]) * self._of_any(place, features, is_sample)

    def of_common_on_slopes(self, place: int, features: Tensor, is_sample: Tensor) -> Tensor:
        """On the slopes (m, G)."""
        influence = self._of_any(place, features, is_sample)
        return self._on_slopes(place, influence, self._spectrum.coordinates(features))

    def _of_any(self, place: int, features: Tensor, is_sample: Tensor) -> Tensor:
        """On the score (m,)."""
        squares = self._spectrum.coordinates(features).square()
        inside, outside = (self._entropy.influence_of(squares, each) for each in (place, None))
        return torch.where(is_sample, inside, outside)

    def _on_slopes(self, place: int, influence: Tensor, coordinates: Tensor) -> Tensor:
        """Of rows of a generator with these influences (b,) on the score: through C, and on their own slope."""
        weight, count = float(self._spectrum.weights[place]), len(self.slopes)
        found = influence.new_zeros(len(influence), count)
        if weight > 0.0:
            seen = coordinates[:, : len(self._curvature)]
            for other, moment in enumerate(self._spectrum.leading):
                found[:, other] = weight * ((seen @ (self._curvature * moment)) * seen).sum(-1)
            if self._order != 1.0:
                gradient = torch.from_numpy(self.slopes).to(influence.device)
                found += weight * (self._order - 1.0) * influence[:, None] * gradient
        found[:, place] -= influence
        return self._scale * found

    @cached_property
    def _curvature(self) -> Tensor:
        """Second derivative (m, m) of the loss in pairs of leading eigenvectors, for q ≠ 1 without that of log."""
        values, order = self._spectrum.values + self._entropy.ridge, self._order
        leading = values[: len(self._spectrum.leading[0])]
        if order == 1.0:
            return differences(leading)
        top = float(values[0])
        trace = math.exp((1.0 - order) * self._entropy.estimate - order * math.log(top))
        return order / (order - 1.0) / (top**2 * trace) * differences(leading / top, order - 1.0)
