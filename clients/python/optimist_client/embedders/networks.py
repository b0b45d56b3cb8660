"""Embedders with torch networks, which run on one device in evaluation mode, on a part of a batch at a time."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from optimist_client.embedders.base import Embedder, Function, need
from optimist_client.errors import FixError

if TYPE_CHECKING:
    from torch import Tensor


class Network(Embedder):
    """A network that runs on `device` (None: a GPU if available) with `piece` samples at a time.

    network: a torch module. dimension: number of columns of its first output.
    """

    def __init__(self, name: str, dimension: int, network: Any, *, device: str | None, piece: int) -> None:
        torch = need("torch", "embed-images")
        self.name = name
        self._dimension = dimension
        self._torch = torch
        self._device = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
        self._network = network.eval().requires_grad_(False).to(self._device)
        self._piece = piece

    @property
    def dimension(self) -> int:
        """Width of the network's features."""
        return self._dimension

    def embed(self, batch: Any) -> NDArray[np.float32]:
        """The features (n, dimension) of a batch. Raises FixError for invalid samples."""
        return self._rows(batch)[0]

    def _rows(self, batch: Any) -> tuple[NDArray[np.float32], ...]:
        if len(batch) == 0:
            raise FixError("expected at least one sample")
        pieces = (batch[start : start + self._piece] for start in range(0, len(batch), self._piece))
        with self._torch.inference_mode():
            outputs = [tuple(rows.float().cpu().numpy() for rows in self._outputs(piece)) for piece in pieces]
        return tuple(np.concatenate(rows) for rows in zip(*outputs, strict=True))

    @abstractmethod
    def _outputs(self, samples: Sequence[Any]) -> tuple[Tensor, ...]:
        """The outputs for n samples: tensors (n, …), features first. Raises FixError for invalid samples."""


class Classifier(Network):
    """A network that gives features and class probabilities in one pass."""

    classes: int
    """Number of columns of `probabilities`."""

    def probabilities(self, batch: Any) -> NDArray[np.float32]:
        """The class probabilities (n, classes) of a batch, for the Inception score."""
        return self._rows(batch)[1]

    def classifier(self) -> Function:
        """An embedder with the same name that returns `probabilities`, for experiments with the Inception score."""
        return Function(self.name, self.classes, self.probabilities)

    def features_and_probabilities(self, batch: Any) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Features and class probabilities of a batch from one pass."""
        features, probabilities = self._rows(batch)
        return features, probabilities


def name_of(weights: str | Path) -> str:
    """The name of a checkpoint: the last part of its hub name or of its directory."""
    return Path(weights).name
