"""Confidence sequences of a mean: intervals that hold at all sample sizes at once (decisions.md §2, mean).

Source: Waudby-Smith and Ramdas, Estimating means of bounded random variables by betting (2024), theorems 2 and 3.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor

from optimist_client.errors import FixError

GRID = 1001
"""Candidate means of the betting sequence, equally spaced from the least to the largest value."""
_MOST = 0.5
"""Largest bet of both sequences, as a part of what may be lost."""
_ROWS = 64
"""Rows that are added at a time. Few, because the betting sequence leaves out the candidates excluded before them."""


class ConfidenceSequence(ABC):
    """The interval of the mean of values between two limits, after each of them, intersected over time.

    With probability 1 − `delta` the mean lies in it at all times, if each value has the same mean given those before.
    Values that contradict this, so that no mean is left, leave the interval as it was before.
    """

    kind: ClassVar[int]
    """What a state is recognised by."""

    def __init__(self, limits: tuple[float, float], delta: float) -> None:
        self._limits = limits
        self._delta = delta
        self._level = math.log(2.0 / delta)
        self._count = 0
        self._sum = 0.0
        self._spread = 0.0  # of the scaled values, each about the running mean with itself
        self._ends = (0.0, 1.0)
        self.is_contradicted = False
        """Whether the values left no mean, which has probability `delta` if they are alike."""

    @property
    def interval(self) -> tuple[float, float]:
        """The interval as it is now, on the values' scale."""
        low, high = self._limits
        lower, upper = (low + end * (high - low) for end in self._ends)
        return max(lower, low), min(upper, high)

    def add(self, values: Tensor) -> None:
        """Add values (b,), float64, in their order. Raises FixError, changing nothing, outside the limits."""
        low, high = self._limits
        if not low <= float(values.min()) <= float(values.max()) <= high:
            raise FixError(f"values: expected numbers from {low:g} to {high:g}")
        for part in ((values - low) / (high - low)).split(_ROWS):
            self._add(part)

    def _add(self, x: Tensor) -> None:
        """Add scaled values (b,), each in [0, 1]."""
        t = torch.arange(self._count + 1, self._count + len(x) + 1, dtype=torch.float64)
        sums = self._sum + x.cumsum(0)
        spreads = self._spread + (x - (0.5 + sums) / (t + 1.0)).square().cumsum(0)
        # Bets on a value use what was known before it.
        means = (0.5 + _before(self._sum, sums)) / t
        variances = (0.25 + _before(self._spread, spreads)) / t
        bets = (2.0 * self._level / (variances * t * torch.log1p(t))).sqrt()
        lower, upper = self._step(x, bets, means)
        self._count, self._sum, self._spread = self._count + len(x), float(sums[-1]), float(spreads[-1])
        self._narrow(lower, upper)

    @abstractmethod
    def _step(self, x: Tensor, bets: Tensor, means: Tensor) -> tuple[Tensor, Tensor]:
        """Add scaled values (b,) with their bets and the means before them; the ends (b,) after each of them."""

    def _narrow(self, lower: Tensor, upper: Tensor) -> None:
        if self.is_contradicted:
            return
        lower = lower.clamp_min(self._ends[0]).cummax(0).values
        upper = upper.clamp_max(self._ends[1]).cummin(0).values
        left = int((lower < upper).sum())  # after the first contradiction there are only more
        if left:
            self._ends = float(lower[left - 1]), float(upper[left - 1])
        self.is_contradicted = left < len(lower)

    def state(self) -> dict[str, Tensor]:
        """The whole state by name."""
        numbers = [*self._limits, self._delta, self._sum, self._spread, *self._ends]
        return {
            "sequence_layout": torch.tensor([self.kind], dtype=torch.int64),
            "sequence_counts": torch.tensor([self._count, int(self.is_contradicted)], dtype=torch.int64),
            "sequence": torch.tensor(numbers, dtype=torch.float64),
            "sums": self._sums().clone(),
        }

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Take over a `state`, bit for bit. Raises KeyError on missing tensors."""
        self._count, contradicted = tensors["sequence_counts"].tolist()
        self.is_contradicted = bool(contradicted)
        _, _, _, self._sum, self._spread, *ends = tensors["sequence"].tolist()
        self._ends = ends[0], ends[1]
        self._take(tensors["sums"].clone())

    @abstractmethod
    def _sums(self) -> Tensor:
        """The sums that a kind of its own keeps, float64."""

    @abstractmethod
    def _take(self, sums: Tensor) -> None:
        """Take over `_sums`."""


class EmpiricalBernstein(ConfidenceSequence):
    """The predictable plug-in empirical Bernstein sequence (theorem 2)."""

    kind = 1

    def __init__(self, limits: tuple[float, float], delta: float) -> None:
        super().__init__(limits, delta)
        self._totals = torch.zeros(3, dtype=torch.float64)  # of the bets λ, of λx, and of the variances that they cost

    def _step(self, x: Tensor, bets: Tensor, means: Tensor) -> tuple[Tensor, Tensor]:
        bets = bets.clamp_max(_MOST)
        costs = (x - means).square() * (-torch.log1p(-bets) - bets)
        totals = self._totals[:, None] + torch.stack([bets, bets * x, costs]).cumsum(1)
        self._totals = totals[:, -1].clone()
        centre, half = totals[1] / totals[0], (self._level + totals[2]) / totals[0]
        return centre - half, centre + half

    def _sums(self) -> Tensor:
        return self._totals

    def _take(self, sums: Tensor) -> None:
        self._totals = sums


class Betting(ConfidenceSequence):
    """The hedged capital sequence (theorem 3): what a gambler would own who bets against each candidate mean.

    Betting that the mean is above m earns the less, the larger m is, and the other way round. So the means that are
    left form an interval, and its ends lie between two candidates: the one that is excluded is taken, which is safe.
    """

    kind = 2

    def __init__(self, limits: tuple[float, float], delta: float) -> None:
        super().__init__(limits, delta)
        self._grid = torch.arange(GRID, dtype=torch.float64) / (GRID - 1)
        self._wealth = torch.zeros(2, GRID, dtype=torch.float64)  # logarithms: of bets above, and below, each candidate

    def _step(self, x: Tensor, bets: Tensor, means: Tensor) -> tuple[Tensor, Tensor]:
        del means
        # Candidates outside of the ends stay excluded, whatever they would win or lose from here on.
        first, last = (round(end * (GRID - 1)) for end in self._ends)
        grid, wealth = self._grid[first : last + 1], self._wealth[:, first : last + 1]
        gain, bets = x[:, None] - grid, bets[:, None]
        above = torch.log1p(bets.minimum(_MOST / grid) * gain).cumsum(0) + wealth[0]
        below = torch.log1p(-bets.minimum(_MOST / (1.0 - grid)) * gain).cumsum(0) + wealth[1]
        wealth[0], wealth[1] = above[-1], below[-1]
        too_low, too_high = (above >= self._level).sum(1), (below >= self._level).sum(1)
        return grid[(too_low - 1).clamp_min(0)], grid[(len(grid) - too_high).clamp_max(len(grid) - 1)]

    def _sums(self) -> Tensor:
        return self._wealth

    def _take(self, sums: Tensor) -> None:
        self._wealth = sums


def restored(tensors: Mapping[str, Tensor]) -> ConfidenceSequence | None:
    """The confidence sequence in the state of a statistic, None where there is none. Raises KeyError as `restore`."""
    if "sequence_layout" not in tensors:
        return None
    kinds = {kind.kind: kind for kind in (EmpiricalBernstein, Betting)}
    low, high, delta = tensors["sequence"][:3].tolist()
    sequence = kinds[int(tensors["sequence_layout"])]((low, high), delta)
    sequence.restore(tensors)
    return sequence


def _before(start: float, running: Tensor) -> Tensor:
    """The running sums (b,) before each value instead of after it."""
    return torch.cat([torch.tensor([start], dtype=torch.float64), running[:-1]])
