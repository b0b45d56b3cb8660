"""The base class of embedders, and an embedder for a function of your own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from optimist_client import installed
from optimist_client.errors import FixError


class Embedder(ABC):
    """Converts samples to rows of numbers. Calling an embedder is the same as `embed`. It is thread-safe."""

    name: str
    """Only rows with the same name are comparable. It is the `embedding` of experiments, references and batches."""

    @property
    @abstractmethod
    def dimension(self) -> int:
        """Number of columns of `embed`'s rows."""

    @abstractmethod
    def embed(self, batch: Any) -> NDArray[np.float32]:
        """Embed a batch of n ≥ 1 samples. Returns rows (n, dimension) in the same order."""

    def __call__(self, batch: Any) -> NDArray[np.float32]:
        """Embed a batch, like `embed`."""
        return self.embed(batch)


class Function(Embedder):
    """An embedder of your own: any `function` from a batch to an array (n, dimension), under a `name`."""

    def __init__(self, name: str, dimension: int, function: Callable[[Any], ArrayLike]) -> None:
        self.name = name
        self._dimension = dimension
        self._function = function

    @property
    def dimension(self) -> int:
        """The `dimension` given to the constructor."""
        return self._dimension

    def embed(self, batch: Any) -> NDArray[np.float32]:
        """Apply the function to the batch. Raises FixError if the result does not have shape (n, dimension)."""
        rows = np.asarray(self._function(batch), np.float32)
        if rows.shape != (len(batch), self.dimension):
            raise FixError(f"{self.name}: expected shape {(len(batch), self.dimension)}, got {rows.shape}")
        return rows


def need(module: str, extra: str) -> Any:
    """Import a module that only some embedders need. Raises ModuleNotFoundError, which names the `extra` to install.

    It is imported when an embedder is created, so that other workers need neither torch nor the model libraries.
    """
    return installed.need(module, extra, "this embedder")
