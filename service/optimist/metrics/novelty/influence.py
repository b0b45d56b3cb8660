"""The de-biased KEN and its error (decisions.md §2, KEN)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from optimist.metrics.novelty.spectrum import Novel
from optimist.metrics.score import Analysis
from optimist.metrics.vendi.statistic import KernelStatistic
from optimist_client.errors import FixError


@dataclass(frozen=True, kw_only=True)
class NoveltyAnalysis(Analysis):
    """The numbers of one analysis. Both errors are one."""

    sampling_error: float
    """The part of the error that the influence function gives."""


def analyse_novelty(statistic: KernelStatistic, known: Tensor, common: Tensor | None = None) -> NoveltyAnalysis:
    """The analysis of n ≥ 2 samples against `known`, η C_Y (width, width).

    The estimate is 2 KEN − ½ (KEN of each half of the stream), and a sample's influence 2 q − q of its own half, where
    q = φᵀGφ with the gradient G. Each half's gradient also predicts KEN from the samples of the other half, which is
    too low on average where KEN of the samples is too high: the two make the bracket. common: φ (m, width) whose
    influence is wanted. Raises FixError on fewer samples.
    """
    n = statistic.samples
    if n < 2:
        raise FixError("the influence of 1 sample is not defined")
    whole = Novel.of(statistic.moment / n - known)
    counts = ((n + 1) // 2, n // 2)
    differences = [statistic.half_moment(parity) / count - known for parity, count in enumerate(counts)]
    halves = [Novel.of(difference) for difference in differences]
    plug_in = whole.score
    estimate = 2.0 * plug_in - 0.5 * sum(half.score for half in halves)
    predicted = 0.5 * (halves[0].linear(differences[1]) + halves[1].linear(differences[0]))
    width = max(plug_in - predicted, 0.0)
    # Measured: what is left of the bias is below the square of the bracket's width, relative to the score.
    systematic = width * min(0.5 * width / plug_in, 1.0) if plug_in > 0.0 else 0.0
    last = statistic.last_rows
    parity = torch.arange(n - len(last), n, device=last.device) % 2
    own = torch.where(parity == 0, halves[0].along(last), halves[1].along(last))
    recent = whole.along(last)
    variance = float((2.0 * recent - own).var()) / n
    error = math.hypot(math.sqrt(variance), systematic)
    biased = (
        f"few samples for what they show: of {n} samples KEN is too high by an unknown part of {width:.2g}, which is "
        "removed by an estimate"
    )
    return NoveltyAnalysis(
        plug_in=plug_in,
        estimate=estimate,
        sampling_error=math.sqrt(variance),
        selection_error=error,
        stopping_error=error,
        bracket=(max(min(predicted, estimate), 0.0), max(plug_in, estimate)),
        systematic_selection=systematic,
        systematic_stopping=systematic,
        influence=None if common is None else whole.along(common),
        recent=None if common is None else recent,
        warnings=(biased,) if systematic**2 > variance else (),
    )
