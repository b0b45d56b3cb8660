"""The rules by which generators of a blend are sampled, on plain numbers: ours, and three as published.

The published ones are Mixture-UCB-CAB and Mixture-UCB-OGD (Rezaei, Farnia and Li 2025, algorithms 1 and 2) and
Mixture-Greedy (Dibaei Nia and Farnia 2026). equations.md names what the authors' code does otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from optimist.numerics.mixtures.programme import least
from optimist.numerics.mixtures.quadratic import Floats, Quadratic
from optimist_client.metrics import Metric


@dataclass(frozen=True, slots=True)
class Ranges:
    """The constants of the published bonus."""

    kernel: float
    """Δ_κ, the range (sup − inf) of the kernel."""
    loss: float
    """Δ_L, the sensitivity of the loss: 2 Δ_κ + Δ_f, Δ_f the range of the linear part."""

    @classmethod
    def of(cls, metric: Metric) -> Ranges | None:
        """Those of a metric whose loss is quadratic with a kernel between 0 and 1; None for others.

        RKE has (1, 2); MMD with a factor c has (c, 4c), as Δ_f = 2c.
        """
        if metric.name == "rke":
            return cls(1.0, 2.0)
        factor = metric.setting("factor")
        return None if factor is None else cls(factor, 4.0 * factor)

    def bonus(self, samples: Floats, beta: float = 1.0) -> Floats:
        """ε_i = Δ_L √(β log t/(2 n_i)) + Δ_κ/n_i of samples (G,), at least 1 each, t their sum."""
        width = np.sqrt(beta * math.log(max(float(samples.sum()), 1.0)) / (2.0 * samples))
        return self.loss * width + self.kernel / samples


def optimistic_weights(model: Quadratic, bonus: Floats) -> Floats:
    """The weights (G,) of the least αᵀKα + fᵀα − εᵀα: those of CAB; with ε = 0 those of Mixture-Greedy."""
    return least(Quadratic(model.matrix, model.linear - bonus, model.constant))


def drawn(weights: Floats, uniform: float) -> int:
    """The place that a number from [0, 1) selects by the inverse distribution function of the weights (G,)."""
    ends = np.cumsum(weights)
    place = int(np.searchsorted(ends, uniform * ends[-1], side="right"))
    return min(place, int(np.flatnonzero(weights)[-1]))


def steepest(
    model: Quadratic,
    samples: Floats,
    bonus: Floats,
    able: Sequence[int] | None = None,
    costs: Sequence[float] | None = None,
) -> int:
    """The place that is sampled next: of the least h_i − ε_i, the first of equals.

    h is the gradient of the loss at the shares of the samples (G,) so far. It is Mixture-UCB-OGD with the published
    bonus, and our rule with standard errors in its place. able: the places to choose from; None: all. costs: of a
    sample in each of these; then chosen is the largest (h̄ − h_i + ε_i)/c_i, h̄ the mean of h by the shares, which is
    how fast the loss falls by what is spent.
    """
    shares = samples / samples.sum()
    gradient = model.gradient(shares)
    index = gradient - bonus
    able = range(len(index)) if able is None else able
    if costs is not None:
        gains = [float(shares @ gradient - index[place]) for place in able]
        if max(gains) > 0.0:
            rates = [gain / cost for gain, cost in zip(gains, costs, strict=True)]
            return able[rates.index(max(rates))]
    return min(able, key=lambda place: index[place])
