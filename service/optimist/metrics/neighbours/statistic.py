"""The statistics of samples in balls around real samples: integers, so that neither order nor batches matter."""

from __future__ import annotations

import torch
from torch import Tensor

from optimist.metrics.neighbours.balls import Balls
from optimist.metrics.rows import LastRows, check_rows
from optimist.metrics.statistic import Statistic
from optimist_client.errors import FixError

LAST = 256
"""Number of last samples whose balls are kept."""


class HitStatistic(Statistic):
    """Σ s and Σ s² of s, the number of balls that a sample is inside, counted up to `most`."""

    def __init__(self, balls: Balls, most: int) -> None:
        self.balls = balls
        self.most = most
        self.samples = 0
        self.sums = torch.zeros(2, dtype=torch.int64)

    def scores(self, rows: Tensor) -> Tensor:
        """s of rows (b, d): (b,), int64."""
        return self.balls.hits(rows).clamp_max(self.most)

    def update(self, batch: Tensor) -> None:
        """Add a batch (b, d) of any real dtype, b ≥ 1. Raises FixError, changing nothing, on other tensors."""
        check_rows("features", batch, self.balls.dimension)
        scores = self.scores(batch)
        self.sums = self.sums + torch.stack([scores.sum(), scores.square().sum()]).cpu()
        self.samples += len(batch)

    def state(self) -> dict[str, Tensor]:
        """`layout` and `sums`, int64."""
        layout = [self.samples, self.balls.count, self.balls.neighbours, self.most]
        return {"layout": torch.tensor(layout, dtype=torch.int64), "sums": self.sums}

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor], balls: Balls) -> HitStatistic:
        """A copy of the statistic whose `state` this is. Raises KeyError on missing tensors, FixError on others."""
        samples, most = _read_layout(tensors["layout"], balls)
        statistic = cls(balls, most)
        statistic.samples, statistic.sums = samples, tensors["sums"].clone()
        return statistic


class CoverageStatistic(Statistic):
    """How many samples are inside each ball, c (m,), and which balls the last 256 samples are inside.

    It takes 8 bytes a ball, and 32 more for the last samples.
    """

    def __init__(self, balls: Balls) -> None:
        self.balls = balls
        self.samples = 0
        self.counts = torch.zeros(balls.count, dtype=torch.int64, device=balls.device)
        self._last = LastRows(pack(torch.zeros(0, balls.count, dtype=torch.bool, device=balls.device)), LAST)

    @property
    def last(self) -> Tensor:
        """Which balls the min(samples, 256) last samples are inside (·, m), bool, in log order."""
        return unpack(self._last.copy(), self.balls.count)

    def update(self, batch: Tensor) -> None:
        """Add a batch (b, d) of any real dtype, b ≥ 1. Raises FixError, changing nothing, on other tensors."""
        check_rows("features", batch, self.balls.dimension)
        counts = self.counts.clone()
        for inside in self.balls.inside(batch):
            counts += inside.sum(0)
            self._last.append(pack(inside[-LAST:]))
        self.counts = counts
        self.samples += len(batch)

    def state(self) -> dict[str, Tensor]:
        """`layout` and `counts`, int64, and `last`, 8 balls a byte."""
        layout = [self.samples, self.balls.count, self.balls.neighbours, LAST]
        return {
            "layout": torch.tensor(layout, dtype=torch.int64),
            "counts": self.counts,
            "last": self._last.copy(),
        }

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor], balls: Balls) -> CoverageStatistic:
        """A copy of the statistic whose `state` this is. Raises KeyError on missing tensors, FixError on others."""
        samples, _ = _read_layout(tensors["layout"], balls)
        statistic = cls(balls)
        statistic.samples = samples
        statistic.counts = tensors["counts"].to(balls.device, copy=True)
        statistic._last = LastRows(tensors["last"].to(balls.device, copy=True), LAST)
        return statistic


def pack(inside: Tensor) -> Tensor:
    """Bool (b, m) as bits, uint8 (b, ⌈m/8⌉)."""
    padded = torch.nn.functional.pad(inside.to(torch.uint8), (0, -inside.shape[1] % 8))
    bits = padded.view(len(inside), padded.shape[1] // 8, 8) << _places(inside.device)
    return bits.sum(-1, dtype=torch.uint8)


def unpack(packed: Tensor, count: int) -> Tensor:
    """The inverse of `pack`, m = `count`."""
    bits = (packed[:, :, None] >> _places(packed.device)) & 1
    return bits.flatten(1)[:, :count].bool()


def _places(device: torch.device) -> Tensor:
    return torch.arange(8, dtype=torch.uint8, device=device)


def _read_layout(layout: Tensor, balls: Balls) -> tuple[int, int]:
    samples, count, neighbours, last = layout.tolist()
    if (count, neighbours) != (balls.count, balls.neighbours):
        raise FixError(
            f"the statistic is of {count} balls of {neighbours} neighbours, not {balls.count} of {balls.neighbours}"
        )
    return samples, last
