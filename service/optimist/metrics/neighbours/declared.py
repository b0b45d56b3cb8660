"""Makes the scores of the declared metrics Precision, Density and Coverage."""

from __future__ import annotations

import torch

from optimist.metrics.implementations import Setting
from optimist.metrics.neighbours.balls import Balls
from optimist.metrics.neighbours.score import CoverageScore, DensityScore, NeighbourScore, PrecisionScore
from optimist.numerics.real_data import RealData
from optimist_client.errors import FixError
from optimist_client.metrics import Coverage, Density, Precision


def make(declared: Precision | Density | Coverage, setting: Setting) -> NeighbourScore:
    """The score in the reference's balls, which determine the width. Raises FixError without a reference."""
    del setting
    if not isinstance(declared.reference, Balls):
        raise FixError(f"the metric {declared.name!r} needs a reference: real features (n, d)")
    if isinstance(declared, Coverage):
        return CoverageScore(declared.reference, declared.at)
    return (PrecisionScore if isinstance(declared, Precision) else DensityScore)(declared.reference)


def reference(declared: Precision | Density | Coverage, data: RealData, device: torch.device | str) -> Balls:
    """The balls around the real rows. Raises FixError where the rows were not kept, or are too few."""
    return Balls(data.rows_for(declared.name), declared.neighbours, device)
