"""De-biased kernel scores and their errors, all in log (rules/estimates.md).

There is one recipe for each range of orders. C has eigenvalues g_1 … g_k with eigenvectors u_i, H is the log score.

- **Order 2** (RKE): ‖C‖_F² without its diagonal terms is unbiased for tr C²; for a list of prompts see `listed`.
- **Orders 0 < α < 2**: `LeaveOneOut`, with its bracket. The sampling variance is the larger one by two influence
  functions: of the plug-in, φᵀ f(C) φ with f the derivative of H in each eigenvalue, and of the cross entropy, which
  sees each sample from outside. At n = 20 the first alone would be 3.7 times too small. The common φ have the second
  one.
- **Orders α > 2, α = ∞, and every truncated score**: H is smooth enough that its bias is B/n + o(1/n), which the halves
  A and B of the stream show twice over: 2 H(A + B) − ½ (H(A) + H(B)). IF = Σ_{i≤t} (f_i − mean f)(u_iᵀφ)², f taken on
  the truncated spectrum, whose common shift is what subtracts the mean; for α = ∞, f is −1/λ_max at the largest alone.
  ½ |correction| is added to the error, for the bias that halving does not show.

Estimates lie in 0 … log ceiling, as every score does; RKE's alone is as rules/estimates.md has it, at most 6 log 10.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from optimist.metrics.base import Analysis, linear_share
from optimist.metrics.feature_maps import ExactKernel, FeatureMap, GaussianFourier
from optimist.metrics.spectra.cross_entropy import LeaveOneOut
from optimist.metrics.vendi.listed import ListedPrompts
from optimist.metrics.vendi.spectrum import (
    floored_at,
    log_vendi,
    second_order,
    shares_of,
    slopes,
    truncated,
    weights_of,
)
from optimist.metrics.vendi.statistic import KernelStatistic

if TYPE_CHECKING:
    from optimist.metrics.vendi.score import VendiScore


@dataclass(frozen=True)
class EntropyInfluence:
    """The result of a recipe for one entropy, before errors are computed; sums of entropies combine these."""

    plug_in: float
    estimate: float
    influence: Tensor
    """IF of each of the statistic's last φ (b), in log order, up to a constant; of several (m, b) the one that varies
    most counts."""
    inflation: float = 1.0
    """κ, by which the variance is larger with few samples."""
    second_order: float = 0.0
    """Variance of the second-order term, times n²."""
    pairs: Tensor | None = None
    """The second-order terms that it was taken from, one for each ordered pair of the last φ, at order 2."""
    doubt: float = 0.0
    """The uncertain part of the correction, with the correction's sign."""
    systematic: float = 0.0
    """For sd_stop, an error that is independent of the errors of other entropies."""
    systematic_sign: int = 0
    """`Analysis.systematic_sign` of it."""
    bracket: tuple[float, float] | None = None
    """Between which the population's entropy lies on average; None if unknown."""
    common: Sequence[Tensor] = ()
    """IF of the common φ (m,), where these were given."""


def with_errors(
    entropy: EntropyInfluence,
    n: int,
    warnings: tuple[str, ...] = (),
    listed: ListedPrompts | None = None,
    prompts: Tensor | None = None,
) -> Analysis:
    """The errors of a recipe's result for n ≥ 2 samples: independent errors add in squares.

    listed: the prompts of the samples, if they are a fixed list; prompts: of the common rows (m,), if known.
    """
    influence, recent = entropy.common[0] if entropy.common else None, None
    if listed is None:
        recent = torch.atleast_2d(entropy.influence)[-1]  # the common φ have the last one of several influences, too
        first_order = max(float(each.var()) for each in torch.atleast_2d(entropy.influence)) / n
    else:
        first_order = listed.variance(entropy.influence, n)
        if influence is not None:
            influence = listed.weighed(influence, prompts, len(entropy.influence))
    variance = first_order + entropy.second_order / n**2
    inflated = variance * entropy.inflation
    return Analysis(
        plug_in=entropy.plug_in,
        estimate=entropy.estimate,
        # Without the factor κ for few samples.
        details={"plain_error": math.sqrt(variance)},
        selection_error=math.sqrt(inflated + entropy.doubt**2),
        stopping_error=math.sqrt(inflated + entropy.doubt**2 + entropy.systematic**2),
        bracket=entropy.bracket,
        first_order=linear_share(first_order, variance),
        systematic_selection=abs(entropy.doubt),
        systematic_stopping=math.sqrt(entropy.doubt**2 + entropy.systematic**2),
        systematic_sign=entropy.systematic_sign,
        influence=influence,
        recent=recent,
        skewness=0.0 if listed is None else None,
        warnings=warnings,
    )


FULL = 0.25
"""The share of the r random features from which on a score is too low by much: one of order 2 by 12 %, as by features
1/RKE is larger by about 1/(2r); one of order 1 by a third and more."""


def kernel_warnings(order: float, n: int, feature_map: FeatureMap, entropy: float) -> tuple[str, ...]:
    """The warnings of a log score from n samples: of order < 2 where n < width and it extrapolates, and of random
    features. entropy: the log score that these have to hold."""
    if isinstance(feature_map, ExactKernel):
        return ()
    few = (f"fewer samples than features: {n} samples for {feature_map.width}; the rest is extrapolated",)
    said = few if order < 2.0 and n < feature_map.width else ()
    if not isinstance(feature_map, GaussianFourier):
        return said
    r = feature_map.width // 2
    if math.exp(entropy) > FULL * r:
        much = f"above a quarter of the {r} random features; by the kernel itself the score is higher by much"
        return (*said, f"{much}: take more (`optimist bandwidth` says how many), or features='exact' in memory")
    return said if order >= 2.0 else (*said, f"by {r} random features; by the kernel itself the score is higher")


def entropy_influence(metric: VendiScore, statistic: KernelStatistic, *common: Tensor) -> EntropyInfluence:
    """The recipe of the metric's order, from n ≥ 2 samples, with the influence of the rows `common` (m, d) if given.

    Raises FixError as `VendiScore.analyse` does.
    """
    metric.check(statistic, min_samples=2)
    features = [metric.common_features(statistic, rows) for rows in common]
    if metric.order == 2.0 and metric.truncation is None:
        return _by_pairs(metric, statistic, *features)
    if metric.needs_halves:
        return _by_halves(metric, statistic, *features)
    return _by_leave_one_out(metric, statistic, *features)


def pair_variance(pairs: Tensor) -> float:
    """`EntropyInfluence.second_order` of `pairs`."""
    return 2.0 * float(pairs.var())


def _by_pairs(metric: VendiScore, statistic: KernelStatistic, *common: Tensor) -> EntropyInfluence:
    n, rows, plug_in = statistic.samples, statistic.rows, metric.plug_in(statistic)
    square = math.exp(-plug_in)
    mean_square = (n * n * square - n) / (n * (n - 1))
    if statistic.listed is not None:
        mean_square = statistic.listed.mean_square(n * n * square - n, n, rows)
    mean_square = max(mean_square, 1e-6)
    if has_collapsed(square):
        return _collapsed(plug_in, statistic, *common)

    buffer, kept = statistic.last_rows, metric.matrix(statistic)
    newest = slice(-256, None)  # the φ whose pairs give the second-order variance
    if rows is None:
        quadratic = [(statistic.times(each) * each).sum(-1) for each in (buffer, *common)]
        products = statistic.products(buffer[newest], buffer[newest])
    else:
        matrix = kept.of(statistic.feature_map, rows)
        indices = [kept.indices(statistic, rows, each) for each in common]
        quadratic = [matrix[each].square().sum(-1) for each in (slice(n - len(buffer), None), *indices)]
        products = matrix[newest, newest]
    influence, *of_common = (-2.0 / mean_square * (each - 1.0) / (n - 1) for each in quadratic)
    if n == 2:
        # There is only one pair, so the spread is unknown: take the largest that k² in [0, 1] with this mean can have.
        spread = math.sqrt(2.0 * (1.0 - mean_square) / mean_square)
        influence = torch.tensor([spread, -spread], dtype=torch.float64, device=buffer.device)
    squares = products.square()
    apart = ~torch.eye(len(squares), dtype=torch.bool, device=squares.device)
    pairs = squares[apart] / -mean_square
    return EntropyInfluence(
        plug_in=plug_in,
        estimate=-math.log(mean_square),
        influence=influence,
        inflation=few_rows_inflation(n),
        second_order=pair_variance(pairs),
        pairs=pairs,
        common=of_common,
    )


def _by_leave_one_out(metric: VendiScore, statistic: KernelStatistic, *common: Tensor) -> EntropyInfluence:
    n, order = statistic.samples, metric.order
    eigenvalues, weights, *of_common = weights_of(statistic, metric.matrix(statistic), *common)
    plug_in = log_vendi(eigenvalues, order)
    if has_collapsed(eigenvalues[0]):
        return replace(_collapsed(plug_in, statistic, *common), bracket=(plug_in, plug_in))
    floored = floored_at(eigenvalues)
    outside = LeaveOneOut(floored, weights, n, metric.width)
    entropy = outside.entropy(order)
    derivative = slopes(floored, order)
    cross_entropy = min(entropy.plug_in + entropy.gap, metric.log_ceiling)
    return EntropyInfluence(
        plug_in=plug_in,
        estimate=entropy.estimate,
        influence=torch.stack([n * (weights * floored) @ derivative, entropy.influence]),
        inflation=1.0 + 400.0 / n**2,
        second_order=second_order(floored, derivative, order),
        systematic=entropy.systematic,
        # More or less of the same correction: of generators alike it is off in the same direction. Orders below 1 are
        # not calibrated well enough for that.
        systematic_sign=1 if order >= 1.0 else 0,
        bracket=(plug_in, max(cross_entropy, entropy.estimate)),
        common=[outside.influence(order, entropy.estimate, each) for each in of_common],
    )


def _by_halves(metric: VendiScore, statistic: KernelStatistic, *common: Tensor) -> EntropyInfluence:
    order, truncation = metric.order, metric.truncation
    eigenvalues, *shares = shares_of(statistic, metric.matrix(statistic), *common)
    plug_in = log_vendi(eigenvalues, order, truncation)
    if has_collapsed(eigenvalues[0]):
        return _collapsed(plug_in, statistic, *common)
    halves = [log_vendi(half, order, truncation) for half in metric.half_spectra(statistic)]
    correction = plug_in - 0.5 * sum(halves)
    spectrum = truncated(eigenvalues, truncation)
    derivative = slopes(floored_at(spectrum), order)
    influence, *of_common = (each[:, : len(spectrum)] @ (derivative - derivative.mean()) for each in shares)
    return EntropyInfluence(
        plug_in=plug_in,
        estimate=_inside(metric, plug_in + correction),
        influence=influence,
        inflation=few_rows_inflation(statistic.samples),
        doubt=0.5 * correction,
        common=of_common,
    )


def few_rows_inflation(n: float) -> float:
    """κ = 1 + 20/n of all recipes but `_by_leave_one_out`."""
    return 1.0 + 20.0 / n


def has_collapsed(largest: Tensor | float) -> bool:
    """True if samples count as identical, without error, by the largest eigenvalue of C, or by ‖C‖_F²."""
    return bool(largest >= 1.0 - 1e-12)


def _collapsed(plug_in: float, statistic: KernelStatistic, *common: Tensor) -> EntropyInfluence:
    """The result of every recipe for identical samples: the plug-in, without error."""
    none, *of_common = (each.new_zeros(len(each)) for each in (statistic.last_rows, *common))
    return EntropyInfluence(plug_in, plug_in, none, common=of_common)


def _inside(metric: VendiScore, estimate: float) -> float:
    """The estimate within what the score can be."""
    return min(max(estimate, 0.0), metric.log_ceiling)
