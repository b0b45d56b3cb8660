"""The second moment of real data, against which novelty is measured."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from optimist.metrics.feature_maps import FeatureMap

BLOCK = 1024
"""Rows whose φ are computed at once."""


class RealMoment:
    """C_Y = (1/m) Σ φφᵀ over real rows (m, d), float64, m ≥ 1. Raises FixError on rows that have no φ."""

    def __init__(self, feature_map: FeatureMap, rows: NDArray[np.float64]) -> None:
        self.feature_map = feature_map
        width, device = feature_map.width, feature_map.device
        total = torch.zeros(width, width, dtype=torch.float64, device=device)
        for start in range(0, len(rows), BLOCK):
            features = feature_map(torch.from_numpy(rows[start : start + BLOCK]).to(device))
            total.addmm_(features.T, features)
        self.moment = total.div_(len(rows))
        """(width, width)"""

    @property
    def dimension(self) -> int:
        """d."""
        return self.feature_map.dimension

    @property
    def bytes(self) -> int:
        """Bytes of the moment and of the feature map's tensors."""
        return self.moment.nbytes + sum(tensor.nbytes for tensor in self.feature_map.tensors())
