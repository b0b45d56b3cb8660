"""What KID makes of real data."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from optimist.numerics.skewness import skewness
from optimist_client.errors import FixError
from optimist_client.references import some_places

LARGEST = 1e20
"""Largest entry of a row: squares of the kernel then fit a float64."""
PIECE = 4096
"""Real rows whose kernels with other rows are computed at once."""


def cubic(rows: Tensor, others: Tensor) -> Tensor:
    """The kernel (xᵀy/d + 1)³ (n, m) of rows (n, d) and (m, d)."""
    found = (rows @ others.T).div_(rows.shape[1]).add_(1.0)
    return found.square() * found


class RealRows:
    """Real rows (m, d), float64, m ≥ 2, and their mean kernel. Raises FixError on fewer rows, or on huge entries.

    `similarity` is the mean kernel over different rows, unbiased. Like the mean over samples, it is taken within blocks
    of `block` consecutive rows, in an order that `seed` 0 draws: its cost is linear in m.
    """

    def __init__(self, rows: NDArray[np.float64], device: torch.device | str, block: int) -> None:
        if len(rows) < 2:
            raise FixError("reference: expected at least 2 rows of real features, got 1")
        self.rows = torch.from_numpy(rows).to(device, torch.float64)
        check_size("reference", self.rows)
        order = torch.from_numpy(np.random.default_rng(0).permutation(len(rows)))
        total, pairs = 0.0, 0
        means: list[Tensor] = []
        for chosen in order.split(block):
            part = self.rows[chosen.to(self.rows.device)]
            by_row = cubic(part, part).fill_diagonal_(0.0).sum(1)
            total += float(by_row.sum())
            pairs += len(part) * (len(part) - 1)
            if len(part) == min(block, len(rows)):
                means.append(by_row / (len(part) - 1))
        self.similarity = total / pairs
        self.skewness = float(skewness(torch.cat(means).cpu().numpy()))
        """Of the mean kernel of a real row with others: as large as that of rows which are rare among the samples."""
        self.some = self.rows[torch.from_numpy(some_places(len(rows))).to(self.rows.device)]
        """A random choice of the rows (k, d)."""

    @property
    def dimension(self) -> int:
        """d."""
        return self.rows.shape[1]

    @property
    def bytes(self) -> int:
        """Bytes of its tensors."""
        return self.rows.nbytes + self.some.nbytes

    @property
    def device(self) -> torch.device:
        """Where the rows are."""
        return self.rows.device

    def witness(self, rows: Tensor) -> Tensor:
        """The mean kernel (b,) of rows (b, d) with the real ones."""
        return torch.stack([cubic(rows, some).sum(1) for some in self.rows.split(PIECE)]).sum(0) / len(self.rows)


def check_size(name: str, rows: Tensor) -> None:
    """Raise FixError if an entry is so large that squares of the kernel would overflow."""
    low, high = (float(end) for end in torch.aminmax(rows))
    if not -LARGEST <= low <= high <= LARGEST:
        raise FixError(f"{name}: the cubic kernel takes entries of at most {LARGEST:g} in size: scale them")
