"""What every metric offers the bounds and the scorer."""

from __future__ import annotations

from typing import Protocol

from optimist.estimates import Scale
from optimist.statistics import GaussianStatistic


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
    def tensor(self) -> str:
        """The name of the tensor a batch must hold."""
        ...

    @property
    def dimension(self) -> int:
        """The width of that tensor."""
        ...

    def statistic(self, scatter: bool = False) -> GaussianStatistic:
        """An empty statistic laid out for this metric; `scatter` holds the full matrix from the start."""
        ...

    def plug_in(self, statistic: GaussianStatistic) -> float:
        """The metric's published formula on the samples as they are. Raises ValueError on no samples."""
        ...
