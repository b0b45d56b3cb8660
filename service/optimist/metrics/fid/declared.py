"""Makes the score of the declared metric FID."""

from __future__ import annotations

import torch

from optimist.metrics.fid.bounds import FrechetAuthorsBound, FrechetNaiveBound, FrechetTheoremBound
from optimist.metrics.fid.reference import Reference
from optimist.metrics.fid.score import FrechetDistance
from optimist.metrics.implementations import Setting
from optimist.numerics.real_data import RealData
from optimist_client.errors import FixError
from optimist_client.metrics import FID

BOUNDS = {"theorem": FrechetTheoremBound, "authors": FrechetAuthorsBound, "naive": FrechetNaiveBound}


def make(declared: FID, setting: Setting) -> FrechetDistance:
    """The distance to the metric's reference, which determines the width. Raises FixError without a reference."""
    if not isinstance(declared.reference, Reference):
        raise FixError(f"the metric {declared.name!r} needs a reference: real features, or their mean and covariance")
    return FrechetDistance(declared.reference)


def reference(declared: FID, data: RealData, device: torch.device | str) -> Reference:
    """The moments with their eigenbasis. Raises FixError, as `Reference` does."""
    del declared
    return Reference(data.mean, data.covariance, device, samples=data.samples, some_rows=data.some_rows)
