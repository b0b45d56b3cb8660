"""Moments of every second sample of a log, by which its halves are told apart once the rows are gone."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from optimist.metrics.symmetric import SymmetricSum
from optimist_client.errors import FixError


@dataclass(frozen=True, eq=False)
class Moments:
    """Count, mean (d,) and scatter Σ (x − μ)(x − μ)ᵀ (d, d) of some rows."""

    count: int
    mean: Tensor
    scatter: Tensor

    def without(self, part: Moments) -> Moments:
        """The moments of the other rows, where `part` is of some of these. Raises FixError if no row is left."""
        count = self.count - part.count
        if count < 1:
            raise FixError("a half needs at least 1 sample")
        shift = part.mean - self.mean
        mean = self.mean - shift * (part.count / count)
        between = shift * math.sqrt(part.count * self.count / count)
        return Moments(count, mean, self.scatter - part.scatter - torch.outer(between, between))


class EvenHalf:
    """Mean and scatter of the rows in even places, one batch at a time; the scatter is kept as a triangle."""

    def __init__(self, dimension: int, device: torch.device | str = "cpu") -> None:
        self.count = 0
        self.mean = torch.zeros(dimension, dtype=torch.float64, device=device)
        self.scatter = SymmetricSum(dimension, device)

    @classmethod
    def from_state(cls, count: int, mean: Tensor, packed: Tensor) -> EvenHalf:
        """The half with these moments; `packed` as `SymmetricSum.packed`."""
        half = cls(len(mean), mean.device)
        half.count, half.mean, half.scatter = count, mean, SymmetricSum(len(mean), mean.device, packed)
        return half

    def add(self, rows: Tensor) -> None:
        """Add rows (b, d) of even places, by Chan's formula; no rows change nothing."""
        if not len(rows):
            return
        offset = rows - rows[0]
        shift = offset.mean(0)
        mean = rows[0] + shift
        total = self.count + len(rows)
        apart = mean - self.mean
        between = math.sqrt(self.count * len(rows) / total) * apart
        self.scatter.add(torch.cat([offset - shift, between[None]]))
        self.mean = self.mean + apart * (len(rows) / total)
        self.count = total

    def moments(self) -> Moments:
        """The moments so far, with a scatter newly made."""
        return Moments(self.count, self.mean, self.scatter.dense())
