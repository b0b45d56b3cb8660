"""Metrics that compare samples with the rows of real features."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from optimist.metrics.feature_maps import GaussianFourier
from optimist.metrics.implementations import Setting, make_metric, make_reference
from optimist.metrics.kid import KernelDistance, RealRows
from optimist.metrics.mmd import MeanDiscrepancy, MeanMap, RealMean
from optimist.references.real_data import RealData
from optimist_client.metrics import MMD, Metric


def real_data(rows: Tensor | NDArray[Any]) -> RealData:
    rows = np.asarray(rows)
    return RealData(rows.mean(0), np.cov(rows, rowvar=False), rows)


def score_of(declared: Metric, real: Tensor | NDArray[Any], device: torch.device | str = "cpu") -> Any:
    """The score of a declared metric, with these rows as its reference."""
    made = make_reference(declared, real_data(real), device)
    return make_metric(declared.model_copy(update={"reference": made}), Setting({"features": real.shape[1]}, device))


def kid_of(real: Tensor, block: int = 2000) -> KernelDistance:
    return KernelDistance(RealRows(real.numpy(), "cpu", block), block)


def mmd_of(real: Tensor, factor: float = 1.0, frequencies: int = 4) -> MeanDiscrepancy:
    """By so few features that a statistic soon drops its rows."""
    omegas = np.random.default_rng(3).standard_normal((real.shape[1], frequencies)) / 2.0
    return MeanDiscrepancy(MMD(factor=factor), RealMean(MeanMap(GaussianFourier(omegas), False), real.numpy()))
