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

from optimist.numerics.mixtures.quadratic import Floats, Quadratic
from optimist.numerics.spectra.differences import differences
from optimist.numerics.spectra.effective_ridge import FLOOR


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

    def in_log(self, trace: float) -> float:
        """The loss's derivative divided by that of minus the log score."""
        return trace ** (1.0 / self.order) if self.order > 1.0 else 1.0


def spectral_model(order: float, moments: Sequence[Tensor], weights: Floats, ridge: float = 0.0) -> Quadratic:
    """The second-order model, at weights (G,), of the loss of blends of covariances C_i (d, d), of all G together.

    ridge λ ≥ 0: of C + λI in place of C.
    """
    blend = sum((weight * moment for weight, moment in zip(weights.tolist(), moments, strict=True)), 0.0 * moments[0])
    values, vectors = torch.linalg.eigh(blend)
    values = (values + ridge).clamp_min(FLOOR * float(values[-1]))
    g = Spectral(order)
    rotated = torch.stack([(vectors.T @ moment @ vectors).flatten() for moment in moments])
    first = torch.stack([each.view_as(blend).diagonal() for each in rotated]) @ g.slopes(values)
    second = (rotated * g.curvature(values).flatten()) @ rotated.T
    value, rise, bend = g.loss(g.trace(values))
    gradient = rise * first.cpu().numpy()
    hessian = rise * second.cpu().numpy() + bend * np.outer(first.cpu().numpy(), first.cpu().numpy())
    hessian = 0.5 * (hessian + hessian.T)
    linear = gradient - hessian @ weights
    return Quadratic(0.5 * hessian, linear, value - float(0.5 * weights @ hessian @ weights + linear @ weights))
