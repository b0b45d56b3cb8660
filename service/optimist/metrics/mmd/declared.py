"""Makes the scores of the declared metrics MMD and CMMD."""

from __future__ import annotations

import torch

from optimist.metrics.implementations import Setting
from optimist.metrics.mmd.maps import mean_map
from optimist.metrics.mmd.reference import RealMean
from optimist.metrics.mmd.score import EmbeddingDiscrepancy, MeanDiscrepancy
from optimist.numerics.real_data import RealData
from optimist_client.errors import FixError
from optimist_client.metrics import CMMD, MMD


def make(declared: MMD, setting: Setting) -> MeanDiscrepancy:
    """The distance to the metric's reference, which determines the width. Raises FixError without a reference."""
    if not isinstance(declared.reference, RealMean):
        raise FixError(f"the metric {declared.name!r} needs a reference: real features (n, d)")
    kind = EmbeddingDiscrepancy if isinstance(declared, CMMD) else MeanDiscrepancy
    return kind(declared, declared.reference)


def reference(declared: MMD, data: RealData, device: torch.device | str) -> RealMean:
    """The mean of the real rows' features. Raises FixError without rows, and on rows that have no features."""
    rows = data.rows_for(declared.name)
    return RealMean(mean_map(declared.kernel, declared.normalise, rows, device), rows)
