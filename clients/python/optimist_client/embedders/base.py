"""The interface of embedders, and an embedder from any function."""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray


class Embedder(ABC):
    """Turns samples into rows of numbers. Calling it is the same as `embed`; threads can share one."""

    name: str
    """Only rows with the same name are comparable: the `embedding` of an experiment, its reference and its batches."""

    @property
    @abstractmethod
    def dimension(self) -> int:
        """The number of columns of the rows."""

    @abstractmethod
    def embed(self, batch: Any) -> NDArray[np.float32]:
        """The rows (n, dimension) of a batch of n ≥ 1 samples, in their order."""

    def __call__(self, batch: Any) -> NDArray[np.float32]:
        """The same as `embed`."""
        return self.embed(batch)


class Function(Embedder):
    """Your own embedder: any `function` from a batch to an array (n, dimension), with a `name`."""

    def __init__(self, name: str, dimension: int, function: Callable[[Any], ArrayLike]) -> None:
        self.name = name
        self._dimension = dimension
        self._function = function

    @property
    def dimension(self) -> int:
        """The dimension given."""
        return self._dimension

    def embed(self, batch: Any) -> NDArray[np.float32]:
        """The function's result for the batch. Raises ValueError if its shape is not (n, dimension)."""
        rows = np.asarray(self._function(batch), np.float32)
        if rows.shape != (len(batch), self.dimension):
            raise ValueError(f"{self.name}: expected shape {(len(batch), self.dimension)}, got {rows.shape}")
        return rows


def need(module: str, extra: str) -> Any:
    """A module that only some embedders need. Raises ModuleNotFoundError that names the `extra` to install.

    It is imported when an embedder is created, so workers without embedders need neither torch nor the model libraries.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as missing:
        message = f"this embedder needs {missing.name}: pip install 'optimist[{extra}]'"
        raise ModuleNotFoundError(message, name=missing.name) from missing
