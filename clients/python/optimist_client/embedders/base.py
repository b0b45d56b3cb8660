"""What every embedder is, and one made of any function."""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray


class Embedder(ABC):
    """Turns samples into rows of numbers. Calling it is `embed`; threads may share one."""

    name: str
    """Says which rows may be compared: `embedding` of an experiment, of its reference and of what it is told."""

    @property
    @abstractmethod
    def dimension(self) -> int:
        """Columns of `embed`'s rows."""

    @abstractmethod
    def embed(self, batch: Any) -> NDArray[np.float32]:
        """The rows (n, dimension) of a batch of n samples, n at least 1, in their order."""

    def __call__(self, batch: Any) -> NDArray[np.float32]:
        """The same as `embed`."""
        return self.embed(batch)


class Function(Embedder):
    """An embedder of your own: any `function` from a batch to an array (n, dimension), under a `name`."""

    def __init__(self, name: str, dimension: int, function: Callable[[Any], ArrayLike]) -> None:
        self.name = name
        self._dimension = dimension
        self._function = function

    @property
    def dimension(self) -> int:
        """As it was said to be."""
        return self._dimension

    def embed(self, batch: Any) -> NDArray[np.float32]:
        """What the function makes of the batch. Raises ValueError where its shape is not (n, dimension)."""
        rows = np.asarray(self._function(batch), np.float32)
        if rows.shape != (len(batch), self.dimension):
            raise ValueError(f"{self.name}: expected shape {(len(batch), self.dimension)}, got {rows.shape}")
        return rows


def need(module: str, extra: str) -> Any:
    """A module that only some embedders need. Raises ModuleNotFoundError naming the `extra` that brings it.

    Imported when an embedder is made: workers that use none do without torch and the model libraries.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as missing:
        message = f"this embedder needs {missing.name}: pip install 'optimist[{extra}]'"
        raise ModuleNotFoundError(message, name=missing.name) from missing
