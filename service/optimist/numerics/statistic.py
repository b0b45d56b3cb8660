"""What a metric keeps of a generator's batches."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from torch import Tensor


class Statistic(ABC):
    """The base of every statistic: a function of the sequence of batches alone, whichever process computes it.

    A snapshot is made of `state`, and `Metric.restore` makes the statistic of it again.
    """

    samples: int = 0
    """Rows seen."""

    @abstractmethod
    def update(self, *tensors: Any, **named: Any) -> None:
        """Add a batch: the tensors (b, …) that `Metric.widths` names, in its order, and nothing else.

        Raises ValueError, changing nothing, on tensors that the metric does not take.
        """

    @abstractmethod
    def state(self) -> dict[str, Tensor]:
        """The whole state by name. Tensors may be views, valid until the next update.

        Tensors whose names end in "layout" hold whole numbers that must agree between a snapshot and the statistic
        that takes it; of all others the shape of the empty statistic must agree (`scoring.warm`).
        """

    @property
    def holds_rows(self) -> bool:
        """Whether an estimate is made of all rows, as many statistics do while there are few, and not of sums."""
        return False
