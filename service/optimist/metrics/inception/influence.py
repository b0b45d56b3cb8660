"""The de-biased Inception score and its error, in logarithms (decisions.md §2, IS)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from optimist.metrics.inception.statistic import FOLDS, ClassStatistic, entropy
from optimist.metrics.score import Analysis, linear_share

SECOND_ORDER_ROWS = 256
"""Number of last rows from which the second-order variance is computed."""
SMALLEST_PROBABILITY = 1e-12
"""Floor of p̄ in logarithms and quotients."""


@dataclass(frozen=True, kw_only=True)
class InceptionAnalysis(Analysis):
    """The numbers of one analysis. `estimate` is the jackknife over ten folds; both errors are one here."""

    miller_madow: float
    """The plug-in minus the first term of its bias: another de-biased value; the difference counts as error."""
    influence_variance: float = 0.0
    second_order_variance: float = 0.0
    plain_error: float = 0.0


def analyse_inception(statistic: ClassStatistic, plug_in: float, common: Tensor | None = None) -> InceptionAnalysis:
    """The analysis of n ≥ 2 samples, whose log IS̃ is `plug_in`, with the influence of the rows `common` (m, K).

    Raises FixError on fewer.
    """
    n, variance = statistic.samples, statistic.variance
    if not bool(variance.any()):
        return InceptionAnalysis(
            plug_in=plug_in,
            estimate=plug_in,
            miller_madow=plug_in,
            selection_error=0.0,
            stopping_error=0.0,
            influence=None if common is None else common.new_zeros(len(common)),
            recent=None if common is None else common.new_zeros(len(statistic.last_rows)),
        )
    mean, rows = statistic.mean, statistic.last_rows
    floored = mean.clamp_min(SMALLEST_PROBABILITY)
    estimate = _jackknife(statistic)
    miller_madow = plug_in + float((variance / floored).sum()) / (2.0 * n)

    recent = _influence(rows, floored)
    influence_variance = float(recent.var())
    scaled = (rows[-SECOND_ORDER_ROWS:] - mean) / floored.sqrt()
    # ‖Q‖_F² is equal for both products; take the smaller one.
    product = scaled @ scaled.T if len(scaled) < statistic.classes else scaled.T @ scaled
    squares = float(product.square().sum()) / len(scaled) ** 2
    trace = float(product.trace()) / len(scaled)
    second_order = 0.5 * max(squares - trace**2 / len(scaled), 0.05 * squares)

    plain = influence_variance / n + second_order / n**2
    systematic = 3.0 * abs(estimate - miller_madow)
    error = math.hypot(math.sqrt(plain * (1.0 + 20.0 / n)), systematic)
    return InceptionAnalysis(
        plug_in=plug_in,
        estimate=estimate,
        miller_madow=miller_madow,
        influence_variance=influence_variance,
        second_order_variance=second_order,
        plain_error=math.sqrt(plain),
        selection_error=error,
        stopping_error=error,
        first_order=linear_share(influence_variance / n, plain),
        systematic_selection=systematic,
        systematic_stopping=systematic,
        systematic_sign=1 if estimate > miller_madow else -1,
        influence=None if common is None else _influence(common, floored),
        recent=None if common is None else recent,
    )


def _influence(rows: Tensor, mean: Tensor) -> Tensor:
    """−Σ p log p̄ − H(p) of rows (b, K)."""
    return -(rows @ mean.log()) - entropy(rows)


def _jackknife(statistic: ClassStatistic) -> float:
    """log IS by the delete-a-fold jackknife over the folds that have rows, n ≥ 2: at least two do."""
    counts = statistic.fold_counts
    # Sums of the other folds, because a difference from the total could fall below zero.
    others = 1.0 - torch.eye(FOLDS, dtype=counts.dtype, device=counts.device)
    without = (others @ statistic.fold_sums)[counts > 0] / (others @ counts)[counts > 0, None]
    folds = len(without)
    whole, parts = float(entropy(statistic.mean)), float(entropy(without).mean())
    return folds * whole - (folds - 1) * parts - statistic.entropy_mean
