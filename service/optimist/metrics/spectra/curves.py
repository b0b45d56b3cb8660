"""Entropies of a curve D(x) = tr C(C + xI)⁻¹, a population's degrees of freedom at ridge x (decisions.md §1).

    −tr C log C = ∫₀^∞ [D − 1/(1 + x)] dx,   tr C = 1
    tr C^α = (sin πα / π) ∫₀^∞ x^{α−1} D dx,   0 < α < 1
    tr C^α = (sin π(α−1) / π) ∫₀^∞ x^{α−2} (1 − xD) dx,   1 < α < 2

The second is λ^α = (sin πα / π) ∫₀^∞ x^{α−1} λ/(λ + x) dx summed, the third the same of λ · λ^{α−1}; their logarithms
over 1 − α go to the first as α → 1. Beyond the grid 1 − xD falls as 1/x.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor


def entropy_of_curve(freedom: Tensor, x: Tensor, rank: int, order: float) -> float:
    """log Vendi of order α, 0 < α < 2, of the curve D (W) at ascending x (W), which below x[0] is a power law.

    No population has more than `rank` eigenvalues.
    """
    below = _tail_by_power(freedom, x, rank, order)
    curve = freedom * x if order <= 1.0 else 1.0 - freedom * x
    inner = float(torch.trapezoid(curve * x ** (order - 1.0), x.log()))
    start, top = float(x[0]), float(x[-1])
    if order == 1.0:
        return inner - math.log1p(top) + below
    scale = math.sin(math.pi * order) / math.pi
    above = top ** (order - 1.0) * (1.0 - top * float(freedom[-1])) / (2.0 - order)
    if order < 1.0:
        rest = inner + top ** (order - 1.0) / (1.0 - order) - above
    else:
        rest = start ** (order - 1.0) / (1.0 - order) - inner - above
    # Samples with nothing in common leave a trace of zero for α > 1; no spectrum's is below rank^{1 − α}.
    trace = max(scale * (rest + below), rank ** min(1.0 - order, 0.0))
    return math.log(trace) / (1.0 - order)


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
