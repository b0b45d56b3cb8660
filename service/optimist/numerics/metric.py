"""What every metric offers the bounds and the scorer."""

from __future__ import annotations

from typing import Any, Protocol

from torch import Tensor

from optimist.numerics.estimate import Scale


class Metric(Protocol):
    """A score of a generator: which statistic it streams, and its published value on one."""

    @property
    def name(self) -> str:
        """The name users type, such as "fid"."""
        ...

    @property
    def scale(self) -> Scale:
        """The scale of `plug_in` and of everything bounds make of it."""
        ...

    @property
    def lower_is_better(self) -> bool:
        """Whether the best generator has the lowest value."""
        ...

    @property
    def widths(self) -> dict[str, int]:
        """The columns of each tensor that a batch must hold, by name, in the order that the statistic takes them."""
        ...

    def restore(self, tensors: dict[str, Tensor]) -> Any:
        """The statistic that `to_tensors` made `tensors` of, bit for bit. Raises KeyError or ValueError on others."""
        ...
