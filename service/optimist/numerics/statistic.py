"""What every statistic offers the bounds and the scorer."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor


class Statistic(Protocol):
    """What is kept of a generator's batches: a function of their sequence alone, whoever computes it."""

    @property
    def samples(self) -> int:
        """Rows seen."""
        ...

    def update(self, *tensors: Tensor) -> None:
        """Add a batch: the tensors (b, …) that the metric names, in its order. Raises ValueError, changing nothing."""
        ...

    def state(self) -> dict[str, Tensor]:
        """The whole state by name, not copied where that can be: good until the next update."""
        ...

    def to_tensors(self) -> dict[str, Tensor]:
        """The whole state as independent contiguous tensors, from which `from_tensors` makes it again bit for bit."""
        ...
