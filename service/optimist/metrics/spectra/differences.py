"""Divided differences of logarithm and powers: second derivatives of traces (Daleckii and Krein, 1965).

For f(C) = tr g(C) of a symmetric C with eigenvalues λ, in its eigenbasis, D²f[E, F] = Σ_kl g′[λ_k, λ_l] E_kl F_kl with
g′[a, b] = (g′(a) − g′(b))/(a − b), g″(a) where a = b.
"""

from __future__ import annotations

import torch
from torch import Tensor


def differences(values: Tensor, power: float = 0.0) -> Tensor:
    """(a^p − b^p)/(a − b) of all pairs (k, k) of values > 0 (k), of the logarithm for p = 0; p a^{p−1} where a = b.

    With u = ½ |log(a/b)| it is √(ab)^{p−1} sinh(pu)/sinh(u), which loses no digits where values are close or tiny.
    """
    logs = values.log()
    apart = 0.5 * (logs[:, None] - logs).abs()
    middle = 0.5 * (logs[:, None] + logs)
    equal = apart == 0.0
    apart = torch.where(equal, 1.0, apart)
    upper, limit = (apart, 1.0) if power == 0.0 else ((power * apart).sinh(), power)
    return ((power - 1.0) * middle).exp() * torch.where(equal, limit, upper / apart.sinh())
