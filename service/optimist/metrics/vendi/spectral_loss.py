"""Minus the entropy of a blend of covariances, as a convex function of the weights (equations.md §3).

C = Σ α_i C_i of unit trace has value, gradient and Hessian in α from one eigenproblem C = UΛUᵀ. With
F = tr g(C), g = x log x at order 1 and x^q otherwise, and C̃_i = UᵀC_iU:

    F_i = Σ_k g′(λ_k) (C̃_i)_kk          F_ij = Σ_kl g′[λ_k, λ_l] (C̃_i)_kl (C̃_j)_kl

The loss is convex and has one limit at order 1 from both sides:

    q = 1:  F            q < 1:  −log F/(1 − q), minus the log score            q > 1:  q/(q − 1) (F^{1/q} − 1)

The last is a norm. tr C^q itself is convex, too, but of a size of its own at every order.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from optimist.metrics.spectra.differences import differences
from optimist.metrics.vendi.spectrum import FLOOR
from optimist.numerics.mixtures.quadratic import Floats, Quadratic


@dataclass(frozen=True)
class Spectral:
    """g of one order, on eigenvalues (k) > 0."""

    order: float

    def trace(self, values: Tensor) -> float:
        """F = Σ g(λ)."""
        return float((values * values.log()).sum() if self.order == 1.0 else (values**self.order).sum())

    def slopes(self, values: Tensor) -> Tensor:
        """g′(λ) (k)."""
        return values.log() + 1.0 if self.order == 1.0 else self.order * values ** (self.order - 1.0)

    def curvature(self, values: Tensor) -> Tensor:
        """g′[λ_k, λ_l] (k, k)."""
        if self.order == 1.0:
            return differences(values)
        return self.order * differences(values, self.order - 1.0)

    def loss(self, trace: float) -> tuple[float, float, float]:
        """The loss as a function of F, its first and its second derivative."""
        q = self.order
        if q == 1.0:
            return trace, 1.0, 0.0
        if q < 1.0:
            return -math.log(trace) / (1.0 - q), -1.0 / (1.0 - q) / trace, 1.0 / (1.0 - q) / trace**2
        norm = trace ** (1.0 / q)
        return q / (q - 1.0) * (norm - 1.0), norm / trace / (q - 1.0), -norm / trace**2 / q

    def of_score(self, score: float) -> float:
        """The loss of a log score."""
        q = self.order
        return -score if q <= 1.0 else q / (q - 1.0) * math.expm1((1.0 - q) / q * score)

    def rate(self, score: float) -> float:
        """By how much it falls for each unit of the log score."""
        return 1.0 if self.order <= 1.0 else math.exp((1.0 - self.order) / self.order * score)

    def in_log(self, loss: float) -> float:
        """Minus the log score of a loss."""
        q = self.order
        return loss if q <= 1.0 else q / (q - 1.0) * math.log(max(1.0 + (q - 1.0) / q * loss, 1e-300))


@dataclass(frozen=True)
class Covariances:
    """C_i of G generators in the same eigenvectors."""

    leading: Sequence[Tensor]
    """(m, m) each."""
    rest: Floats
    """(G,): traces beyond these, taken as spread evenly."""
    rest_count: int
    """Over so many eigenvectors."""

    @classmethod
    def of(cls, moments: Sequence[Tensor], rank: int) -> Covariances:
        """Of unit traces, with these in the leading ones of `rank` eigenvectors."""
        rest_count = rank - len(moments[0])
        rest = np.array([max(1.0 - float(each.trace()), 0.0) if rest_count else 0.0 for each in moments])
        return cls(moments, rest, rest_count)


def spectral_model(order: float, covariances: Covariances, weights: Floats, ridge: float = 0.0) -> Quadratic:
    """The second-order model, at weights (G,), of the loss of blends, of C + λI with `ridge` λ ≥ 0 in place of C."""
    g, leading = Spectral(order), covariances.leading
    blend = float(weights[0]) * leading[0]
    for weight, moment in zip(weights[1:].tolist(), leading[1:], strict=True):
        blend = blend + weight * moment
    values, vectors = torch.linalg.eigh(blend)
    values = (values + ridge).clamp_min(FLOOR * float(values[-1]))
    rotated = torch.stack([(vectors.T @ moment @ vectors).flatten() for moment in leading])
    first = (rotated[:, :: len(blend) + 1] @ g.slopes(values)).cpu().numpy()
    second = ((rotated * g.curvature(values).flatten()) @ rotated.T).cpu().numpy()
    trace, count, spread = g.trace(values), covariances.rest_count, float(weights @ covariances.rest)
    if spread > 0.0:
        even = torch.tensor([spread / count + ridge], dtype=values.dtype, device=values.device)
        trace += count * g.trace(even)
        first = first + covariances.rest * float(g.slopes(even))
        second = second + np.outer(covariances.rest, covariances.rest) * float(g.curvature(even)) / count
    value, rise, bend = g.loss(trace)
    gradient = rise * first
    hessian = rise * second + bend * np.outer(first, first)
    return tangent(value, gradient, 0.5 * (hessian + hessian.T), weights)


def tangent(value: float, gradient: Floats, hessian: Floats, weights: Floats) -> Quadratic:
    """The quadratic of this value, gradient (G,) and Hessian (G, G) at weights (G,)."""
    linear = gradient - hessian @ weights
    return Quadratic(0.5 * hessian, linear, value - float(0.5 * weights @ hessian @ weights + linear @ weights))
