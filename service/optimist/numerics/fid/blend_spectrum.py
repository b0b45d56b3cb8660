"""The spectrum of M = A Σ(α) A of a blend, and tr √M with its derivatives by the weights, plain and de-biased.

Derivatives are along the simplex: up to a number that all weights share. With the blend's mean m as origin and
u_i = m_i − m, ∂M/∂α_i = W_i + u_iu_iᵀ =: F_i, ∂²M/∂α_i∂α_j = −u_iu_jᵀ − u_ju_iᵀ and Σ α_iF_i = M.
"""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from optimist.numerics.fid.parts import Space
from optimist.numerics.mixtures.quadratic import Floats
from optimist.numerics.spectra import symmetric_product
from optimist.numerics.spectra.leave_one_out import LeaveOneOutCurve, RowWeights, leave_one_out_curve

CUT = 1e-10
"""Part of the largest eigenvalue of M below which others are raised to it, as the rank of the reference is cut."""
VANISHING = 1e-200


class BlendSpectrum:
    """The eigenpairs of M at weights (G,), by the parts' covariances with 1/n, or `unbiased`."""

    def __init__(self, space: Space, weights: Floats, unbiased: bool) -> None:
        self.space, self.weights = space, weights
        counts = np.array(space.counts, dtype=np.float64)
        self.scales = (counts - 1.0 + weights) / (counts - 1.0) if unbiased else np.ones_like(counts)
        """Factor (G,) of A S_i A/n_i."""
        alpha = space.places.new_tensor(weights)
        self.offsets = space.places - alpha @ space.places
        """u (G, k)."""
        moment = (self.offsets.T * alpha) @ self.offsets
        for weight, scale, part in zip(weights, self.scales, space.moments, strict=True):
            if weight > 0.0:
                moment.add_(part, alpha=float(weight * scale))
        self.values, self.vectors = torch.linalg.eigh(moment)
        self.values = self.values.clamp_min(0.0)
        self.turned = self.offsets @ self.vectors
        """u in the eigenbasis (G, k)."""

    @property
    def vanishes(self) -> bool:
        """Whether M counts as zero."""
        return float(self.values.sum()) <= VANISHING

    @property
    def root_trace(self) -> float:
        """Tr √M of the samples as they are."""
        return float(self.values.sqrt().sum())

    def turned_moment(self, place: int) -> Tensor:
        """F_i (k, k) in the eigenbasis."""
        moment = self.vectors.T @ (self.space.moments[place] @ self.vectors) * float(self.scales[place])
        return moment + torch.outer(self.turned[place], self.turned[place])

    @cached_property
    def diagonals(self) -> Tensor:
        """The diagonals of all F_i in the eigenbasis (G, k)."""
        found = []
        for place, moment in enumerate(self.space.moments):
            rows = self.space.rows[place]
            if len(rows) == self.space.counts[place]:
                own = (rows @ self.vectors).square().mean(0)
            else:
                own = (self.vectors * (moment @ self.vectors)).sum(0)
            found.append(own * float(self.scales[place]) + self.turned[place].square())
        return torch.stack(found)

    def derivatives(self) -> tuple[Floats, Floats]:
        """Gradient (G,) and Hessian (G, G) of tr √M, by the samples as they are; exact but for `CUT`."""
        if self.vanishes:
            return np.zeros(len(self.weights)), np.zeros((len(self.weights), len(self.weights)))
        roots = self.values.clamp_min(CUT * float(self.values[-1])).sqrt()
        pairs = roots[:, None] + roots
        pairs.mul_(roots[:, None]).mul_(roots).mul_(2.0).reciprocal_()
        gradient = 0.5 * (self.diagonals / roots).sum(-1)
        return gradient.cpu().numpy(), self._quadratic(pairs, 0.5 / roots)

    @cached_property
    def support(self) -> tuple[int, ...]:
        """Places of the parts with a weight."""
        return tuple(int(place) for place in np.flatnonzero(self.weights > 0.0))

    def _rows(self, place: int) -> Tensor:
        """Rows (b, k) of a part in the eigenbasis, from the blend's mean; with second moment F_i."""
        rows = self.space.rows[place] @ self.vectors
        return math.sqrt(float(self.scales[place])) * rows + self.turned[place]

    @cached_property
    def curve(self) -> tuple[LeaveOneOutCurve, tuple[Tensor, ...]]:
        """The population's degrees of freedom, and the residuals (b_i, W) of the rows of the support's parts."""
        space, total = self.space, sum(self.space.counts[place] for place in self.support)
        kept = min(total - 1, space.rank, space.width)
        values = self.values[-kept:]
        floored = values.clamp_min(max(float(values[-1]), VANISHING) * 1e-12)
        shares, share, copies = [], [], []
        for place in self.support:
            squares = self._rows(place)[:, -kept:].square()
            weight = float(self.weights[place]) / space.counts[place]
            shares.append(weight * squares / floored)
            share.append(squares.new_full((len(squares),), weight))
            copies.append(squares.new_full((len(squares),), space.counts[place] / len(squares)))
        weights = RowWeights(torch.cat(share), torch.cat(copies))
        curve = leave_one_out_curve(values, torch.cat(shares), total - 1, space.eigenvalues, weights)
        return curve, curve.residual.split([len(each) for each in share])

    def debiased(self) -> tuple[float, float]:
        """Tr √M without bias, and the extrapolated part of it on the scale of the distance."""
        if self.vanishes:
            return 0.0, 0.0
        curve, _ = self.curve
        return float(curve.value), float(curve.extrapolated)

    def debiased_gradient(self) -> Floats:
        """The gradient (G,) of tr √M without bias: what rows that took no part in M find there.

        tr F_i (M + x)⁻¹ = (w/x) E zᵀ(M̂₋ + w)⁻¹z over rows z of part i that M̂₋ is without; half its integral is the
        derivative.
        """
        if self.vanishes:
            return np.zeros(len(self.weights))
        curve, residuals = self.curve
        inverse = 1.0 / (self.values[:, None] + curve.w)
        found = self.diagonals @ inverse
        for place, residual in zip(self.support, residuals, strict=True):
            each = self._rows(place).square() @ inverse
            mean = each.mean(0)
            found[place] *= torch.where(mean > 0.0, (each / residual).mean(0) / mean, 1.0)
        found *= curve.freedom / (found.new_tensor(self.weights) @ found)
        return (0.5 * found @ curve.quadrature).cpu().numpy()

    def debiased_hessian(self) -> Floats:
        """The Hessian (G, G) of tr √M, as its de-biased gradient changes on an unchanged curve.

        Scaled so that αᵀHα = −¼ tr √M, as in all functions homogeneous of order ½.
        """
        if self.vanishes:
            return np.zeros((len(self.weights), len(self.weights)))
        curve, _ = self.curve
        inverse = 1.0 / (self.values[:, None] + curve.w)
        weights = 0.5 * curve.quadrature * curve.w / curve.x
        pairs = (inverse * weights) @ inverse.T
        found = self._quadratic(pairs, inverse @ weights)
        import os

        for place, count in enumerate(self.space.counts) if os.environ.get("HH") == "U" else ():
            pairs_of_one = (self._rows(place).square() @ inverse).square().mean(0) @ weights
            found[place, place] = (found[place, place] + float(pairs_of_one) / count) * (count / (count - 1.0))
        sizes, directions = np.linalg.eigh(found)
        found = (directions * np.minimum(sizes, 0.02 * sizes[0])) @ directions.T
        alpha = self.weights
        size = float(alpha @ found @ alpha)
        return found * (-0.25 * float(curve.value) / size) if size < 0.0 else found

    def _quadratic(self, pairs: Tensor, slopes: Tensor) -> Floats:
        """Second derivatives (G, G) of tr f(M), by −f′[λ_k, λ_l] (k, k), and f′(λ) (k)."""
        found = -2.0 * (self.turned * slopes) @ self.turned.T
        turned = [self.turned_moment(place) for place in range(len(self.weights))]
        for first, one in enumerate(turned):
            weighted = (pairs * one).flatten()
            for second in range(first + 1):
                value = weighted @ turned[second].flatten()
                found[first, second] -= value
                if second != first:
                    found[second, first] -= value
        return found.cpu().numpy()
