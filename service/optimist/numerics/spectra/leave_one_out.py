"""tr √M of a population from the spectrum of a sample, by the leave-one-out map (decisions.md §1).

The sample's degrees of freedom tr[M̂(M̂ + wI)⁻¹] become the population's, D(x), at another ridge x(w); each row's
leave-one-out leverage, known in closed form, carries the map, which holds for rows of very unequal size. Then

    tr √M = (1/π) ∫₀^∞ x^{-1/2} D(x) dx
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

GRID_POINTS = 161
BISECTIONS = 45


@dataclass(frozen=True)
class DebiasedTrace:
    """De-biased tr √M (…), and the extrapolated part of it (…), on the scale of the Fréchet distance."""

    value: Tensor
    extrapolated: Tensor


@dataclass(frozen=True, eq=False)
class RowWeights:
    """The rows of a blend, which differ in weight; the weights of all rows of its samples sum to 1."""

    share: Tensor
    """(rows): the weight of each, > 0."""
    copies: Tensor
    """(rows): how many rows of the samples each one stands for, where not all are kept."""
    part: Tensor
    """(rows, parts): 1 where the row is of that part of the blend, else 0: rows of a part follow the same law."""


@dataclass(frozen=True, eq=False)
class LeaveOneOutCurve:
    """The population's degrees of freedom by ridge, with the sample's ridges that they are read at."""

    w: Tensor
    """The sample's ridges (…, W), ascending."""
    x: Tensor
    """The population's ridges (…, W), not descending."""
    freedom: Tensor
    """D(x) (…, W)."""
    residual: Tensor
    """1 less the leave-one-out leverage of each row (…, rows, W)."""
    below: Tensor
    """∫ x^{-1/2} D dx (…) below the grid."""
    flat: Tensor
    """The same (…) if D were constant there."""

    def integral(self, values: Tensor) -> Tensor:
        """(1/π) ∫ x^{-1/2} f dx (…) of values f (…, W) on the grid that fall off as D does beyond it."""
        integrand = values * self.x.sqrt()
        inner = torch.trapezoid(integrand, self.x.log(), dim=-1)
        return (self._beneath(values, integrand) + inner + 2.0 * integrand[..., -1]) / math.pi

    def _beneath(self, values: Tensor, integrand: Tensor) -> Tensor:
        if values is self.freedom:
            return self.below
        return 2.0 * integrand[..., 0] * (self.below / self.flat.clamp_min(1e-300))


def debiased_root_trace(
    eigenvalues: Tensor, shares: Tensor, degrees: int, reference: Tensor, weights: RowWeights | None = None
) -> DebiasedTrace:
    """De-biased tr √M, M = S Σ S, from its unbiased estimate; arguments as of `leave_one_out_curve`."""
    curve = leave_one_out_curve(eigenvalues, shares, degrees, reference, weights)
    return DebiasedTrace(curve.integral(curve.freedom), 2.0 * (curve.below - curve.flat) / math.pi)


def leave_one_out_curve(
    eigenvalues: Tensor, shares: Tensor, degrees: int, reference: Tensor, weights: RowWeights | None = None
) -> LeaveOneOutCurve:
    """The curve of M = S Σ S, from its unbiased estimate with `degrees` = n − 1 degrees of freedom.

    `eigenvalues` (…, k): the k = min(degrees, rank) largest sample eigenvalues, the largest of them > 0;
    `shares` (…, rows, k): U2 of decisions.md §1; `reference` (rank): the eigenvalues of Σ_r, all > 0, whose shape
    stands in below the grid while degrees < rank. Leading dimensions are batches. `weights`: for a blend, whose rows
    differ in weight; without leading dimensions.
    """
    count = eigenvalues.shape[-1]
    largest = eigenvalues.amax(-1, keepdim=True)
    g = torch.maximum(eigenvalues, largest * 1e-12)[..., None]
    low = (g.amin(-2) * (1e-3 if count < degrees else 1e-4)).log()
    steps = torch.linspace(0.0, 1.0, GRID_POINTS, dtype=g.dtype, device=g.device)
    w = torch.exp(low + ((largest * 1e4).log() - low) * steps)[..., None, :]

    inverse = 1.0 / (g + w)
    held = g * inverse
    free = w * inverse
    leverage = shares @ held
    variance = shares @ (held * free)
    own = 1.0 / (degrees + 1) if weights is None else weights.share[:, None]
    if count == degrees:
        residual = (shares @ free).clamp_min(1e-15)
    else:
        residual = (1.0 - own - leverage).clamp_min(1e-9)
    if weights is None:
        freedom = held.sum(-2) - (variance / residual).mean(-2)
        mean_leverage = leverage.mean(-2)
        stretch = (leverage / residual).mean(-2) / mean_leverage
    else:
        mass = weights.share * weights.copies
        freedom = held.sum(-2) - (mass / mass.sum()) @ (variance / residual)
        mean_leverage = weights.copies @ leverage
        stretch = _stretch(leverage, variance, residual, weights)
    # If all rows are at the mean, the map is unknown: use the identity.
    x = (w[..., 0, :] * torch.where(mean_leverage > 0.0, stretch, 1.0)).cummax(-1).values
    flat = 2.0 * freedom[..., 0] * x[..., 0].sqrt()
    below = flat if degrees >= len(reference) else _tail_by_shape(freedom[..., 0], x[..., 0], reference)
    return LeaveOneOutCurve(w[..., 0, :], x, freedom, residual, below, flat)


def _stretch(leverage: Tensor, variance: Tensor, residual: Tensor, weights: RowWeights) -> Tensor:
    """x/w (W) of a blend."""
    return (weights.copies @ (leverage / residual)) / (weights.copies @ leverage)


def _tail_by_shape(freedom: Tensor, start: Tensor, reference: Tensor) -> Tensor:
    """∫₀^start x^{-1/2} D dx (…) for D shaped as the reference's, where Σ r²/(r² + c) = D(start) fixes its scale c."""
    rank = len(reference)
    # D(start) ≤ 0, or full, has no c: take the nearest value that has one, where the tail is 0 or flat.
    target = freedom.clamp(1e-18, rank * (1.0 - 1e-9))[..., None]
    squares = reference.square()
    ratio = rank / target - 1.0
    low, high = (squares.min() * ratio).log(), (squares.max() * ratio).log()
    for _ in range(BISECTIONS):
        middle = 0.5 * (low + high)
        too_small = (squares / (squares + middle.exp())).sum(-1, keepdim=True) > target
        low, high = torch.where(too_small, middle, low), torch.where(too_small, high, middle)
    root = (0.25 * (low + high)).exp()
    return (2.0 * reference * torch.arctan(root / reference)).sum(-1) * (start.sqrt() / root[..., 0])
