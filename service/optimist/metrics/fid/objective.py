"""FID of mixtures of generators (equations.md, mixtures): the loss that weights are chosen by, and its analysis.

At a vertex the value equals `FrechetInfluence`'s. The influence of a row x, from the mixture's mean y = x − μ, is

    α_i (‖x − μ_r‖² − yᵀTy),   T = A (A Σ A)^{-1/2} A of the population without the row

by the same leave-one-out curve as the value. While there are few samples for the rank it is larger than the recipe's
influence, and its variance includes about what the second order and the jackknife add there (rules/mixtures.md).

With E‖x − μ_r‖² of each generator, which is linear in the weights and in the samples,

    FID(α) = Σ α_i E_i‖x − μ_r‖² + Tr Σ_r − 2 Tr (A Σ(α) A)^{1/2},   A = Σ_r^{1/2}

is convex. Only the root is biased by few samples: by the more, the fewer, and the less, the more generators are mixed.
The published estimate, which takes it as it is, therefore mixes too much; see `FrechetObjective.model`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from torch import Tensor

from optimist.estimates.programme import Floats, Quadratic, best_weights
from optimist.metrics.fid.influence import BUFFER
from optimist.metrics.fid.mixture_spectrum import FrechetSpectrum
from optimist.metrics.fid.parts import GeneratorMoments, Space, root_of
from optimist.metrics.fid.reference import FrechetReference
from optimist.metrics.mixtures.objective import MixtureAnalysis, Objective
from optimist.metrics.state import copied


class FrechetMixture:
    """One mixture of `parts` with weights (G,), and `common` rows (m, d) of each part, or none."""

    def __init__(
        self,
        parts: Sequence[GeneratorMoments],
        space: Space,
        weights: Floats,
        common: Sequence[Tensor | None],
        slopes: bool,
    ) -> None:
        self._parts, self._weights = parts, weights
        self._reference = reference = parts[0].reference
        self._common = [None if each is None else each - part.mean for part, each in zip(parts, common, strict=False)]
        inside = [None if each is None else space.inside(each @ root_of(reference)) for each in self._common]
        self._spectrum = FrechetSpectrum(space, weights, unbiased=True, common=inside, lean=not slopes)
        self._seconds = np.array([part.second for part in parts])
        self._slopes = slopes

    def analysis(self) -> MixtureAnalysis:
        """The loss, its errors and influences; `slopes` are NaN unless asked for."""
        root = extrapolated = taken_off = 0.0
        if not self._spectrum.vanishes:
            curve = self._spectrum.curve
            root, extrapolated = float(curve.value), float(curve.extrapolated)
            taken_off = 2.0 * (root - self._spectrum.root_trace)
        slopes = np.full(len(self._parts), np.nan)
        if self._slopes:
            slopes = self._seconds - 2.0 * self._spectrum.debiased_gradient()
        analysis = MixtureAnalysis.from_influences(
            loss=float(self._weights @ self._seconds) + self._reference.trace - 2.0 * root,
            slopes=slopes,
            extra=np.zeros(0),
            of=self._influence,
            on_slopes=self._inclines if self._slopes else None,
        )
        # A variance is the rows' times 1 + 10/n_i.
        beyond = [
            float(each.std()) * math.sqrt(10.0) / part.count
            for each, part in zip(analysis.rows, self._parts, strict=True)
        ]
        # The systematic error, of what is extrapolated, and of what was taken off the distance of the samples as they
        # are: measured, that is still too low by 3 to 6 %.
        doubts = (0.05 * part for part in (extrapolated, taken_off))
        return replace(analysis, extra=np.array([*doubts, *beyond]))

    def _rows(self, g: int, common: bool) -> Tensor | None:
        """Rows (b, d) of a part, minus its mean; None where it has no common ones."""
        if not common:
            return self._parts[g].last
        return self._common[g] if g < len(self._common) else None

    def _influence(self, g: int, common: bool) -> Tensor | None:
        """The influence (b,) of the last, or of the common, rows of a part on the loss."""
        weight, rows = float(self._weights[g]), self._rows(g, common)
        if rows is None:
            return None
        return weight * self._own(g, rows, common) if weight > 0.0 else rows.new_zeros(len(rows))

    def _own(self, g: int, rows: Tensor, common: bool) -> Tensor:
        """‖x − μ_r‖² − yᵀTy (b,)."""
        shift = self._parts[g].mean - self._reference.mean
        return (rows + shift).square().sum(-1) - self._spectrum.scores(g, common=common)

    def _inclines(self, g: int, common: bool) -> Tensor | None:
        """The influence (b, G) of the same rows on the slopes.

        A row moves its own part's slope, and, as it moves the mixture's covariance, the slopes of all.
        """
        rows = self._rows(g, common)
        if rows is None:
            return None
        influence = float(self._weights[g]) * self._spectrum.bends(g, common=common)
        influence[:, g] += self._own(g, rows, common)[-BUFFER:]
        return influence


class _Step(NamedTuple):
    """One mixture on the way to the best one."""

    way: Floats
    """Newton's step (G,)."""
    is_best: bool
    model: Quadratic
    deviations: Floats


class FrechetObjective(Objective):
    """The objective of FID for generators with these statistics, by one half of their samples or by all.

    Each mixture costs an eigenproblem of width min(samples of all generators, rank), and two products of that width for
    each generator where derivatives are asked for. What does not depend on the weights is computed once. Five
    generators at d = 2048, 500 samples of each, seconds of one core: one step of the search 8, a mixture with slopes
    10, one without 1; for a half, 1250 samples in all, the whole search 14, and 2.5 and 0.2. Memory past the rank: one
    matrix of that width for each generator, and another one during a step.
    """

    def prepare(self) -> None:
        self._reference: FrechetReference = self.metric.reference
        self._parts = [GeneratorMoments.from_statistic(self._reference, each, self.half) for each in self.statistics]
        self.samples = tuple(part.count for part in self._parts)
        device = self._reference.device
        self._common = [None if rows is None else copied(rows["features"], device) for rows in self.given]

    @cached_property
    def _space(self) -> Space:
        # A log in the order of the indices has the same indices in its half for all generators.
        step = 1 if self.half is None else 2
        # The first 128 common indices show how alike generators answer.
        same = [None if each is None else each[self.half or 0 :: step][:128] for each in self._common]
        count = min((len(each) for each in same if each is not None), default=0)
        return Space.from_parts(self._parts, same, self.share) if count > len(same) else Space.from_parts(self._parts)

    def model(self, weights: Floats, *, published: bool = False) -> Quadratic:
        """The loss that weights are chosen by.

        published: the exact second-order model at these weights of the plug-in distance, with 1/n covariances. Else the
        de-biased model at the best mixture, which is the same for all `weights`: of the two halves of a log each model
        has its own. It is found from uniform weights by Newton's steps on the de-biased gradient, until no slack is
        known to be above 0; directions that are not known to be better are left flat (rules/mixtures.md).
        """
        if not published:
            return self._fit.model
        spectrum = FrechetSpectrum(self._space, weights, unbiased=False)
        gradient, hessian = spectrum.derivatives()
        value = float(weights @ self._seconds) + self._reference.trace - 2.0 * spectrum.root_trace
        return _expansion(weights, value, self._seconds - 2.0 * gradient, -2.0 * hessian)

    def deviations(self, weights: Floats) -> Floats:
        """Standard deviation (G,) of what one sample adds to its generator's entry of the gradient of `model`.

        Its own weight is held fixed. At the best mixture, by the last rows, for all `weights`.
        """
        return self._fit.deviations

    def analyse(self, weights: Floats, *, slopes: bool = False) -> MixtureAnalysis:
        """The de-biased distance of a mixture and its influences; the gradient, NaN otherwise, only with `slopes`.

        At a vertex the distance equals `FrechetInfluence.analyse`'s.
        """
        return FrechetMixture(self._parts, self._space, weights, self._common, slopes).analysis()

    @cached_property
    def _seconds(self) -> Floats:
        return np.array([part.second for part in self._parts])

    @cached_property
    def _fit(self) -> _Step:
        count = len(self._parts)
        weights, last, length = np.full(count, 1.0 / count), np.zeros(count), 1.0
        for _ in range(7):
            step = self._step(weights)
            if step.is_best:
                return step
            # The Hessian is of an unchanged curve. Where a step turns back, the last one was too long.
            length = max(0.5 * length, 0.125) if float(last @ step.way) < 0.0 else length
            weights, last = weights + length * step.way, step.way
            weights = np.where(weights > 1e-9, weights, 0.0)
            weights = weights / weights.sum()
        return self._step(weights)

    def _step(self, weights: Floats) -> _Step:
        spectrum = FrechetSpectrum(self._space, weights, unbiased=True)
        gradient = self._seconds - 2.0 * spectrum.debiased_gradient()
        hessian = -2.0 * spectrum.debiased_hessian()
        deviations = self._deviations(spectrum)
        level = float(weights @ gradient)
        errors = np.sqrt(np.square(weights - np.eye(len(weights))) @ (deviations**2 / self.samples))
        way = best_weights(_expansion(weights, 0.0, gradient, hessian)) - weights
        # The search ends where no weight's slack exceeds half a standard error, or where a step would change no weight
        # by more than 1e-3.
        is_best = bool((level - gradient <= 0.5 * errors).all() or np.abs(way).max() < 1e-3)
        root = 0.0 if spectrum.vanishes else float(spectrum.curve.value)
        value = float(weights @ self._seconds) + self._reference.trace - 2.0 * root
        # What is not known to be a slope counts as none, so that these weights are the best ones of the model.
        settled = np.where(weights > 0.0, level, np.maximum(gradient, level))
        return _Step(way, is_best, _expansion(weights, value, settled, hessian), deviations)

    def _deviations(self, spectrum: FrechetSpectrum) -> Floats:
        """The numbers of `deviations` (G,) at the weights of the spectrum."""
        deviations = []
        for g, part in enumerate(self._parts):
            distances = (part.last + (part.mean - self._reference.mean)).square().sum(-1)
            deviations.append(float((distances - spectrum.scores(g)).std()))
        return np.array(deviations)


def _expansion(weights: Floats, value: float, gradient: Floats, hessian: Floats) -> Quadratic:
    """The second-order model with these derivatives at these weights."""
    curved = hessian @ weights
    constant = value - float(gradient @ weights) + 0.5 * float(weights @ curved)
    return Quadratic(0.5 * hessian, gradient - curved, constant)
