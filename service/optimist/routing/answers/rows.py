"""The rows of all generators together, which a table of routes is made of."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optimist.arrays import Floats, Ints
from optimist.routing.answers.features import ContextSettings


@dataclass(frozen=True, eq=False)
class RoutedRows:
    """A uniform sample of the batches of an experiment, and how many samples it has in all. Generators are indices 0 …
    G − 1 in the experiment's list.
    """

    contexts: NDArray[np.float32]
    """(n, d), one row for each recorded sample."""
    generator: Ints
    """(n,)."""
    score: Floats
    """(n,), on the metric's scale."""
    probability: Floats
    """With which the generator was drawn (n,); NaN where no probability is known."""
    pick: Ints
    """(n,): the same number for the rows of one batch, which follow each other as in the batch, and are all there."""
    prompts: list[str]
    """Texts (n,); "" without one."""
    samples: Ints
    """Samples of each generator in all (G,)."""
    sums: Floats
    """The sum of all their scores (G,)."""
    settings: ContextSettings | None = None
    """The settings of the columns of contexts, as the first ones have fixed them; None: the table finds a bandwidth of
    its own."""
