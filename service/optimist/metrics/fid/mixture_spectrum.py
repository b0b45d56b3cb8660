"""The spectrum of M = A Σ(α) A of a mixture, and tr √M with its derivatives by the weights, plain and de-biased.

Derivatives are along the simplex: up to a number that all weights share. With the mixture's mean m as origin and
u_i = m_i − m, ∂M/∂α_i = W_i + u_iu_iᵀ =: F_i, ∂²M/∂α_i∂α_j = −u_iu_jᵀ − u_ju_iᵀ and Σ α_iF_i = M.

De-biased, everything is an integral over the curve of `spectra.leave_one_out`, on which the sample's resolvent at the
ridge w stands for the population's at x: (M + x)⁻¹ ~ (w/x)(M̂ + w)⁻¹, and a row z is taken out of M̂ by dividing
zᵀ(M̂ + w)⁻¹z by its residual.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from optimist.estimates.programme import Floats
from optimist.metrics.fid.influence import BUFFER, VANISHING
from optimist.metrics.fid.parts import Space
from optimist.metrics.spectra.eigen import eigen_coordinates
from optimist.metrics.spectra.leave_one_out import (
    LeaveOneOutCurve,
    RowWeights,
    SameIndexRows,
    leave_one_out_curve,
    residuals,
)


class FrechetSpectrum:
    """M at weights (G,), by the parts' covariances with 1/n, or `unbiased`; with the parts' rows in its eigenbasis."""

    def __init__(
        self,
        space: Space,
        weights: Floats,
        *,
        unbiased: bool,
        common: Sequence[Tensor | None] = (),
        lean: bool = False,
    ) -> None:
        """common: further rows (m, k) of each part, minus its mean. lean: no derivatives will be asked for."""
        self.space, self.weights = space, weights
        self._common, self._lean = common, lean
        counts = np.array(space.counts, dtype=np.float64)
        taken = weights + space.overlap @ weights
        self.scales = (counts - 1.0 + taken) / (counts - 1.0) if unbiased else np.ones_like(counts)
        """Factors (G,) of A S_i A/n_i: the mean of the mixture takes part α_i/n_i of a part's covariance, and what the
        parts of the same indices have in common."""
        alpha = torch.from_numpy(weights).to(space.means.device)
        self.offsets = space.means - alpha @ space.means
        """u (G, k)."""
        self.moment = (self.offsets.T * alpha) @ self.offsets
        """M (k, k)."""
        self.support = tuple(int(g) for g in np.flatnonzero(weights > 0.0))
        for g in self.support:
            self.moment.add_(space.moments[g], alpha=float(weights[g] * self.scales[g]))
        total = sum(space.counts[g] for g in self.support)
        self.degrees = total - 1
        self.kept = min(total - 1, space.rank, space.width)
        """The number of eigenvalues that are not 0 by construction."""
        self.vanishes = float(self.moment.trace()) <= VANISHING
        """True if M counts as zero."""

    @cached_property
    def _eigen(self) -> tuple[Tensor, Tensor]:
        values, vectors = torch.linalg.eigh(self.moment)
        return values.clamp_min(0.0), vectors

    @cached_property
    def _rows(self) -> tuple[Tensor, dict[int, Tensor], dict[int, Tensor], dict[int, Tensor]]:
        """The eigenvalues, and in the eigenbasis the last, the common, and the same indices' rows by part."""
        kinds = [self._shifted(each) for each in (self.space.rows, self._common, self.space.same)]
        blocks = [block for each in kinds for block in each.values()]
        if self._lean:
            values, rotated = eigen_coordinates(self.moment, torch.cat(blocks))
            turned = iter(rotated.split([len(block) for block in blocks]))
        else:
            values, vectors = self._eigen
            turned = (block @ vectors for block in blocks)
        own, common, same = ({g: next(turned) for g in each} for each in kinds)
        return values.clamp_min(0.0), own, common, same

    def _shifted(self, blocks: Sequence[Tensor | None]) -> dict[int, Tensor]:
        """Rows from the mixture's mean, the samples' with second moment F_i; if lean, of the support only."""
        return {
            g: math.sqrt(float(self.scales[g])) * block + self.offsets[g]
            for g, block in enumerate(blocks)
            if block is not None and (g in self.support or not self._lean)
        }

    @property
    def values(self) -> Tensor:
        """Eigenvalues (k), ascending, at least 0."""
        return self._rows[0] if self._lean else self._eigen[0]

    @property
    def root_trace(self) -> float:
        """Tr √M of the samples as they are."""
        return float(self.values.sqrt().sum())

    @cached_property
    def _turned(self) -> Tensor:
        """u in the eigenbasis (G, k)."""
        return self.offsets @ self._eigen[1]

    @cached_property
    def _moments(self) -> tuple[Tensor, ...]:
        """F_i (k, k) in the eigenbasis."""
        moments, (_, vectors) = [], self._eigen
        for moment, scale, offset in zip(self.space.moments, self.scales, self._turned, strict=True):
            own = vectors.T @ (moment @ vectors)
            moments.append(own.mul_(float(scale)).addr_(offset, offset))
        return tuple(moments)

    def _diagonals(self) -> Tensor:
        return torch.stack([each.diagonal() for each in self._moments])

    def derivatives(self) -> tuple[Floats, Floats]:
        """Gradient (G,) and Hessian (G, G) of tr √M, by the samples as they are; exact but for small eigenvalues."""
        if self.vanishes:
            return self._flat()
        # Eigenvalues below this part of the largest are raised to it, as the rank of the reference is cut.
        roots = self.values.clamp_min(1e-10 * float(self.values[-1])).sqrt()
        pairs = roots[:, None] + roots
        pairs.mul_(roots[:, None]).mul_(roots).mul_(2.0).reciprocal_()
        gradient = 0.5 * (self._diagonals() / roots).sum(-1)
        return gradient.cpu().numpy(), self._quadratic(pairs, 0.5 / roots)

    def _quadratic(self, pairs: Tensor, slopes: Tensor) -> Floats:
        """Second derivatives (G, G) of tr f(M), by −f′[λ_k, λ_l] (k, k) and f′(λ) (k)."""
        hessian = -2.0 * (self._turned * slopes) @ self._turned.T
        for first, moment in enumerate(self._moments):
            weighted = (pairs * moment).flatten()
            for second in range(first + 1):
                value = weighted @ self._moments[second].flatten()
                hessian[first, second] -= value
                if second != first:
                    hessian[second, first] -= value
        return hessian.cpu().numpy()

    def _flat(self) -> tuple[Floats, Floats]:
        count = len(self.weights)
        return np.zeros(count), np.zeros((count, count))

    @cached_property
    def curve(self) -> LeaveOneOutCurve:
        """The population's degrees of freedom."""
        shares, weight, copies, generators = [], [], [], []
        for order, g in enumerate(self.support):
            rows = self._rows[1][g]
            shares.append(self._shares(g, rows))
            weight.append(rows.new_full((len(rows),), self.weight(g)))
            copies.append(rows.new_full((len(rows),), self.space.counts[g] / len(rows)))
            generators.append(torch.full((len(rows),), order, device=rows.device))
        weights = RowWeights(torch.cat(weight), torch.cat(copies), torch.cat(generators), self._same)
        kept = self.values[-self.kept :]
        return leave_one_out_curve(kept, torch.cat(shares), self.degrees, self.space.eigenvalues, weights)

    @cached_property
    def _same(self) -> SameIndexRows | None:
        """The rows of the same indices, the support's first; None where nothing is known, or for one part."""
        rows_of = self._rows[3]
        if len(self.support) < 2 or any(g not in rows_of for g in self.support):
            return None
        kept = self.values[-self.kept :]
        roots = kept.clamp_min(max(float(kept[-1]), VANISHING) * 1e-12).sqrt()
        order = self._order
        weight = torch.tensor([self.weight(g) for g in self.support], dtype=kept.dtype, device=kept.device)
        rows = torch.stack([rows_of[g][:, -self.kept :] / roots for g in order])
        inside, others = rows[: len(weight)] * weight.sqrt()[:, None, None], rows[len(weight) :]
        alpha = torch.tensor(self.weights[list(self.support)], dtype=kept.dtype, device=kept.device)
        shared = torch.tensor([self.space.shared[g] for g in order], dtype=kept.dtype, device=kept.device)
        return SameIndexRows(inside, others, weight, alpha, shared)

    @property
    def _order(self) -> list[int]:
        """The parts in the order of `SameIndexRows`."""
        return [*self.support, *(g for g in self._rows[3] if g not in self.support)]

    def weight(self, g: int) -> float:
        """The weight α_i/n_i of one row of a generator."""
        return float(self.weights[g]) / self.space.counts[g]

    def _shares(self, g: int, rows: Tensor) -> Tensor:
        """U of rules/estimates.md (b, kept) of rows (b, k) of a part in the eigenbasis."""
        kept = self.values[-self.kept :]
        floored = kept.clamp_min(max(float(kept[-1]), VANISHING) * 1e-12)
        return self.weight(g) * rows[:, -self.kept :].square() / floored

    @cached_property
    def _inverse(self) -> Tensor:
        """1/(λ_k + w) (k, W)."""
        return 1.0 / (self.values[:, None] + self.curve.w)

    def _outside(self, g: int, rows: Tensor) -> Tensor:
        """zᵀ(M̂₋ + w)⁻¹z (b, W) of rows (b, k) of a part in the eigenbasis, M̂₋ without the row."""
        forms = rows.square() @ self._inverse
        if self.curve.apart is not None and g in self._order:
            forms = forms * self.curve.apart[self._order.index(g)]
        if g not in self.support:
            return forms
        shares, weight = self._shares(g, rows), rows.new_full((len(rows), 1), self.weight(g))
        return forms / residuals(self.values[-self.kept :], shares, self.curve.w, weight)

    def debiased_gradient(self) -> Floats:
        """The gradient (G,) of tr √M without bias: what rows that took no part in M find there.

        tr F_i (M + x)⁻¹ = (w/x) E zᵀ(M̂₋ + w)⁻¹z over rows z of part i; half its integral is the derivative.
        """
        if self.vanishes:
            return self._flat()[0]
        traces = self._diagonals() @ self._inverse
        for g in self.support:
            rows = self._rows[1][g]
            mean = (rows.square() @ self._inverse).mean(0)
            # The last rows give the ratio alone: all rows are in the moments.
            traces[g] *= torch.where(mean > 0.0, self._outside(g, rows).mean(0) / mean, 1.0)
        traces *= self.curve.freedom / (torch.from_numpy(self.weights).to(traces.device) @ traces)
        return (0.5 * traces @ self.curve.quadrature).cpu().numpy()

    @cached_property
    def _pairs(self) -> Tensor:
        """−f′[λ_k, λ_l] (k, k) of the de-biased f."""
        return (self._inverse * (0.5 * self._ridges)) @ self._inverse.T

    @cached_property
    def _ridges(self) -> Tensor:
        """Weights (W) by which M^{-1/2} is a sum over (M̂ + w)⁻¹."""
        return self.curve.quadrature * self.curve.w / self.curve.x

    def debiased_hessian(self) -> Floats:
        """The Hessian (G, G) of tr √M, as its de-biased gradient changes on an unchanged curve, times `stiffness`."""
        return self._flat()[1] if self.vanishes else self._unscaled * self.stiffness

    @cached_property
    def _unscaled(self) -> Floats:
        return self._quadratic(self._pairs, 0.5 * (self._inverse @ self._ridges))

    @cached_property
    def stiffness(self) -> float:
        """The factor by which αᵀHα = −¼ tr √M, as of every function that is homogeneous of order ½."""
        size = float(self.weights @ self._unscaled @ self.weights)
        return -0.25 * float(self.curve.value) / size if size < 0.0 else 1.0

    def scores(self, g: int, *, common: bool = False) -> Tensor:
        """zᵀTz (b) of the last, or of the common, rows z of a part from the mixture's mean, T = M^{-1/2}, as if M were
        without the row.
        """
        rows = self._rows[2 if common else 1][g]
        return rows.new_zeros(len(rows)) if self.vanishes else self._outside(g, rows) @ self._ridges

    def bends(self, g: int, *, common: bool = False) -> Tensor:
        """Second derivatives (b, G) of −2 tr √M by each weight and by M along zzᵀ, for the rows z of `scores`.

        Included is that the mixture's mean moves along z.
        """
        rows = self._rows[2 if common else 1][g][-BUFFER:]
        if self.vanishes:
            return rows.new_zeros(len(rows), len(self.weights))
        slopes = self._inverse @ self._ridges
        columns = [
            2.0 * ((rows @ (self._pairs * moment)) * rows).sum(-1) + 2.0 * rows @ (slopes * offset)
            for moment, offset in zip(self._moments, self._turned, strict=True)
        ]
        return torch.stack(columns, -1) * self.stiffness
