"""Entropies of a population's spectrum from a sample's, by Silverstein's effective ridge (decisions.md §1).

For rows of one norm, the sample's degrees of freedom at ridge w, D(w) = Σ g/(g + w), are the population's
tr C(C + xI)⁻¹ at ridge x(w) = m / (Σ 1/(g + w) + (m − k)/w) = w / (1 − D/m). Traces are integrals over that curve:

    −tr C log C = ∫₀^∞ [D − 1/(1 + x)] dx,   tr C = 1
    tr C^α = (sin πα / π) ∫₀^∞ x^{α−1} D dx,   0 < α < 1
    tr C^α = (sin π(α−1) / π) ∫₀^∞ x^{α−2} (1 − xD) dx,   1 < α < 2

The second is λ^α = (sin πα / π) ∫₀^∞ x^{α−1} λ/(λ + x) dx summed, the third the same of λ · λ^{α−1}; their logarithms
over 1 − α go to the first as α → 1. Beyond the grid 1 − xD falls as 1/x.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

GRID_POINTS = 161
FLOOR = 1e-12
"""Smallest eigenvalue relative to the largest: smaller ones are raised to it."""


@dataclass(frozen=True)
class DebiasedEntropy:
    """A de-biased Rényi entropy of a spectrum, and the part of it that is extrapolated beyond the samples."""

    value: float
    extrapolated: float


def debiased_entropy(eigenvalues: Tensor, degrees: int, rank: int, order: float = 1.0) -> DebiasedEntropy:
    """De-biased log Vendi of order α, 0 < α < 2, of a population with tr C = 1 and at most `rank` eigenvalues.

    `eigenvalues` (k), k = min(degrees, rank): the largest of the sample's, the largest of them > 0, from `degrees` = n
    rows of norm 1. While n < rank the part of the curve below the grid is a power law that runs into D = rank.
    Raises ValueError on another order.
    """
    if not 0.0 < order < 2.0:
        raise ValueError(f"the effective ridge serves orders between 0 and 2, not {order!r}")
    largest = eigenvalues.amax()
    g = torch.maximum(eigenvalues, largest * FLOOR)[:, None]
    low, high = (g.amin() * (1e-3 if len(g) < degrees else 1e-4)).log(), (largest * 1e4).log()
    w = torch.exp(low + (high - low) * torch.linspace(0.0, 1.0, GRID_POINTS, dtype=g.dtype, device=g.device))
    inverse = 1.0 / (g + w)
    freedom = (g * inverse).sum(0)
    x = degrees / (inverse.sum(0) + (degrees - len(g)) / w)
    curve = freedom * x if order <= 1.0 else 1.0 - freedom * x
    inner = float(torch.trapezoid(curve * x ** (order - 1.0), x.log()))
    flat = float(freedom[0] * x[0] ** order) / order
    below = flat if degrees >= rank else _tail_by_power(freedom, x, rank, order)

    start, top = float(x[0]), float(x[-1])
    if order == 1.0:
        return DebiasedEntropy(inner - math.log1p(top) + below, below - flat)
    scale = math.sin(math.pi * order) / math.pi
    above = top ** (order - 1.0) * (1.0 - top * float(freedom[-1])) / (2.0 - order)
    if order < 1.0:
        rest = inner + top ** (order - 1.0) / (1.0 - order) - above
    else:
        rest = start ** (order - 1.0) / (1.0 - order) - inner - above

    def entropy(tail: float) -> float:
        # Samples with nothing in common leave a trace of zero for α > 1; no spectrum's is below rank^{1 − α}.
        trace = max(scale * (rest + tail), rank ** min(1.0 - order, 0.0))
        return math.log(trace) / (1.0 - order)

    value = entropy(below)
    return DebiasedEntropy(value, abs(value - entropy(flat)))


def _tail_by_power(freedom: Tensor, x: Tensor, rank: int, order: float) -> float:
    """∫₀^xs x^{α−1} D dx for D = Ds (xs/x)^s, with the slope s of the factor of 4 above xs, and never past rank."""
    fourfold = int((x >= 4.0 * x[0]).to(torch.uint8).argmax())
    start, full = float(x[0]), float(freedom[0])
    slope = math.log(full / float(freedom[fourfold])) / math.log(float(x[fourfold]) / start)
    slope = min(max(slope, 0.0), 0.9)
    # log(xc/xs), where the power law meets D = rank.
    reach = -math.log(rank / full) / max(slope, 0.001)
    q = order - slope
    law = full * (-math.expm1(q * reach) / q if q != 0.0 else -reach)
    return start**order * (law + rank * math.exp(order * reach) / order)
