"""A generator's statistic and when estimates of it are due: what `Evaluation` and the scorer both keep."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import Tensor

from optimist.bounds.base import Bound
from optimist.estimates import Estimate, is_due
from optimist.statistics import Statistic


class Track:
    """One generator's log taken in order, with estimates at the due sample counts of decisions.md §2."""

    def __init__(self, bound: Bound, growth: float) -> None:
        self._bound = bound
        self._growth = growth
        self._last_due = 0
        self.statistic: Statistic = bound.statistic()

    def add(self, batch: Mapping[str, Tensor]) -> bool:
        """Take a batch, float64 tensors (n, …) by name, and say whether an estimate is due exactly now."""
        self.statistic.update(*(batch[name] for name in self._bound.metric.tensors))
        due = is_due(self.statistic.samples, self._last_due, self._growth)
        if due:
            self._last_due = self.statistic.samples
        return due

    def last_due_position(self, rows: Sequence[int]) -> int | None:
        """Index of the last of the coming batches, with these row counts, after which an estimate is due."""
        samples, last_due, position = self.statistic.samples, self._last_due, None
        for index, count in enumerate(rows):
            samples += count
            if is_due(samples, last_due, self._growth):
                last_due, position = samples, index
        return position

    def estimate(self) -> Estimate:
        """The estimate at this position of the log."""
        return self._bound.estimate(self.statistic)
