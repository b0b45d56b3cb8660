"""Entropies of a population's spectrum from a sample's, by Silverstein's effective ridge (decisions.md §1).

For rows of one norm, the sample's degrees of freedom at ridge w, D(w) = Σ g/(g + w), are the population's
tr C(C + xI)⁻¹ at ridge x(w) = m / (Σ 1/(g + w) + (m − k)/w) = w / (1 − D/m). Entropies are integrals over that curve
(`curves`). Rules 1 and 2 estimate by it; for others see `cross_entropy`.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from optimist.numerics.spectra.curves import entropy_of_curve, tail_by_power

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
    entropy = entropy_of_curve(freedom, x, rank, order)
    flat = float(freedom[0] * x[0] ** order) / order
    below = flat if degrees >= rank else tail_by_power(freedom, x, rank, order)
    value = entropy(below)
    return DebiasedEntropy(value, below - flat if order == 1.0 else abs(value - entropy(flat)))
