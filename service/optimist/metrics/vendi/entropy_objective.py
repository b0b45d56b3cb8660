"""log Vendi of mixtures, of every finite order but 2: the loss, the programme, influences (docs/mixtures.md)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from optimist.estimates.programme import Floats, Quadratic, minimise
from optimist.metrics.mixtures.objective import Common, MixtureAnalysis, Objective, is_in_half
from optimist.metrics.spectra.eigen import differences
from optimist.metrics.state import copied
from optimist.metrics.vendi.influence import has_collapsed
from optimist.metrics.vendi.mixture_entropy import AboveTwo, Alone, BelowTwo, MixtureEntropy, SameIndex, slopes_of
from optimist.metrics.vendi.mixture_spectrum import (
    Covariances,
    GeneratorFeatures,
    MixtureSpectrum,
    Spectral,
    spectral_model,
)
from optimist.metrics.vendi.spectrum import log_vendi, second_order, slopes

if TYPE_CHECKING:
    from optimist.metrics.vendi.score import VendiScore


CommonFeatures = tuple[Tensor, Tensor]
"""φ (m, width) of common rows, and whether each (m,) is among the samples."""


class Influences:
    """The influences of the rows of one mixture on the loss and its slopes.

    All are scaled, so that variances have κ, and the larger one of two influences' variance.

    As for one generator: the influence on the plug-in sees each row from inside, the other one from outside.
    """

    def __init__(
        self, spectrum: MixtureSpectrum, entropy: MixtureEntropy, order: float, common: Sequence[CommonFeatures | None]
    ) -> None:
        self._spectrum, self._entropy, self._order, self._common = spectrum, entropy, order, common
        self.estimate = entropy.estimate
        """H."""
        derivative = slopes(spectrum.values, order)
        outside = inside = 0.0
        for g in spectrum.support:
            size = float(spectrum.weights[g]) * spectrum.share(g)
            outside += size * float(entropy.influence(g).var())
            inside += size * float((spectrum.squares(g) @ derivative).var())
        larger = max(1.0, inside / outside) if outside > 0.0 else 1.0
        self._scale = math.sqrt(entropy.inflation * larger)

    @cached_property
    def slopes(self) -> Floats:
        """The derivatives ∂(−H)/∂α (G,) of the loss by the weights."""
        return -slopes_of(self._spectrum, self._entropy)

    @cached_property
    def beyond(self) -> Floats:
        """Errors (G² + G,): of second order by pairs of generators; systematic ones by √α, as if each had its own."""
        spectrum = self._spectrum
        derivative = slopes(spectrum.values, self._order)
        # Above, the systematic part is half of the whole correction, as for one generator.
        curvature = second_order(spectrum.values, derivative, self._order) if self._order < 2.0 else 0.0
        parts = np.array([weight * spectrum.share(g) for g, weight in enumerate(spectrum.weights.tolist())])
        crowded = spectrum.count / self._entropy.count
        pairs = crowded * math.sqrt(curvature * self._entropy.inflation) * np.sqrt(np.outer(parts, parts))
        return np.concatenate([pairs.ravel(), self._entropy.systematic * np.sqrt(spectrum.weights)])

    def of(self, g: int, common: bool) -> Tensor | None:
        """The influences on the loss (b,) of the kept, or of the common, rows of a generator."""
        weight, rows = float(self._spectrum.weights[g]), self._common[g] if self._common else None
        if common:
            return None if rows is None else -self._scale * weight * self._of_any(g, *rows)
        kept = self._spectrum.parts[g].kept
        return kept.new_zeros(len(kept)) if weight == 0.0 else -self._scale * weight * self._entropy.influence(g)

    def on_slopes(self, g: int, common: bool) -> Tensor | None:
        """The influences on the slopes (b, G) of the same rows."""
        rows = self._common[g] if self._common else None
        if not common:
            return self._on_slopes(g, self._entropy.influence(g), self._spectrum.kept(g))
        if rows is None:
            return None
        return self._on_slopes(g, self._of_any(g, *rows), self._spectrum.coordinates(rows[0]))

    def _of_any(self, g: int, features: Tensor, is_sample: Tensor) -> Tensor:
        """The influences on the score (m,) of rows φ, which are samples of the generator or not."""
        squares = self._spectrum.coordinates(features).square()
        inside, outside = (self._entropy.influence_of(squares, each) for each in (g, None))
        return torch.where(is_sample, inside, outside)

    def _on_slopes(self, g: int, influence: Tensor, coordinates: Tensor) -> Tensor:
        """The influences on the slopes (b, G) of rows of a generator: through C, and on their own slope."""
        weight, count = float(self._spectrum.weights[g]), len(self.slopes)
        changes = influence.new_zeros(len(influence), count)
        if weight > 0.0:
            seen = coordinates[:, : len(self._curvature)]
            for other, moment in enumerate(self._spectrum.leading):
                changes[:, other] = weight * ((seen @ (self._curvature * moment)) * seen).sum(-1)
            if self._order != 1.0:
                gradient = torch.from_numpy(self.slopes).to(influence.device)
                changes += weight * (self._order - 1.0) * influence[:, None] * gradient
        changes[:, g] -= influence
        return self._scale * changes

    @cached_property
    def _curvature(self) -> Tensor:
        """Second derivative (m, m) of the loss in pairs of leading eigenvectors, but for the logarithm around it."""
        values, order = self._spectrum.values + self._entropy.ridge, self._order
        leading = values[: len(self._spectrum.leading[0])]
        if order == 1.0:
            return differences(leading)
        top = float(values[0])
        trace = math.exp((1.0 - order) * self._entropy.estimate - order * math.log(top))
        return order / (order - 1.0) / (top**2 * trace) * differences(leading / top, order - 1.0)


class EntropyObjective(Objective):
    """The `Objective` of log Vendi.

    Weights are fitted by the entropy of the samples (`spectral_model`), which is too low by an amount that depends on
    the weights: uncorrected, it prefers to mix. The correction is linear in the weights: near its solution, value and
    gradient equal the leave-one-out score's.
    """

    def prepare(self) -> None:
        metric: VendiScore = self.metric
        self._order, self._width, self._loss = metric.order, metric.width, Spectral(metric.order)
        self._parts = [GeneratorFeatures.from_statistic(statistic, self.half) for statistic in self.statistics]
        self._alone: dict[int, Alone] = {}
        self.samples = tuple(part.count for part in self._parts)
        self._common = [None if rows is None else self._seen(rows) for rows in self.given]

    def model(self, weights: Floats, *, published: bool = False) -> Quadratic:
        """The plug-in's model with the correction; published: without."""
        return self.plug_in(weights, 0.0) if published else self.corrected(weights, *self._correction)

    def scaled(self, value: float) -> float:
        """Minus the log score."""
        return self._loss.in_log(value)

    def deviations(self, weights: Floats) -> Floats:
        analysis = self.analyse(weights, slopes=True)
        own = [float(rows[:, g].std()) for g, rows in enumerate(analysis.slope_rows)]
        return self._loss.rate(-analysis.loss) * np.array(own)

    def analyse(self, weights: Floats, *, slopes: bool = False) -> MixtureAnalysis:
        """The loss by leave-one-out, or for orders above 2 to second order, and the influences of the last rows.

        Slopes are NaN unless they are asked for.
        """
        needs_vectors = slopes or self._order > 2.0 or any(rows is not None for rows in self._common)
        spectrum = MixtureSpectrum(self._parts, weights, vectors=needs_vectors)
        if has_collapsed(spectrum.raw[0]):
            return self._collapsed(MixtureSpectrum(self._parts, weights))
        entropy = self._entropy(spectrum)
        influences = Influences(spectrum, entropy, self._order, self._common)
        return MixtureAnalysis.from_influences(
            loss=-influences.estimate,
            slopes=influences.slopes if slopes else np.full(len(weights), np.nan),
            extra=influences.beyond,
            of=influences.of,
            on_slopes=influences.on_slopes if slopes else None,
        )

    def _entropy(self, spectrum: MixtureSpectrum) -> MixtureEntropy:
        if self._order > 2.0:
            return AboveTwo(spectrum, self._order, self._width, self._same(spectrum))
        entropy = BelowTwo(spectrum, self._order, self._width, self._alone_of, self._same(spectrum))
        if len(spectrum.support) == 1:
            self._alone[spectrum.support[0]] = entropy.alone
        return entropy

    def _same(self, spectrum: MixtureSpectrum) -> SameIndex | None:
        """The samples among the common rows, where there are some of two generators or more."""
        samples = {g: rows[0][rows[1]] for g, rows in enumerate(self._common) if rows is not None}
        if len(samples) < 2 or min(len(rows) for rows in samples.values()) < 2 or self.share == 0.0:
            return None
        return SameIndex(spectrum, samples, self.share)

    def _alone_of(self, g: int) -> Alone:
        if g not in self._alone:
            spectrum = MixtureSpectrum(self._parts, np.eye(len(self._parts))[g], vectors=False)
            if has_collapsed(spectrum.raw[0]):
                self._alone[g] = Alone(0.0, 0.0, 0.0)
            else:
                self._entropy(spectrum)
        return self._alone[g]

    def _collapsed(self, spectrum: MixtureSpectrum) -> MixtureAnalysis:
        """A mixture of identical rows: no error is known. Any generator but these would help."""
        count, same = len(self._parts), (spectrum.raw > 0.5).to(spectrum.raw.dtype)
        others = 1.0 - np.array([float((spectrum.squares(g) @ same).mean()) for g in range(count)])

        def none(g: int, common: bool, *shape: int) -> Tensor | None:
            given = self._common[g] if self._common else None
            if common:
                return None if given is None else given[0].new_zeros(len(given[0]), *shape)
            return self._parts[g].kept.new_zeros(len(self._parts[g].kept), *shape)

        # By 30, −log of an eigenvalue that should be 0 is larger than −log of an eigenvalue that is 1.
        return MixtureAnalysis.from_influences(
            loss=-log_vendi(spectrum.raw, self._order),
            slopes=-30.0 * others,
            extra=np.zeros(count * (count + 1)),
            of=none,
            on_slopes=lambda g, common: none(g, common, count),
        )

    @cached_property
    def _covariances(self) -> Covariances:
        return Covariances.from_moments(self._even.leading, len(self._even.values))

    @cached_property
    def _ridge(self) -> float:
        return 0.0 if has_collapsed(self._even.raw[0]) else self._entropy(self._even).ridge

    @cached_property
    def _even(self) -> MixtureSpectrum:
        """The spectrum of the mixture of equal weights."""
        count = len(self._parts)
        return MixtureSpectrum(self._parts, np.full(count, 1.0 / count))

    @cached_property
    def _correction(self) -> tuple[Floats, float]:
        """The corrections of the linear part (G,) and of the constant of the model."""
        correction = np.zeros(len(self._parts)), 0.0
        # Two corrections. More would end where slopes are equal, but with 20 samples of each generator they do not
        # settle.
        for _ in range(2):
            weights = minimise(_Corrected(self, *correction))
            spectrum = MixtureSpectrum(self._parts, weights)
            if has_collapsed(spectrum.raw[0]):
                break
            entropy = self._entropy(spectrum)
            plug_in = self.plug_in(weights, self._ridge)
            linear = -self._loss.rate(entropy.estimate) * slopes_of(spectrum, entropy) - plug_in.gradient(weights)
            constant = self._loss.of_score(entropy.estimate) - plug_in.value(weights) - float(linear @ weights)
            correction = linear, constant
        return correction

    def plug_in(self, weights: Floats, ridge: float) -> Quadratic:
        """The model of the samples as they are."""
        return spectral_model(self._order, self._covariances, weights, ridge)

    def corrected(self, weights: Floats, linear: Floats, constant: float) -> Quadratic:
        """The model with these additions."""
        plug_in = self.plug_in(weights, self._ridge)
        return Quadratic(plug_in.matrix, plug_in.linear + linear, plug_in.constant + constant)

    def _seen(self, rows: Common) -> CommonFeatures:
        """φ of common rows, and True for each that is a sample: its position in the log counts as its index."""
        features = self.metric.feature_map(copied(rows["features"], self.metric.feature_map.device))
        return features, is_in_half(len(features), len(features), self.half, features.device)


@dataclass(frozen=True)
class _Corrected:
    """The programme with a correction."""

    objective: EntropyObjective
    linear: Floats
    constant: float

    @property
    def samples(self) -> tuple[int, ...]:
        return self.objective.samples

    def model(self, weights: Floats, *, published: bool = False) -> Quadratic:
        del published
        return self.objective.corrected(weights, self.linear, self.constant)
