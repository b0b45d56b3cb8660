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


def debiased_root_trace(eigenvalues: Tensor, shares: Tensor, degrees: int, reference: Tensor) -> DebiasedTrace:
    """De-biased tr √M, M = S Σ S, from its unbiased estimate with `degrees` = n − 1 degrees of freedom.

    `eigenvalues` (…, k): the k = min(degrees, rank) largest sample eigenvalues, the largest of them > 0;
    `shares` (…, rows, k): U2 of decisions.md §1; `reference` (rank): the eigenvalues of Σ_r, all > 0, whose shape
    stands in below the grid while degrees < rank. Leading dimensions are batches.
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
    if count == degrees:
        residual = (shares @ free).clamp_min(1e-15)
    else:
        residual = (1.0 - 1.0 / (degrees + 1) - leverage).clamp_min(1e-9)
    freedom = held.sum(-2) - (variance / residual).mean(-2)
    mean_leverage = leverage.mean(-2)
    # If all rows are at the mean, the map is unknown: use the identity.
    stretch = (leverage / residual).mean(-2) / mean_leverage
    x = (w[..., 0, :] * torch.where(mean_leverage > 0.0, stretch, 1.0)).cummax(-1).values

    integrand = freedom * x.sqrt()
    inner = torch.trapezoid(integrand, x.log(), dim=-1)
    above = 2.0 * integrand[..., -1]
    flat = 2.0 * integrand[..., 0]
    below = flat if degrees >= len(reference) else _tail_by_shape(freedom[..., 0], x[..., 0], reference)
    return DebiasedTrace((below + inner + above) / math.pi, 2.0 * (below - flat) / math.pi)


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
