"""The de-biased log score of one mixture and the influences of its rows, for finite orders but 2 (rules/mixtures.md).

Rows of generator i have the share ω_i = α_i/n_i of C = Σ α_i C_i, and n is the effective number 1/Σ_i α_i²/n_i. For one
generator it is the metric's own estimate. H changes along C_i by the mean of N over the rows of i:

    q = 1: ∂H/∂α_i = N_i, N = −log C          q ≠ 1: ∂H/∂α_i = q/(1 − q) N_i/tr C^q, N = C^{q−1}

φᵀNφ of each row is taken without it: `LeaveOneOut`, for q > 2 to first order in ω. N_i then has a bias only because C
comes from samples, which is nearly the same for all generators. It was tried to divide it among them, by perturbation
theory and by the change of N_i with half of the samples: weights became better in some problems and worse in others.

Generators that share seeds or prompts have rows of one index, which are alike, and leave a mixture together
(`SameIndex`; rules/mixtures.md). C₋ = Σ ω φφᵀ without all rows of an index, not one row alone, is independent of each
of them. With the Gram matrix R(w) = Φᵀ(C + w)⁻¹Φ of these rows Φ, one of each generator with a weight, Ω their shares
and L = √Ω R √Ω,

    Q_i = φ_iᵀ(C₋ + w)⁻¹φ_i = ([(1 − L)⁻¹]_ii − 1)/ω_i            generator i has a weight
    Q_i = R_ii + r_iᵀ √Ω (1 − L)⁻¹ √Ω r_i                         it has none; r_i its column of R

The difference to Q_i without the row alone is found from the common rows and holds for all rows.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import torch
from torch import Tensor

from optimist.estimates.programme import Floats
from optimist.metrics.spectra.cross_entropy import LeaveOneOut, RowShares
from optimist.metrics.spectra.eigen import differences
from optimist.metrics.vendi.influence import few_rows_inflation
from optimist.metrics.vendi.mixture_spectrum import MixtureSpectrum
from optimist.metrics.vendi.spectrum import log_vendi

SLIGHT = 1e-9
"""The least that 1 − L counts as."""


class SameIndex:
    """The common rows of one mixture.

    features: φ (m, width), of each generator that has them, by place: samples of the same indices in the same order.
    share: the part of the samples of the smaller of two generators with an index in common.
    """

    def __init__(self, spectrum: MixtureSpectrum, features: Mapping[int, Tensor], share: float) -> None:
        self._spectrum, self._features = spectrum, features
        self._support = [g for g in spectrum.support if g in features]
        self._share = share
        self._cached: dict[int, Tensor] = {}
        self._inverse: tuple[Tensor, Tensor] | None = None

    def fraction(self, g: int) -> float:
        """The share of a generator's rows whose index another generator in C has, too."""
        weights, own = self._spectrum.weights, self._spectrum.parts[g].count
        others = self._others(g)
        total = sum(float(weights[other]) for other in others)
        if g not in self._features or total == 0.0:
            return 0.0
        counts = [min(own, self._spectrum.parts[other].count) for other in others]
        paired = sum(float(weights[other]) * count for other, count in zip(others, counts, strict=True))
        return self._share * paired / (own * total)

    def left(self, g: int) -> float:
        """The part of the trace of C, on average, that leaves with a row of a generator beside the row's own share."""
        return self.sum_over(g, lambda mine, theirs: 1.0)

    def sum_over(self, g: int, of: Callable[[Tensor, Tensor], float]) -> float:
        """Σ_j ω_j of(x_i, x_j), the mean over the rows of a generator i, x (m, k) the common rows in C's eigenbasis."""
        fraction = self.fraction(g)
        if fraction == 0.0:
            return 0.0
        rows, mine = self._coordinates, self._coordinates[g]
        return fraction * sum(self._spectrum.share(other) * of(mine, rows[other]) for other in self._others(g))

    @cached_property
    def count(self) -> float:
        """The effective number of samples: rows of one index count as one as far as their φφᵀ vary together."""
        weights = self._spectrum.weights
        further = sum(float(weights[g]) * self.sum_over(g, _correlation) for g in self._support)
        return 1.0 / (1.0 / self._spectrum.count + further)

    def raised(self, g: int, ridges: Tensor) -> Tensor:
        """The average increase of Q (W,) of the rows of a generator, at ridges w (W,)."""
        fraction = self.fraction(g)
        if fraction == 0.0:
            return torch.zeros_like(ridges)
        if g not in self._cached:
            self._cached[g] = fraction * self._raised(g, ridges)
        return self._cached[g]

    def _others(self, g: int) -> list[int]:
        return [other for other in self._support if other != g]

    def _raised(self, g: int, ridges: Tensor) -> Tensor:
        inverse, leverage = self._resolved(ridges)
        if g in self._support:
            at, share = self._support.index(g), self._spectrum.share(g)
            alone = (1.0 / (1.0 - leverage[..., at, at]).clamp_min(SLIGHT) - 1.0) / share
            raised = (inverse[..., at, at] - 1.0) / share
        else:
            alone = self._product(g, g, ridges)
            column = torch.stack([self._product(g, other, ridges) for other in self._support], dim=-1)
            column = column * self._roots
            raised = alone + torch.einsum("mwi,mwij,mwj->mw", column, inverse, column)
        # Without more rows Q is larger, and never above 1/w: rounding, or rows that are not in C, could say otherwise.
        alone = torch.minimum(alone, 1.0 / ridges)
        return (torch.minimum(torch.maximum(raised, alone), 1.0 / ridges) - alone).mean(0)

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
        return {g: self._spectrum.coordinates(rows[:128]) for g, rows in self._features.items()}

    @cached_property
    def _roots(self) -> Tensor:
        shares = [self._spectrum.share(g) for g in self._support]
        return torch.tensor(shares, dtype=self._spectrum.values.dtype, device=self._spectrum.values.device).sqrt()


def _correlation(mine: Tensor, theirs: Tensor) -> float:
    """The correlation ≥ 0 of φφᵀ of rows (m, k) in the same places: by squared kernels."""
    within = [1.0 - float((rows @ rows.T).square().mean()) for rows in (mine, theirs)]
    across = (mine @ theirs.T).square()
    apart = float(across.diagonal().mean() - across.mean())
    return min(max(apart, 0.0) / math.sqrt(within[0] * within[1]), 1.0) if min(within) > 0.0 else 0.0


class MixtureEntropy(ABC):
    """The de-biased log score H of one mixture, with errors and influences."""

    estimate: float
    """De-biased."""
    systematic: float
    """Standard deviation of the error that further repeats of the samples would not show."""
    count: float
    """The effective number of samples."""
    inflation: float
    """κ, by which the variance is larger with few samples."""
    ridge: float
    """λ ≥ 0, what eigenvalues are raised by where slopes would be infinite at 0."""

    def __init__(self, spectrum: MixtureSpectrum, order: float, same: SameIndex | None) -> None:
        self._spectrum, self._order, self._same = spectrum, order, same
        self.count = spectrum.count if same is None else same.count

    def influence(self, g: int) -> Tensor:
        """∂H in the direction φφᵀ (b,) of the kept rows of a generator, from the others, up to a number all share."""
        return self.influence_of(self._spectrum.squares(g), g)

    @abstractmethod
    def influence_of(self, squares: Tensor, g: int | None) -> Tensor:
        """∂H in the direction φφᵀ (m,) of rows with these (v_kᵀφ)² (m, k), of a generator, None: of rows outside C."""


@dataclass(frozen=True)
class Alone:
    """The part of its gap K that one generator's estimate makes up for, of an order below 2."""

    gap: float
    """K, of order 1."""
    correction: float
    """The estimate less the plug-in."""
    systematic: float


class BelowTwo(MixtureEntropy):
    """Orders below 2: the plug-in, and that part of the gap K which the estimates of the generators alone make up for.

    alone: the part of each generator of the support. The estimate from the curve of the mixture's degrees of freedom
    would jump where a generator comes in with a small weight: its rows fill the spectrum as if they were whole ones.
    Below order 1 what is missing falls faster than K; its power (1 + 1/q)/2 was fitted at 0.5, on four problems.
    """

    def __init__(
        self,
        spectrum: MixtureSpectrum,
        order: float,
        width: int,
        alone: Callable[[int], Alone] | None = None,
        same: SameIndex | None = None,
    ) -> None:
        super().__init__(spectrum, order, same)
        support = spectrum.support
        leverages = [spectrum.leverages(g) for g in support]
        sizes = [len(each) for each in leverages]
        shares = [spectrum.share(g) for g in support]
        means = [float(spectrum.weights[g]) / size for g, size in zip(support, sizes, strict=True)]
        mixed = RowShares(
            shares=_repeated(shares, leverages),
            means=_repeated(means, leverages),
            keeps_all=all(spectrum.parts[g].keeps_all for g in support),
            spans=spectrum.by_rows,
            left=_repeated([self._left(g) for g in support], leverages),
            raised=None if same is None else partial(_raised, same, support, sizes),
        )
        rows = torch.cat(leverages)
        self._outside = LeaveOneOut(spectrum.values, rows, spectrum.count, width, mixed)
        plug_in, gap = log_vendi(spectrum.raw, order), self._outside.first.gap
        if len(support) == 1 or alone is None:
            entropy = self._outside.entropy(order)
            self.alone = Alone(gap, entropy.estimate - entropy.plug_in, entropy.systematic)
            part = self.alone
        else:
            each = [alone(g) for g in support]
            weights = [float(spectrum.weights[g]) for g in support]
            gaps = sum(weight * own.gap for weight, own in zip(weights, each, strict=True))
            scale = (gap / gaps) ** max(1.0, 0.5 + 0.5 / order) if gaps > 0.0 else 0.0
            correction = sum(weight * own.correction for weight, own in zip(weights, each, strict=True))
            systematic = sum(weight * own.systematic for weight, own in zip(weights, each, strict=True))
            part = Alone(gap, scale * correction, scale * systematic)
        self.estimate = min(plug_in + part.correction, math.log(width))
        self.systematic = part.systematic
        self.inflation = 1.0 + 400.0 / self.count**2
        self.ridge = self._outside.best[1] if order <= 1.0 else 0.0
        self._influences = self._outside.influence_of_kept(order, self.estimate).split(sizes)

    def influence(self, g: int) -> Tensor:
        if g in self._spectrum.support:
            return self._influences[self._spectrum.support.index(g)]
        return super().influence(g)

    def influence_of(self, squares: Tensor, g: int | None) -> Tensor:
        share = 0.0 if g is None else self._spectrum.share(g)
        left = 0.0 if g is None else self._left(g)
        raised = None if self._same is None or g is None else self._same.raised(g, self._outside.w)
        return self._outside.influence_in_mixture(self._order, self.estimate, squares, share, left, raised)

    def _left(self, g: int) -> float:
        """The part of the trace of C that leaves with a row of a generator."""
        others = 0.0 if self._same is None else self._same.left(g)
        return self._spectrum.share(g) + others


class AboveTwo(MixtureEntropy):
    """Orders above 2, by C over its largest eigenvalue, so that no power underflows.

    E tr C^q − tr (EC)^q is B = ½ Σ ω² D²F[φφᵀ, φφᵀ] over the rows, but for what the mean of each generator makes. With
    few rows log(1 + B/F) is more robust than B/F: of rows with nothing in common it is what halving the samples shows.
    """

    def __init__(self, spectrum: MixtureSpectrum, order: float, width: int, same: SameIndex | None = None) -> None:
        super().__init__(spectrum, order, same)
        self._top = float(spectrum.values[0])
        values = spectrum.values / self._top
        trace = float((values**order).sum())
        self._powers, self._curvature = values ** (order - 1.0), differences(values, order - 1.0)
        self._of_others: dict[int, float] = {}
        bias, variance = 0.0, 0.0
        for g in spectrum.support:
            weight, n = float(spectrum.weights[g]), spectrum.parts[g].count
            squares, mean = spectrum.squares(g) / self._top, spectrum.leading[g] / self._top
            leads = len(mean)
            within = float((mean.square() * self._curvature[:leads, :leads]).sum())
            bias += 0.5 * order * weight**2 / (n - 1) * max(float(self._second(squares).mean()) - within, 0.0)
            variance += (order * weight / trace) ** 2 * float((squares @ self._powers).var()) / n
            if same is not None:
                bias += 0.5 * order * weight * self._second_of_others(g)
                variance += order**2 * weight / trace**2 * same.sum_over(g, self._covariance)
        bias, variance = max(bias, 0.0), max(variance, 0.0)
        plug_in = log_vendi(spectrum.raw, order)
        correction = (0.5 * variance - math.log1p(bias / trace)) / (1.0 - order)
        self.estimate = min(max(plug_in + correction, 0.0), math.log(width))
        self.systematic = 0.5 * abs(correction)
        self.inflation, self.ridge = few_rows_inflation(self.count), 0.0
        self._rate = order / (1.0 - order) / (trace * math.exp((1.0 - order) * (self.estimate - plug_in)))

    def influence_of(self, squares: Tensor, g: int | None) -> Tensor:
        """Influences of any rows, without their own part in C and the part of their index, to first order."""
        scaled = squares / self._top
        changes = scaled @ self._powers
        if g is not None:
            changes = changes - self._spectrum.share(g) * self._second(scaled) - self._second_of_others(g)
        return self._rate * changes

    def _second(self, squares: Tensor) -> Tensor:
        """D²F[φφᵀ, φφᵀ]/q (b,) of rows by their squares (b, k)."""
        return ((squares @ self._curvature) * squares).sum(-1)

    def _second_of_others(self, g: int) -> float:
        """Σ_j ω_j D²F[φ_iφ_iᵀ, φ_jφ_jᵀ]/q of rows of one index, beyond independent rows."""
        if g not in self._of_others:
            self._of_others[g] = 0.0 if self._same is None else self._same.sum_over(g, self._apart)
        return self._of_others[g]

    def _apart(self, mine: Tensor, theirs: Tensor) -> float:
        count, size = len(mine), len(self._curvature)
        mine, theirs = mine[:, :size], theirs[:, :size]
        same = float(self._second(mine * theirs).mean())
        among = float(((mine.T @ mine) * (theirs.T @ theirs) * self._curvature).sum()) / count**2
        return (same - among) * count / (count - 1) / self._top**2

    def _covariance(self, mine: Tensor, theirs: Tensor) -> float:
        own, other = mine.square() @ self._powers, theirs.square() @ self._powers
        return float((own - own.mean()) @ (other - other.mean())) / (len(own) - 1) / self._top**2


def slopes_of(spectrum: MixtureSpectrum, entropy: MixtureEntropy) -> Floats:
    """∂H/∂α (G,) from rows that C is not of, at order 1 up to a number that all share.

    Of a generator with more rows than are kept it is the derivative by C_i, corrected by the difference that leaving
    out a kept row makes.
    """
    kept = [entropy.influence(g) for g in range(len(spectrum.parts))]
    slopes = np.array([float(each.mean()) for each in kept])
    more = [g for g, part in enumerate(spectrum.parts) if not part.keeps_all]
    if not more:
        return slopes
    size = len(spectrum.values)
    each = entropy.influence_of(torch.eye(size, dtype=kept[0].dtype, device=kept[0].device), None)
    beyond = float(entropy.influence_of(kept[0].new_zeros(1, size), None))
    for g, mean in zip(more, spectrum.means(more, each, beyond), strict=True):
        squares = spectrum.squares(g)
        inside = squares @ each + beyond * (1.0 - squares.sum(-1)).clamp_min(0.0)
        slopes[g] += mean - float(inside.mean())
    return slopes


def _repeated(values: list[float], rows: list[Tensor]) -> Tensor:
    """Each value once for each row of its block."""
    return torch.cat([each.new_full((len(each),), value) for value, each in zip(values, rows, strict=True)])


def _raised(same: SameIndex, places: Sequence[int], sizes: Sequence[int], ridges: Tensor) -> Tensor:
    """`SameIndex.raised` (b, W) of the kept rows of these generators."""
    each = [same.raised(g, ridges).expand(size, -1) for g, size in zip(places, sizes, strict=True)]
    return torch.cat(each)
