"""Makes the score of the declared metric KEN."""

from __future__ import annotations

import numpy as np
import torch

from optimist.metrics.implementations import Setting
from optimist.metrics.novelty.reference import RealMoment
from optimist.metrics.novelty.score import NoveltyScore
from optimist.metrics.vendi.maps import LARGEST_FIT, feature_map_of, fit_kernel
from optimist.numerics.real_data import RealData
from optimist_client.errors import FixError
from optimist_client.metrics import KEN


def make(declared: KEN, setting: Setting) -> NoveltyScore:
    """The novelty against the reference, which determines width and kernel. Raises FixError without a reference."""
    del setting
    if not isinstance(declared.reference, RealMoment):
        raise FixError(f"the metric {declared.name!r} needs a reference: real features (n, d)")
    return NoveltyScore(declared.reference, declared.eta)


def reference(declared: KEN, data: RealData, device: torch.device | str) -> RealMoment:
    """The second moment of the real rows' φ. Raises FixError without rows, and on rows that have no φ."""
    rows = data.rows_for(declared.name)
    # Some rows of all, as real data may be in the order of their classes.
    some = np.random.default_rng(0).permutation(len(rows))[: max(LARGEST_FIT, declared.kernel.features)]
    settings = fit_kernel(declared.kernel, torch.from_numpy(rows[some]))
    return RealMoment(feature_map_of(settings, rows.shape[1], device), rows)
