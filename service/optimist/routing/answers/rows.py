"""The rows of all generators together, which a table of routes is made of."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optimist.routing.answers.features import ContextSettings


@dataclass(frozen=True, eq=False)
class RoutedRows:
    """A uniform sample of the batches of an experiment, and how many samples it has in all. Generators are places 0 … G
    − 1 in the experiment's list.
    """

    contexts: NDArray[np.float32]
    """(n, d), one row for each recorded sample."""
    generator: NDArray[np.int64]
    """(n,)."""
    score: NDArray[np.float64]
    """(n,), on the metric's scale."""
    probability: NDArray[np.float64]
    """With which the generator was drawn (n,); NaN where no probability is known."""
    pick: NDArray[np.int64]
    """(n,): the same number for the rows of one batch, which follow each other as in the batch, and are all there."""
    prompts: list[str]
    """Texts (n,); "" without one."""
    samples: NDArray[np.int64]
    """Samples of each generator in all (G,)."""
    sums: NDArray[np.float64]
    """The sum of all their scores (G,)."""
    settings: ContextSettings | None = None
    """How contexts become columns, as the first ones have fixed it; None: the table finds a bandwidth of its own."""
