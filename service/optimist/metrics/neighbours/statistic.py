"""Balls around real samples, and the statistics of the samples in them (equations.md §7)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from optimist.metrics.base import Statistic
from optimist.metrics.rows import LastRows, check_rows
from optimist.numerics.real_data import Reference
from optimist_client.errors import FixError

ENTRIES = 2**21
"""Distances that are held at a time, 16 MiB a matrix."""
_PAIRS = 2**20
"""Numbers of the pairs whose distances are computed again at a time."""


class Balls(Reference):
    """A ball for each row of real features (m, d), to its k-th nearest other row, k = `neighbours`, without its
    surface.

    Distances are computed by matrix products of centred rows, in blocks. Where a product cannot tell whether a row is
    inside, its distance is computed again from differences. So the answer does not depend on blocks, batches or BLAS,
    and a copy of a real row is never inside a ball whose radius is the distance to that row.

    Raises FixError unless there are more than k rows, finite and of sane size.
    """

    def __init__(self, rows: ArrayLike, neighbours: int, device: torch.device | str = "cpu") -> None:
        given = np.ascontiguousarray(rows, dtype=np.float64)
        if given.ndim != 2 or len(given) <= neighbours:
            raise FixError(
                f"reference: expected more rows than the {neighbours} neighbours of each, got shape {given.shape}"
            )
        check_rows("reference", torch.from_numpy(given), given.shape[1])
        self.dimension, self.neighbours = given.shape[1], neighbours
        self.count, self.device = len(given), torch.device(device)
        """The number m of balls, and where they are."""
        self.digest = torch.tensor(list(hashlib.sha256(given.data).digest()), dtype=torch.uint8)
        """SHA-256 (32,) of the rows as they were given."""
        self.layout = (len(given), neighbours, *self.digest.tolist())
        """The layout of statistics of these balls."""
        self._centre = torch.from_numpy(given.mean(axis=0)).to(device)
        self._rows = torch.from_numpy(given).to(device) - self._centre
        self._squares = self._rows.square().sum(1)
        self.radii = torch.cat([self._radii(start, block) for start, block in self._blocks(self._rows)])
        """(m,)"""

    def inside(self, rows: Tensor) -> Iterator[Tensor]:
        """Which balls each row (b, d) is inside, some rows at a time: (≤ b, m), bool."""
        for _, block in self._blocks(rows.to(self.device, torch.float64) - self._centre):
            squares, doubt = self._square_distances(block)
            limits = self.radii.square()
            found = squares < limits
            near = ((squares - limits).abs() <= doubt).nonzero()
            found[near[:, 0], near[:, 1]] = self._exact(block, near) < self.radii[near[:, 1]]
            yield found

    def hits(self, rows: Tensor) -> Tensor:
        """The number of balls (b,), int64, that each row (b, d) is inside."""
        return torch.cat([found.sum(1) for found in self.inside(rows)])

    def _blocks(self, rows: Tensor) -> Iterator[tuple[int, Tensor]]:
        """Some rows (b, d) at a time, with the place of the first."""
        size = max(1, ENTRIES // self.count)
        return zip(range(0, len(rows), size), rows.split(size), strict=True)

    def _square_distances(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Squared distances (b, m) of centred rows (b, d), and how far off they may be (b, m)."""
        sizes = rows.square().sum(1)[:, None] + self._squares
        # Twice the bound of the rounding of sums over d.
        return torch.addmm(sizes, rows, self._rows.T, alpha=-2.0), sizes * (
            4.0 * (self.dimension + 4) * torch.finfo(torch.float64).eps
        )

    def _exact(self, rows: Tensor, pairs: Tensor) -> Tensor:
        """The distances (p,) of pairs (p, 2): a place in centred rows (b, d), and a real row."""
        found = [
            # By pairs of single rows: each sum then has one order, whatever else is computed.
            torch.cdist(
                rows[some[:, 0], None], self._rows[some[:, 1], None], compute_mode="donot_use_mm_for_euclid_dist"
            ).flatten()
            for some in pairs.split(max(1, _PAIRS // self.dimension))
        ]
        return torch.cat(found) if found else self._squares.new_zeros(0)

    def _radii(self, start: int, rows: Tensor) -> Tensor:
        """The radii (b,) of the balls around these centred rows, the first of which is the real row `start`."""
        squares, doubt = self._square_distances(rows)
        own = torch.arange(len(rows), device=rows.device)
        squares[own, start + own] = torch.inf
        nearest = squares.kthvalue(self.neighbours, dim=1).values
        near = (squares <= (nearest + 2.0 * doubt.amax(1))[:, None]).nonzero()
        distances = torch.full_like(squares, torch.inf)
        distances[near[:, 0], near[:, 1]] = self._exact(rows, near)
        return distances.kthvalue(self.neighbours, dim=1).values


LAST = 256
"""Number of last samples whose balls are kept."""


class HitStatistic(Statistic):
    """Σ s and Σ s² of s, the number of balls that a sample is inside, counted up to `most`."""

    held = ("samples", "sums")

    def __init__(self, balls: Balls, most: int) -> None:
        self.balls = balls
        self.most = most
        self.layout = (*balls.layout, most)
        self.samples = 0
        self.sums = torch.zeros(2, dtype=torch.int64)

    def scores(self, rows: Tensor) -> Tensor:
        """s of rows (b, d): (b,), int64."""
        return self.balls.hits(rows).clamp_max(self.most)

    def update(self, batch: Tensor) -> None:
        check_rows("features", batch, self.balls.dimension)
        scores = self.scores(batch)
        self.sums = self.sums + torch.stack([scores.sum(), scores.square().sum()]).cpu()
        self.samples += len(batch)


class CoverageStatistic(Statistic):
    """The number of samples inside each ball, c (m,), and the balls that the last 256 samples are inside.

    It takes 8 bytes a ball, and 32 more for the last samples.
    """

    held = ("samples", "counts", "_last")

    def __init__(self, balls: Balls) -> None:
        self.balls = balls
        self.layout = balls.layout
        self.samples = 0
        self.counts = torch.zeros(balls.count, dtype=torch.int64, device=balls.device)
        self._last = LastRows(pack(torch.zeros(0, balls.count, dtype=torch.bool, device=balls.device)), LAST)

    @property
    def last(self) -> Tensor:
        """Which balls the min(samples, 256) last samples are inside (·, m), bool, in log order."""
        return unpack(self._last.tensor, self.balls.count)

    def update(self, batch: Tensor) -> None:
        check_rows("features", batch, self.balls.dimension)
        counts = self.counts.clone()
        for inside in self.balls.inside(batch):
            counts += inside.sum(0)
            self._last.append(pack(inside[-LAST:]))
        self.counts = counts
        self.samples += len(batch)


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
