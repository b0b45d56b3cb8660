"""Precision, density and coverage: higher is better (equations.md §7; rules/estimates.md)."""

from __future__ import annotations

import hashlib
import math
from abc import abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, Self
from weakref import WeakValueDictionary

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from optimist.estimates.clusters import FEW
from optimist.metrics.base import Analysis, Identity, Score, Statistic, linear_share
from optimist.metrics.implementations import Setting, reference_of
from optimist.metrics.mixtures.objective import Common
from optimist.metrics.state import LastRows, check_rows
from optimist.references.real_data import RealData, Reference
from optimist_client.errors import FixError
from optimist_client.metrics import Coverage, Density, Precision

ENTRIES = 2**21
"""Number of distances in memory at a time, 16 MiB a matrix."""


class Balls(Reference):
    """A ball for each row of real features (m, d), to its k-th nearest other row, k = `neighbours`, without its
    surface.

    Distances are computed by matrix products of centred rows, in blocks. Where a product cannot tell whether a row is
    inside, its distance is computed again from differences. So the answer does not depend on blocks, batches or BLAS,
    and a copy of a real row is never inside a ball whose radius is the distance to that row.

    Raises FixError unless there are more than k rows, finite and of sane size.
    """

    def __init__(self, rows: ArrayLike, neighbours: int, device: torch.device | str = "cpu") -> None:
        array = np.ascontiguousarray(rows, dtype=np.float64)
        if array.ndim != 2 or len(array) <= neighbours:
            raise FixError(
                f"reference: expected more rows than the {neighbours} neighbours of each, got shape {array.shape}"
            )
        check_rows("reference", torch.from_numpy(array), array.shape[1])
        self.dimension, self.neighbours = array.shape[1], neighbours
        self.count, self.device = len(array), torch.device(device)
        """The number m of balls, and their device."""
        self.digest = torch.tensor(list(hashlib.sha256(array.data).digest()), dtype=torch.uint8)
        """SHA-256 (32,) of the original rows."""
        self.layout = (len(array), neighbours, *self.digest.tolist())
        """The layout of statistics of these balls."""
        self._centre = torch.from_numpy(array.mean(axis=0)).to(device)
        self._rows = torch.from_numpy(array).to(device) - self._centre
        self._single = self._rows.float()
        self._latest: tuple[bytes, list[Tensor]] = b"", []
        self._squares = self._rows.square().sum(1)
        self.radii = torch.cat([self._radii(start, block) for start, block in self._blocks(self._rows)])
        """(m,)"""

    def inside(self, rows: Tensor) -> Iterator[Tensor]:
        """True for the balls that each row (b, d) is inside, some rows at a time: (≤ b, m).

        The result for a batch is kept until the next batch, for the other metrics that read it.
        """
        content = hashlib.sha256(rows.cpu().double().contiguous().numpy().data).digest()
        digest, latest = self._latest
        if digest != content:
            latest = [pack(inside) for inside in self._inside(rows)]
            self._latest = content, latest
        return (unpack(packed, self.count) for packed in latest)

    def _inside(self, rows: Tensor) -> Iterator[Tensor]:
        def compare(squares: Tensor) -> tuple[Tensor, Tensor]:
            squares -= self.radii.square().to(squares.dtype)
            return squares < 0.0, squares.abs_()

        for _, block in self._blocks(rows.to(self.device, torch.float64) - self._centre):
            inside, near = self._by_products(block, compare)
            inside[near[:, 0], near[:, 1]] = self._exact(block, near) < self.radii[near[:, 1]]
            yield inside

    def hits(self, rows: Tensor) -> Tensor:
        """The number of balls (b,), int64, that each row (b, d) is inside."""
        return torch.cat([inside.sum(1) for inside in self.inside(rows)])

    def _blocks(self, rows: Tensor) -> Iterator[tuple[int, Tensor]]:
        """Some rows (b, d) at a time, with the place of the first."""
        size = max(1, ENTRIES // self.count)
        return zip(range(0, len(rows), size), rows.split(size), strict=True)

    def _by_products(
        self, rows: Tensor, compare: Callable[[Tensor], tuple[Tensor, Tensor]], *, of_rows: bool = False
    ) -> tuple[Tensor, Tensor]:
        """The result of `compare` on the squared distances (b, m) of centred rows (b, d), and the pairs (p, 2) that
        these leave open.

        compare: its second result (b, m) is the distance to the threshold of the comparison, which is a constant, or
        with `of_rows` another distance of the same row. It may write to the distances. Products of float32 take half
        the time, and leave the pairs within their rounding open: where these are many, float64 follows.
        """
        squares, largest = rows.square().sum(1)[:, None], self._squares.max()
        result, near = squares, squares
        for dtype in self._precisions(float(torch.maximum(squares.max(), largest))):
            sizes = torch.add(squares.to(dtype), self._squares.to(dtype))
            result, apart = compare(sizes.addmm_(rows.to(dtype), self._rows_as(dtype).T, alpha=-2.0))
            # Twice the bound of the rounding of sums over d, and of the compared distances.
            rounding = (2.0 if of_rows else 1.0) * (self.dimension + 8) * torch.finfo(dtype).eps
            near = (apart <= (rounding * (squares + largest)).to(dtype)).nonzero()
            if not of_rows:
                own = squares[near[:, 0], 0] + self._squares[near[:, 1]]
                near = near[apart[near[:, 0], near[:, 1]] <= rounding * own]
            # Where float32 leaves more than one pair in 64 open, float64 follows.
            if len(near) * 64 <= len(rows) * self.count:
                break
        return result, near

    def _precisions(self, largest: float) -> tuple[torch.dtype, ...]:
        """The arithmetic to try for rows with squared norms up to `largest`: float32 where that is in its range, and
        where its products are not made of rounded numbers."""
        is_whole = self.device.type == "cpu" and torch.get_float32_matmul_precision() == "highest"
        return (torch.float32, torch.float64) if is_whole and 1e-20 < largest < 1e30 else (torch.float64,)

    def _rows_as(self, dtype: torch.dtype) -> Tensor:
        return self._single if dtype == torch.float32 else self._rows

    def _exact(self, rows: Tensor, pairs: Tensor) -> Tensor:
        """The distances (p,) of pairs (p, 2): an index of centred rows (b, d), and of a real row."""
        distances = [
            # By pairs of single rows: each sum then has one order, whatever else is computed.
            torch.cdist(
                rows[some[:, 0], None], self._rows[some[:, 1], None], compute_mode="donot_use_mm_for_euclid_dist"
            ).flatten()
            for some in pairs.split(max(1, (2**20) // self.dimension))
        ]
        return torch.cat(distances) if distances else self._squares.new_zeros(0)

    def _radii(self, start: int, rows: Tensor) -> Tensor:
        """The radii (b,) of the balls around these centred rows, the first of which is the real row `start`."""
        own = torch.arange(len(rows), device=rows.device)

        def compare(squares: Tensor) -> tuple[Tensor, Tensor]:
            squares[own, start + own] = torch.inf
            nearest = squares.topk(self.neighbours, dim=1, largest=False).values[:, -1:]
            return squares, squares - nearest

        _, near = self._by_products(rows, compare, of_rows=True)
        distances = self._exact(rows, near)
        order = distances.argsort()
        order = order[near[order, 0].argsort(stable=True)]
        return distances[order[torch.searchsorted(near[order, 0], own) + self.neighbours - 1]]


LAST = 256
"""Number of last samples whose balls are kept."""


class HitStatistic(Statistic):
    """Σ s and Σ s² of s, the number of balls that a sample is inside, `max_hits` at most, and the last 256 of s."""

    held = ("samples", "sums", "_last")
    can_merge = True

    def __init__(self, balls: Balls, max_hits: int) -> None:
        self.balls = balls
        self.max_hits = max_hits
        self.layout = (*balls.layout, max_hits)
        self.samples = 0
        self.sums = torch.zeros(2, dtype=torch.int64)
        self._last = LastRows(torch.zeros(0, 1, dtype=torch.int64), LAST)

    @property
    def last(self) -> Tensor:
        """s of the min(samples, 256) last samples (·,), int64, in log order."""
        return self._last.tensor[:, 0]

    def scores(self, rows: Tensor) -> Tensor:
        """s of rows (b, d): (b,), int64."""
        return self.balls.hits(rows).clamp_max(self.max_hits)

    def update(self, batch: Tensor) -> None:
        check_rows("features", batch, self.balls.dimension)
        scores = self.scores(batch)
        self.sums = self.sums + torch.stack([scores.sum(), scores.square().sum()]).cpu()
        self._last.append(scores.cpu()[:, None])
        self.samples += len(batch)

    def merge(self, other: Self) -> None:
        self.sums = self.sums + other.sums
        self._last.append(other._last.tensor)
        self.samples += other.samples


class CoverageStatistic(Statistic):
    """The number of samples inside each ball, c (m,), and the balls that the last 256 samples are inside.

    It takes 8 bytes a ball, and 32 more for the last samples.
    """

    held = ("samples", "counts", "_last")
    can_merge = True

    def __init__(self, balls: Balls) -> None:
        self.balls = balls
        self.layout = balls.layout
        self.samples = 0
        self.counts = torch.zeros(balls.count, dtype=torch.int64, device=balls.device)
        self._last = LastRows(pack(torch.zeros(0, balls.count, dtype=torch.bool, device=balls.device)), LAST)

    @property
    def last(self) -> Tensor:
        """True for the balls that the min(samples, 256) last samples are inside (·, m), in log order."""
        return unpack(self._last.tensor, self.balls.count)

    def update(self, batch: Tensor) -> None:
        check_rows("features", batch, self.balls.dimension)
        counts = self.counts.clone()
        for inside in self.balls.inside(batch):
            counts += inside.sum(0)
            self._last.append(pack(inside[-LAST:]))
        self.counts = counts
        self.samples += len(batch)

    def merge(self, other: Self) -> None:
        self.counts = self.counts + other.counts
        self._last.append(other._last.tensor)
        self.samples += other.samples


def pack(inside: Tensor) -> Tensor:
    """Bool (b, m) as bits, uint8 (b, ⌈m/8⌉)."""
    padded = torch.nn.functional.pad(inside.to(torch.uint8), (0, -inside.shape[1] % 8))
    bits = padded.view(len(inside), padded.shape[1] // 8, 8) << _shifts(inside.device)
    return bits.sum(-1, dtype=torch.uint8)


def unpack(packed: Tensor, count: int) -> Tensor:
    """The inverse of `pack`, m = `count`."""
    bits = (packed[:, :, None] >> _shifts(packed.device)) & 1
    return bits.flatten(1)[:, :count].bool()


def _shifts(device: torch.device) -> Tensor:
    return torch.arange(8, dtype=torch.uint8, device=device)


def missed(counts: Tensor, n: int, draws: int) -> Tensor:
    """C(n − c, draws)/C(n, draws) for counts c (m,) ≤ n: the chance that `draws` ≤ n of the n samples miss a ball."""
    others = torch.arange(int(counts.max()), dtype=torch.float64, device=counts.device)
    # Each further sample in a ball takes one factor away; the product has no cancellation.
    factors = ((n - draws - others) / (n - others)).clamp_min(0.0)
    table = torch.cat([factors.new_ones(1), factors.cumprod(0)])
    return table[counts]


def extrapolated(counts: Tensor, n: int, at: int) -> tuple[float, float, float]:
    """The coverage expected at `at` ≥ n samples, and a lower and an upper bound of it, from counts (m,) of n samples.

    By Chao's estimate of the undiscovered part. Coverage rises with the samples, and ever more slowly: it lies between
    the coverage of the n samples and a line with the slope of the last sample.
    """
    m = len(counts)
    covered, once, twice = (int(count) for count in ((counts > 0).sum(), (counts == 1).sum(), (counts == 2).sum()))
    further = at - n
    left = (n - 1) / n * (once**2 / (2.0 * twice) if twice else 0.5 * once * (once - 1))
    left = min(left, m - covered)
    gained = left * -math.expm1(further * math.log1p(-once / (n * left + once))) if left > 0.0 else 0.0
    upper = min(covered + further * once / n, m)
    return min(covered + gained, upper) / m, covered / m, upper / m


def analyse_coverage(
    counts: Tensor, n: int, at: int, neighbours: int, last: Tensor, common: Tensor | None = None
) -> Analysis:
    """The analysis of n ≥ 2 samples with `counts` (m,) in the balls.

    last: the balls around the last samples (b ≤ n, m), bool, and common: around rows whose influence is wanted.
    """
    m = len(counts)
    plug_in = float((counts > 0).double().mean())
    estimate, bracket, systematic, warnings = plug_in, None, 0.0, ()
    if n >= at:
        estimate = 1.0 - float(missed(counts, n, at).mean())
    else:
        estimate, *ends = extrapolated(counts, n, at)
        bracket = (ends[0], ends[1])
        systematic = 0.5 * (bracket[1] - bracket[0])
        warnings = (f"fewer samples than {at}, for which coverage is asked: {n} samples; the rest is extrapolated",)
    draws = max(1, min(at, n - 2))
    single = _lost(counts, n - 1, draws, 1)
    influence = last.double() @ single
    first, mean = n * float(influence.square().mean()), float(counts.double() @ single) / n
    # A further sample, away from all others and in as many balls as a real row: none inside is no proof of 0.
    first += (neighbours * draws / (n - 1)) ** 2
    both = _pairs(last, _lost(counts, max(n - 2, 1), draws, 2), n) if n > 3 else 0.0
    # Few samples of a kind may by chance all occur twice: singly they then lose nothing, and only pairs show them.
    # Few samples of a kind may by chance all occur twice: singly they then lose nothing, and only pairs show them. The
    # overlap y of rules/estimates.md is believed up to 3.
    first = max(first, 2.0 * both / 3.0)
    overlap = 2.0 * both / first
    of_mean = n * mean**2
    variance = first * (-math.expm1(-overlap) / overlap if overlap > 0.0 else 1.0)
    linear = first * math.exp(-overlap)
    few = 1.0 + FEW / n
    variance, linear = (max(part - of_mean, 0.05 * part) / m**2 * few for part in (variance, linear))
    return Analysis(
        plug_in=plug_in,
        estimate=estimate,
        selection_error=math.sqrt(variance + systematic**2),
        stopping_error=math.sqrt(variance + systematic**2),
        bracket=bracket,
        first_order=linear_share(linear, variance),
        systematic_selection=systematic,
        systematic_stopping=systematic,
        influence=None if common is None else common.double() @ single * ((n - 1) / m),
        recent=influence * ((n - 1) / m),
        warnings=warnings,
    )


def _lost(counts: Tensor, n: int, draws: int, order: int) -> Tensor:
    """The difference of this order of `missed`, (m,): the loss of a ball with c samples without one, or two, of them.

    n: the samples that are left. 0 where the ball has fewer samples than are taken away.
    """
    steps = [missed((counts - taken).clamp_min(0).clamp_max(n), n, draws) for taken in range(order + 1)]
    lost = steps[1] - steps[0] if order == 1 else steps[2] - 2.0 * steps[1] + steps[0]
    return torch.where(counts >= order, lost, 0.0)


def _pairs(last: Tensor, lost: Tensor, n: int) -> float:
    """Σ over all pairs of samples of the square of their joint loss, from the pairs of the last samples (b, m)."""
    shared = last[:, last.sum(0) >= 2].double()
    products = (shared * lost[last.sum(0) >= 2]) @ shared.T
    squares = float(products.square().sum() - products.diagonal().square().sum())
    return 0.5 * n * (n - 1) * squares / (len(last) * (len(last) - 1))


class NeighbourScore(Score):
    """Base of the scores: it has their balls, and finds the balls of common rows once."""

    def __init__(self, balls: Balls) -> None:
        self.balls = balls
        self.widths = {"features": balls.dimension}

    def analyse(self, statistic: Any, common: Common | None = None) -> Analysis:
        self.check(statistic, min_samples=2)
        return self._analysis(statistic, None if common is None else self._inside(statistic, common["features"]))

    def identity(self) -> Identity:
        """The rows of the reference."""
        return [("reference", (self.balls.digest,))]

    @abstractmethod
    def _analysis(self, statistic: Any, common: Tensor | None) -> Analysis:
        """The analysis; common: which balls the common rows are inside (·, m), bool."""

    def _inside(self, statistic: Any, rows: Tensor) -> Tensor:
        """The balls around rows (b, d) as (b, m), bool; the last call's rows are cached."""
        cached: dict[bytes, Tensor] = self.cache(statistic).get("common", {})
        names = [hashlib.blake2b(row.numpy().data, digest_size=16).digest() for row in rows.cpu().double().contiguous()]
        fresh = {name: index for index, name in enumerate(names) if name not in cached}
        if fresh:
            packed = torch.cat([pack(inside) for inside in self.balls.inside(rows[list(fresh.values())])])
            cached = cached | dict(zip(fresh, packed, strict=True))
        self.cache(statistic)["common"] = {name: cached[name] for name in names}
        return unpack(torch.stack([cached[name] for name in names]), self.balls.count)


class MeanOfHits(NeighbourScore):
    """The mean of s/`unit`, where s is the number of balls that a sample is inside, counted up to `max_hits`.

    Precision is the share of samples inside a ball, density the mean number of balls, divided by k.
    """

    def __init__(self, declared: type[Precision | Density], balls: Balls) -> None:
        super().__init__(balls)
        self.declared = declared
        self.max_hits, self.unit = (1, 1) if declared is Precision else (2**31, balls.neighbours)

    def statistic(self) -> HitStatistic:
        return HitStatistic(self.balls, self.max_hits)

    def plug_in(self, statistic: HitStatistic) -> float:
        self.check(statistic)
        return int(statistic.sums[0]) / (statistic.samples * self.unit)

    def _analysis(self, statistic: HitStatistic, common: Tensor | None) -> Analysis:
        n, unit, mean = statistic.samples, self.unit, self.plug_in(statistic)
        total, squares = statistic.sums.tolist()
        # Whole numbers of any size: no cancellation.
        variance = (n * squares - total**2) / (n * (n - 1) * unit**2)
        # With two more samples, of 0 and of 1: a score is not certain because all samples so far are alike.
        with_two = ((n + 2) * (squares + unit**2) - (total + unit) ** 2) / ((n + 2) ** 2 * unit**2)
        error = math.sqrt(max(variance, with_two) / n * (1.0 + FEW / n))
        # Scores of whole steps may be equal in all pairs of two generators; one more pair could differ by a step.
        step = min(1.0 / (math.sqrt(2.0) * n * unit), error)
        return Analysis(
            plug_in=mean,
            estimate=mean,
            details={"plain_error": math.sqrt(variance / n)},
            selection_error=error,
            stopping_error=error,
            systematic_selection=step,
            systematic_stopping=step,
            influence=None if common is None else common.sum(1).clamp_max(self.max_hits).double() / unit,
            # Differences of paired generators know the common samples only (rules/differences.md).
            recent=statistic.last.double() / unit if common is None else None,
        )


class CoverageScore(NeighbourScore):
    """The share of balls that `at` samples reach."""

    declared = Coverage

    def __init__(self, balls: Balls, at: int) -> None:
        super().__init__(balls)
        self.at = at

    def statistic(self) -> CoverageStatistic:
        return CoverageStatistic(self.balls)

    def plug_in(self, statistic: CoverageStatistic) -> float:
        """The share of balls that the n samples reach, which grows with n; from 1 sample or more."""
        self.check(statistic)
        return float((statistic.counts > 0).double().mean())

    def _analysis(self, statistic: CoverageStatistic, common: Tensor | None) -> Analysis:
        n, k = statistic.samples, self.balls.neighbours
        return analyse_coverage(statistic.counts, n, self.at, k, statistic.last, common)


def make(declared: Precision | Density | Coverage, setting: Setting) -> NeighbourScore:
    """The score in the reference's balls, which determine the width. Raises FixError without a reference."""
    del setting
    balls = reference_of(declared, Balls)
    if isinstance(declared, Coverage):
        return CoverageScore(balls, declared.at)
    return MeanOfHits(type(declared), balls)


_BALLS: WeakValueDictionary[tuple[bytes, int, str], Balls] = WeakValueDictionary()


def reference(declared: Precision | Density | Coverage, data: RealData, device: torch.device | str) -> Balls:
    """The balls around the real rows; metrics that use the same balls at a time share one object.

    Raises FixError where the rows were not kept, or are too few.
    """
    rows = data.rows_for(declared.name)
    key = hashlib.sha256(np.ascontiguousarray(rows, dtype=np.float64).data).digest(), declared.neighbours, f"{device}"
    balls = _BALLS.get(key)
    if balls is None:
        balls = _BALLS[key] = Balls(rows, declared.neighbours, device)
    return balls
