"""The de-biased log score of one blend and the influences of its rows, for every finite order but 2 (decisions.md §1).

Rows of generator i have the share ω_i = α_i/n_i of C = Σ α_i C_i, and n is the effective number 1/Σ_i α_i²/n_i. For one
generator it is the metric's own estimate. H changes along C_i by the mean of N over the rows of i:

    q = 1: ∂H/∂α_i = N_i, N = −log C          q ≠ 1: ∂H/∂α_i = q/(1 − q) N_i/tr C^q, N = C^{q−1}

With φᵀNφ of each row from the others (`LeaveOneOut`; for q > 2 to first order in ω) N_i has a bias only because C is
that of samples, −½ tr C_i d²N[C − EC, C − EC] on average. To second order it is in proportion to

    b_i = Σ_j α_j ω_j Σ_kl W^j_kl (C_i)_kl (C_j)_kl,      W^j_kl = ∫_λ^∞ s^{q−1} tr C_j(C + s)⁻¹/((g_k + s)(g_l + s)) ds

(N as an integral of resolvents; for q > 2 W = √(g_k g_l)^{q−3}, exact at 3). Its size is known from the sum: the mean of
N by α is H, or tr C^q, itself, which is de-biased.
"""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from optimist.numerics.kernel.blended_spectrum import BlendedSpectrum
from optimist.numerics.kernel.entropy import log_vendi
from optimist.numerics.kernel.influence import few_rows_inflation
from optimist.numerics.mixtures.quadratic import Floats
from optimist.numerics.spectra.cross_entropy import LeaveOneOut, Shares
from optimist.numerics.spectra.differences import differences


class BlendedEntropy(Protocol):
    """What is known of the log score H of one blend."""

    estimate: float
    """De-biased."""
    systematic: float
    """Standard deviation of the error that further repeats of the samples would not show."""
    inflation: float
    """κ, by which the variance is larger with few samples."""
    ridge: float
    """λ ≥ 0, what eigenvalues are raised by where slopes would be infinite at 0."""

    @property
    def excess(self) -> float:
        """The bias of the mean of all rows' `influence` by their weights, as far as it is known."""
        ...

    def influence(self, place: int) -> Tensor:
        """∂H in the direction φφᵀ (b,) of the kept rows of a generator, from the others, up to a number all share."""
        ...

    def influence_of(self, squares: Tensor, share: float) -> Tensor:
        """The same of any rows by their (v_kᵀφ)² (m, k) and their share ω of C, 0 of rows that are not in it."""
        ...

    def shape(self) -> Tensor:
        """W (s, m, m) of each generator of the support in the leading eigenvectors, or one for all (1, m, m)."""
        ...


class BelowTwo:
    """Orders below 2."""

    def __init__(self, spectrum: BlendedSpectrum, order: float, width: int) -> None:
        self._spectrum, self._order = spectrum, order
        support = spectrum.support
        leverages = [spectrum.leverages(place) for place in support]
        self._sizes = [len(each) for each in leverages]
        shares = [spectrum.share(place) for place in support]
        means = [float(spectrum.weights[place]) / size for place, size in zip(support, self._sizes, strict=True)]
        blended = Shares(
            shares=_repeated(shares, leverages),
            means=_repeated(means, leverages),
            keeps_all=all(spectrum.parts[place].keeps_all for place in support),
        )
        self._outside = LeaveOneOut(spectrum.values, torch.cat(leverages), spectrum.count, width, blended)
        self._found = self._outside.entropy(order)
        self.estimate = self._found.estimate
        self.systematic = self._found.systematic
        self.inflation = 1.0 + 400.0 / spectrum.count**2
        self.ridge = self._outside.best[1] if order <= 1.0 else 0.0

    @property
    def excess(self) -> float:
        """The cross entropy less the estimate; of another order the mean less that of the derivative of a power."""
        if self._order == 1.0:
            return max(self._found.plug_in + self._found.gap - self.estimate, 0.0)
        weights = self._spectrum.weights
        mean = sum(float(weights[place]) * float(self.influence(place).mean()) for place in self._spectrum.support)
        return mean - self._order / (1.0 - self._order)

    def influence(self, place: int) -> Tensor:
        """Of the kept rows."""
        if place in self._spectrum.support:
            return self._found.influence.split(self._sizes)[self._spectrum.support.index(place)]
        return self.influence_of(self._spectrum.squares(place), 0.0)

    def influence_of(self, squares: Tensor, share: float) -> Tensor:
        """Of any rows."""
        return self._outside.influence_in_blend(self._order, self.estimate, squares, share)

    def shape(self) -> Tensor:
        """By the grid of the resolvents, from λ on at orders up to 1."""
        spectrum = self._spectrum
        start = self._outside.best[0] if self._order <= 1.0 else 0
        grid = self._outside.w[start:]
        leading = 1.0 / (spectrum.values[: len(spectrum.leading[0]), None] + grid)
        step = grid**self._order
        seen = [spectrum.leading[place].diagonal() @ leading for place in spectrum.support]
        return torch.stack([(leading * (step * each)) @ leading.T for each in seen])


class AboveTwo:
    """Orders above 2, by C over its largest eigenvalue, so that no power underflows.

    E tr C^q − tr (EC)^q is B = ½ Σ ω² D²F[φφᵀ, φφᵀ] over the rows, but for what the mean of each generator makes. With
    few rows log(1 + B/F) is more robust than B/F: of rows with nothing in common it is what halving the samples shows.
    """

    def __init__(self, spectrum: BlendedSpectrum, order: float, width: int) -> None:
        self._spectrum, self._order = spectrum, order
        self._top = float(spectrum.values[0])
        values = spectrum.values / self._top
        trace = float((values**order).sum())
        self._powers, self._curvature = values ** (order - 1.0), differences(values, order - 1.0)
        bias, variance = 0.0, 0.0
        for place in spectrum.support:
            weight, n = float(spectrum.weights[place]), spectrum.parts[place].count
            squares, mean = spectrum.squares(place) / self._top, spectrum.leading[place] / self._top
            leads = len(mean)
            within = float((mean.square() * self._curvature[:leads, :leads]).sum())
            bias += 0.5 * order * weight**2 / (n - 1) * max(float(self._second(squares).mean()) - within, 0.0)
            variance += (order * weight / trace) ** 2 * float((squares @ self._powers).var()) / n
        plug_in = log_vendi(spectrum.raw, order)
        correction = (0.5 * variance - math.log1p(bias / trace)) / (1.0 - order)
        self.estimate = min(max(plug_in + correction, 0.0), math.log(width))
        self.systematic = 0.5 * abs(correction)
        self.inflation, self.ridge = few_rows_inflation(spectrum.count), 0.0
        self._rate = order / (1.0 - order) / (trace * math.exp((1.0 - order) * (self.estimate - plug_in)))

    @property
    def excess(self) -> float:
        """The mean less that of the derivative of a power."""
        weights = self._spectrum.weights
        mean = sum(float(weights[place]) * float(self.influence(place).mean()) for place in self._spectrum.support)
        return mean - self._order / (1.0 - self._order)

    def influence(self, place: int) -> Tensor:
        """Of the kept rows."""
        return self.influence_of(self._spectrum.squares(place), self._spectrum.share(place))

    def influence_of(self, squares: Tensor, share: float) -> Tensor:
        """Of any rows, without their own part in C to first order."""
        scaled = squares / self._top
        return self._rate * (scaled @ self._powers - share * self._second(scaled))

    def shape(self) -> Tensor:
        """√(g_k g_l)^{q−3}."""
        values = self._spectrum.values[: len(self._spectrum.leading[0])] / self._top
        roots = values ** (0.5 * (self._order - 3.0))
        return (roots[:, None] * roots)[None]

    def _second(self, squares: Tensor) -> Tensor:
        """D²F[φφᵀ, φφᵀ]/q (b,) of rows by their squares (b, k)."""
        return ((squares @ self._curvature) * squares).sum(-1)


def blended_entropy(spectrum: BlendedSpectrum, order: float, width: int) -> BlendedEntropy:
    """By the recipe of the order."""
    return (BelowTwo if order < 2.0 else AboveTwo)(spectrum, order, width)


def slopes_of(spectrum: BlendedSpectrum, entropy: BlendedEntropy) -> Floats:
    """∂H/∂α (G,), de-biased, up to a number that all share."""
    count = len(spectrum.parts)
    found = np.array([_mean_influence(spectrum, entropy, place) for place in range(count)])
    kernels, bias = entropy.shape(), np.zeros(count)
    for number, place in enumerate(spectrum.support):
        kernel = kernels[number % len(kernels)] * spectrum.leading[place]
        size = float(spectrum.weights[place]) * spectrum.share(place)
        bias += size * np.array([float((kernel * other).sum()) for other in spectrum.leading])
    total = float(spectrum.weights @ bias)
    return found - (entropy.excess / total * bias if total > 0.0 else 0.0)


def _mean_influence(spectrum: BlendedSpectrum, entropy: BlendedEntropy, place: int) -> float:
    """Of all rows of a generator: that of C_i, and from the kept rows the difference that leaving out makes."""
    kept = entropy.influence(place)
    if spectrum.parts[place].keeps_all:
        return float(kept.mean())
    size = len(spectrum.values)
    each = entropy.influence_of(torch.eye(size, dtype=kept.dtype, device=kept.device), 0.0)
    beyond = float(entropy.influence_of(kept.new_zeros(1, size), 0.0))
    squares = spectrum.squares(place)
    inside = squares @ each + beyond * (1.0 - squares.sum(-1)).clamp_min(0.0)
    return spectrum.mean(place, each, beyond) + float((kept - inside).mean())


def _repeated(values: list[float], rows: list[Tensor]) -> Tensor:
    """Each value once for each row of its block."""
    return torch.cat([each.new_full((len(each),), value) for value, each in zip(values, rows, strict=True)])
