"""The base class of streaming statistics."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from torch import Tensor


class Statistic(ABC):
    """Base of every statistic. It depends only on the sequence of batches, not on the process that computes it.

    A snapshot contains `state`, from which `Metric.restore` makes the statistic again.
    """

    samples: int = 0
    """Rows seen."""
    list_length: int | None = None
    """Where the samples' prompts are a fixed list: how many; `update` then takes `listed`, their indices (b)."""

    @abstractmethod
    def update(self, *tensors: Any, **named: Any) -> None:
        """Add a batch: the tensors (b, …) named by `Metric.widths`, in its order.

        Raises FixError, and changes nothing, on other tensors.
        """

    @abstractmethod
    def state(self) -> dict[str, Tensor]:
        """The whole state by name. Tensors may be views, valid until the next update.

        A snapshot is accepted only by a statistic with the same layout (`scoring.warm`): of an empty statistic, tensors
        whose names end in "layout" must have the same whole numbers, and all others the same shape.
        """

    @property
    def bytes(self) -> int:
        """Bytes of memory of what `state` says."""
        return sum(tensor.nbytes for tensor in self.state().values())

    @property
    def holds_rows(self) -> bool:
        """Whether estimates are computed from all rows, as long as there are few, and not from sums."""
        return False
