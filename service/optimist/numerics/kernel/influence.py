"""De-biased kernel scores and their errors, all in log (decisions.md §2, RKE and Vendi).

There is one recipe for each range of orders. C has eigenvalues g_1 … g_k with eigenvectors u_i, H is the log score.

- **Order 2** (RKE): ‖C‖_F² without its diagonal terms is unbiased for tr C².
- **Orders 0 < α < 2**: the effective ridge (`debiased_entropy`). With f the derivative of H in each eigenvalue,
  dH = Σ f(g_i) d g_i and d g_i = u_iᵀ(φφᵀ − C)u_i, so IF = φᵀ f(C) φ up to a constant, with f = −log g for α = 1 and
  f = α g^{α−1} / ((1 − α) tr C^α) otherwise. The second-order variance takes the divided differences of f, as the
  stated one for α = 1 takes those of log. sd_stop adds 0.3 · (estimate − plug-in), for α < 1 all of it: there most of
  the score comes from eigenvalues that few samples show, and the correction was measured to be as uncertain as it is
  large.
- **Orders α > 2, α = ∞, and every truncated score**: H is smooth enough that its bias is B/n + o(1/n), which the halves
  A and B of the stream show twice over: 2 H(A + B) − ½ (H(A) + H(B)). IF = Σ_{i≤t} (f_i − mean f)(u_iᵀφ)², f taken on
  the truncated spectrum, whose common shift is what subtracts the mean; for α = ∞, f is −1/λ_max at the largest alone.
  ½ |correction| is added to the error, for the bias that halving does not show.

Estimates lie in 0 … log ceiling, as every score does; RKE's alone is as decisions.md has it, at most 6 log 10.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from optimist.numerics.kernel.entropy import log_vendi, truncated
from optimist.numerics.kernel.statistic import KernelStatistic
from optimist.numerics.score import Analysis
from optimist.numerics.spectra import eigen_coordinates, symmetric_product
from optimist.numerics.spectra.effective_ridge import FLOOR, debiased_entropy

if TYPE_CHECKING:
    from optimist.numerics.kernel.score import VendiScore

PAIR_BUFFER = 256
"""Number of last φ whose pairs give the second-order variance of RKE."""
COLLAPSED = 1e-12
"""Samples count as identical, without error, if the largest eigenvalue, or ‖C‖_F², is this close to 1."""


@dataclass(frozen=True, kw_only=True)
class KernelAnalysis(Analysis):
    """The numbers of one analysis, in log."""

    extrapolated: float
    """The part of the estimate that the effective ridge extrapolates beyond the samples; 0 for other recipes."""
    plain_error: float
    """The error from the influence function and the second order only, without the factor κ = 1 + 20/n."""


@dataclass(frozen=True)
class EntropyInfluence:
    """The result of a recipe for one entropy, before errors are computed; sums of entropies combine these."""

    plug_in: float
    estimate: float
    influence: Tensor
    """IF of each of the statistic's last φ (b), in log order, up to a constant."""
    second_order: float = 0.0
    """Variance of the second-order term, times n²."""
    pairs: Tensor | None = None
    """The second-order terms that it was taken from, one for each ordered pair of the last φ, at order 2."""
    extrapolated: float = 0.0
    selection_doubt: float = 0.0
    """The uncertain part of the correction, for sd_select, with the correction's sign."""
    stopping_doubt: float = 0.0
    """The same for sd_stop."""
    repeated: int = 0
    """With up to `width` samples, how many φ depend linearly on others, mostly repeats; the ridge assumes none."""


def with_errors(found: EntropyInfluence, n: int, warnings: tuple[str, ...] = ()) -> KernelAnalysis:
    """The errors of a recipe's result for n ≥ 2 samples: independent errors add in squares."""
    variance = float(found.influence.var()) / n + found.second_order / n**2
    known = variance * (1.0 + 20.0 / n) + found.extrapolated**2
    return KernelAnalysis(
        plug_in=found.plug_in,
        estimate=found.estimate,
        extrapolated=found.extrapolated,
        plain_error=math.sqrt(variance),
        selection_error=math.sqrt(known + found.selection_doubt**2),
        stopping_error=math.sqrt(known + found.stopping_doubt**2),
        warnings=warnings,
    )


def few_rows(order: float, n: int, width: int, repeated: int) -> tuple[str, ...]:
    """The warnings of an estimate from n samples by the effective ridge, which extrapolates while n < width."""
    if order >= 2.0 or n >= width:
        return ()
    few = f"fewer samples than features: {n} samples for {width}; the rest is extrapolated"
    again = f"{repeated} of {n} samples repeat others: the interval may be too narrow"
    return (few, again) if repeated else (few,)


def entropy_influence(metric: VendiScore, statistic: KernelStatistic) -> EntropyInfluence:
    """The recipe of the metric's order, from n ≥ 2 samples. Raises ValueError as `VendiScore.analyse` does."""
    metric.check(statistic)
    if statistic.samples < 2:
        raise ValueError("the influence of 1 sample is not defined")
    if metric.order == 2.0 and metric.truncation is None:
        return _by_pairs(metric, statistic)
    if metric.needs_halves:
        return _by_halves(metric, statistic)
    return _by_ridge(metric, statistic)


def pair_variance(pairs: Tensor) -> float:
    """`EntropyInfluence.second_order` of `pairs`."""
    return 2.0 * float(pairs.var())


def _by_pairs(metric: VendiScore, statistic: KernelStatistic) -> EntropyInfluence:
    n, rows, plug_in = statistic.samples, statistic.rows, metric.plug_in(statistic)
    square = math.exp(-plug_in)
    mean_square = max((n * n * square - n) / (n * (n - 1)), 1e-6)
    if square >= 1.0 - COLLAPSED:
        return _collapsed(plug_in, statistic)
    buffer = statistic.last_rows
    seen = statistic.times(buffer) if rows is None else buffer @ rows.T
    quadratic = (seen * (buffer if rows is None else seen)).sum(-1)
    influence = -2.0 / mean_square * (quadratic - 1.0) / (n - 1)
    if n == 2:
        # There is only one pair, so the spread is unknown: take the largest that k² in [0, 1] with this mean can have.
        spread = math.sqrt(2.0 * (1.0 - mean_square) / mean_square)
        influence = torch.tensor([spread, -spread], dtype=torch.float64, device=buffer.device)
    squares = (buffer[-PAIR_BUFFER:] @ buffer[-PAIR_BUFFER:].T).square()
    apart = ~torch.eye(len(squares), dtype=torch.bool, device=squares.device)
    pairs = squares[apart] / -mean_square
    return EntropyInfluence(plug_in, -math.log(mean_square), influence, pair_variance(pairs), pairs)


def _by_ridge(metric: VendiScore, statistic: KernelStatistic) -> EntropyInfluence:
    n, order = statistic.samples, metric.order
    eigenvalues, shares = _eigen(statistic)
    plug_in = log_vendi(eigenvalues, order)
    if eigenvalues[0] >= 1.0 - COLLAPSED:
        return _collapsed(plug_in, statistic)
    found = debiased_entropy(eigenvalues, n, metric.width, order)
    estimate = _inside(metric, found.value)
    floored = eigenvalues.clamp_min(FLOOR * float(eigenvalues[0]))
    slopes = _slopes(floored, order)
    curvature = _divided_differences(floored, slopes, order)
    doubt = 0.3 if order >= 1.0 else 1.0
    return EntropyInfluence(
        plug_in=plug_in,
        estimate=estimate,
        influence=shares @ slopes,
        second_order=float((curvature * floored * floored[:, None]).square().sum()),
        extrapolated=found.extrapolated,
        stopping_doubt=doubt * (estimate - plug_in),
        repeated=int((eigenvalues < floored).sum()) if n <= metric.width else 0,
    )


def _by_halves(metric: VendiScore, statistic: KernelStatistic) -> EntropyInfluence:
    order, truncation = metric.order, metric.truncation
    eigenvalues, shares = _eigen(statistic)
    plug_in = log_vendi(eigenvalues, order, truncation)
    if eigenvalues[0] >= 1.0 - COLLAPSED:
        return _collapsed(plug_in, statistic)
    halves = [log_vendi(half, order, truncation) for half in metric.half_spectra(statistic)]
    correction = plug_in - 0.5 * sum(halves)
    spectrum = truncated(eigenvalues, truncation)
    slopes = _slopes(spectrum.clamp_min(FLOOR * float(spectrum[0])), order)
    influence = shares[:, : len(spectrum)] @ (slopes - slopes.mean())
    return EntropyInfluence(
        plug_in=plug_in,
        estimate=_inside(metric, plug_in + correction),
        influence=influence,
        selection_doubt=0.5 * correction,
        stopping_doubt=0.5 * correction,
    )


def _collapsed(plug_in: float, statistic: KernelStatistic) -> EntropyInfluence:
    return EntropyInfluence(plug_in, plug_in, statistic.last_rows.new_zeros(len(statistic.last_rows)))


def _inside(metric: VendiScore, estimate: float) -> float:
    return min(max(estimate, 0.0), math.log(metric.ceiling))


def _eigen(statistic: KernelStatistic) -> tuple[Tensor, Tensor]:
    """Eigenvalues (k) of C, descending, k = min(n, width), and (u_iᵀφ)² (b, k) of the last φ."""
    rows, n = statistic.rows, statistic.samples
    last = statistic.last_rows
    if rows is None:
        eigenvalues, coordinates = (part.flip(-1) for part in eigen_coordinates(statistic.moment / n, last))
        return eigenvalues.clamp_min(0.0), coordinates.square()
    gram = symmetric_product(rows, rows.T) / n
    # uᵀφ of an eigenvector u of C and a row φ is the entry of the Gram matrix's eigenvector at that row, times √(n g).
    places = torch.eye(n, dtype=gram.dtype, device=gram.device)[n - len(last) :]
    eigenvalues, entries = (part.flip(-1) for part in eigen_coordinates(gram, places))
    eigenvalues = eigenvalues.clamp_min(0.0)
    return eigenvalues, entries.square() * (n * eigenvalues)


def _slopes(values: Tensor, order: float) -> Tensor:
    """∂ log Vendi_α / ∂λ (k) at eigenvalues (k) > 0, descending, but for a constant at α = 1."""
    if order == 1.0:
        return -values.log()
    if math.isinf(order):
        slopes = torch.zeros_like(values)
        slopes[0] = -1.0 / values[0]
        return slopes
    # Divided by the largest, so that no power underflows.
    ratio = values / values[0]
    return order / (1.0 - order) * ratio ** (order - 1.0) / (values[0] * (ratio**order).sum())


def _divided_differences(values: Tensor, slopes: Tensor, order: float) -> Tensor:
    """(f_i − f_j)/(g_i − g_j) (k, k) of finite order, the derivative f′ where two values are equal to rounding."""
    gaps = values[:, None] - values
    equal = gaps.abs() <= 1e-8 * torch.maximum(values[:, None], values)
    derivative = slopes * (order - 1.0) / values if order != 1.0 else -1.0 / values
    ratios = (slopes[:, None] - slopes) / torch.where(equal, 1.0, gaps)
    return torch.where(equal, derivative[:, None], ratios)
