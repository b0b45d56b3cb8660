"""Makes the score of the declared metric KID."""

from __future__ import annotations

import torch

from optimist.metrics.implementations import Setting
from optimist.metrics.kid.reference import RealRows
from optimist.metrics.kid.score import KernelDistance
from optimist.metrics.kid.statistic import BLOCK
from optimist.numerics.real_data import RealData
from optimist_client.errors import FixError
from optimist_client.metrics import KID


def make(declared: KID, setting: Setting) -> KernelDistance:
    """The distance to the metric's reference, which determines the width. Raises FixError without a reference."""
    del setting
    if not isinstance(declared.reference, RealRows):
        raise FixError(f"the metric {declared.name!r} needs a reference: real features (n, d)")
    return KernelDistance(declared.reference)


def reference(declared: KID, data: RealData, device: torch.device | str) -> RealRows:
    """The real rows and their mean kernel. Raises FixError without rows, and on huge ones."""
    return RealRows(data.rows_for(declared.name), device, BLOCK)
