"""What an MMD makes of real data."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from optimist.metrics.mmd.maps import MeanMap
from optimist_client.errors import FixError
from optimist_client.references import some_places

BLOCK = 1024
"""Rows whose φ are computed at once."""


class RealMean:
    """The mean of φ over real rows (m, d), float64, m ≥ 2. Raises FixError on fewer, or on rows without a φ."""

    def __init__(self, feature_map: MeanMap, rows: NDArray[np.float64]) -> None:
        if len(rows) < 2:
            raise FixError("reference: expected at least 2 rows of real features, got 1")
        self.feature_map = feature_map
        self.samples = len(rows)
        total = torch.zeros(feature_map.width - 1, dtype=torch.float64, device=feature_map.device)
        for start in range(0, len(rows), BLOCK):
            block = torch.from_numpy(rows[start : start + BLOCK]).to(feature_map.device)
            total += feature_map.plain(block).sum(0)
        self.mean: Tensor = total / len(rows)
        """(width of φ,)"""
        self.some: Tensor = feature_map.plain(torch.from_numpy(rows[some_places(len(rows))]).to(feature_map.device))
        """φ of a random choice of the rows (k, width of φ)."""

    @property
    def dimension(self) -> int:
        """d."""
        return self.feature_map.dimension

    @property
    def bytes(self) -> int:
        """Bytes of its tensors and of the feature map's."""
        return self.mean.nbytes + self.some.nbytes + sum(tensor.nbytes for tensor in self.feature_map.tensors())

    @cached_property
    def excess(self) -> float:
        """How much the mean kernel over all pairs of real rows exceeds that over different ones, which is unbiased."""
        square, m = float(self.mean @ self.mean), self.samples
        return (1.0 - square) / (m - 1)
