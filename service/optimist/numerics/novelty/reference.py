"""The real data that novelty is measured against."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from optimist.numerics.feature_maps import FeatureMap
from optimist.numerics.rows import check_rows

BLOCK = 1024
"""Rows whose φ are computed at a time."""


class RealRows:
    """Real features (m ≥ 1, d) and, once it is asked for, the second moment of their φ.

    The rows are kept because samples may still have to fix the kernel. Raises ValueError unless they are finite and of
    sane size.
    """

    def __init__(self, rows: ArrayLike, device: torch.device | str = "cpu") -> None:
        given = torch.from_numpy(np.asarray(rows, dtype=np.float64))
        check_rows("reference", given, given.shape[-1])
        self.rows = given.to(device)
        self._made: tuple[FeatureMap, Tensor] | None = None

    @property
    def dimension(self) -> int:
        """d."""
        return self.rows.shape[1]

    @property
    def bytes(self) -> int:
        """Bytes of its tensors, including the moment if it has been made."""
        made = self._made
        return self.rows.nbytes + (0 if made is None else made[1].nbytes)

    def moment(self, feature_map: FeatureMap) -> Tensor:
        """C_Y = (1/m) Σ φφᵀ (width, width); that of the last feature map is kept."""
        made = self._made
        if made is None or not _are_equal(made[0], feature_map):
            total = torch.zeros(feature_map.width, feature_map.width, dtype=torch.float64, device=self.rows.device)
            for block in self.rows.split(BLOCK):
                features = feature_map(block)
                total.addmm_(features.T, features)
            made = self._made = feature_map, total.div_(len(self.rows))
        return made[1]


def _are_equal(one: FeatureMap, other: FeatureMap) -> bool:
    if one is other:
        return True
    mine, others = one.tensors(), other.tensors()
    return one.name == other.name and all(map(torch.equal, mine, others))
