"""The newest batches of a mean with the time that each took, of which `Timing` is made."""

from __future__ import annotations

import numpy as np
from torch import Tensor

from optimist.metrics.state import Stateful
from optimist.numerics.timing import KEPT, Timing


class Timed(Stateful):
    """Mean and seconds a sample of the newest `KEPT` batches whose time is known."""

    held = ("_batches",)

    def __init__(self) -> None:
        self._batches = np.zeros((0, 2))

    def add(self, values: Tensor, seconds: float) -> None:
        """Add a batch (b, 1) that took so many seconds."""
        batch = [[float(values.mean()), seconds / len(values)]]
        self._batches = np.concatenate([self._batches, batch])[-KEPT:]

    @property
    def timing(self) -> Timing | None:
        """The timing of these batches; None before the first one."""
        return Timing.of(self._batches)
