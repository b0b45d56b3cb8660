"""The score of samples that are drawn from a pool with replacement."""

from __future__ import annotations

from typing import Any

import torch

from optimist.metrics.base import Score
from optimist.metrics.kid import KernelDistance, cubic
from optimist.metrics.mmd import MeanDiscrepancy

PIECE = 500
"""Rows whose kernels with others are computed at once."""


def truth(score: Score, *pool: torch.Tensor) -> float:
    """The score, on the estimates' scale, where the pool (rows, …) of each array is the whole population.

    A row may meet itself, so that published formulas are exact where they count all pairs of a row with itself.
    """
    if isinstance(score, KernelDistance):
        return _kernel_distance(score, *pool)
    statistic: Any = score.statistic()
    statistic.update(*pool)
    found = score.plug_in(statistic)
    return found - score.factor * score.real.excess if isinstance(score, MeanDiscrepancy) else found


def _kernel_distance(score: KernelDistance, rows: torch.Tensor) -> float:
    own = sum(float(cubic(part, rows).sum()) for part in rows.split(PIECE)) / len(rows) ** 2
    return own - 2.0 * float(score.real.witness(rows).mean()) + score.real.similarity
