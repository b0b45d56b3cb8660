"""Told rows of routed prompts, of all generators together, as tables are made of them. Free of torch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class RoutedRows:
    """A uniform sample of the batches told to an experiment, and what was told in all. Generators are places 0 … G − 1
    in the experiment's list.
    """

    contexts: NDArray[np.float32]
    """(n, d), one row for each told sample."""
    generator: NDArray[np.int64]
    """(n,)."""
    score: NDArray[np.float64]
    """(n,), on the metric's scale."""
    probability: NDArray[np.float64]
    """With which the generator was drawn (n,); NaN where no probability is known."""
    pick: NDArray[np.int64]
    """(n,): the same number for the rows of one batch, which follow each other as told, and are all there."""
    prompts: list[str]
    """Texts (n,); "" without one."""
    samples: NDArray[np.int64]
    """Samples told in all of each generator (G,)."""
    sums: NDArray[np.float64]
    """The sum of all their scores (G,)."""
