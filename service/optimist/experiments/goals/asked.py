"""Question and answer of a goal: the contexts of an ask, and the choice of a pick."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from optimist.arrays import Floats
from optimist.records import GeneratorState, LogExtent


class ContextPredictor(Protocol):
    """A model of what generators score on contexts."""

    def predict(self, contexts: NDArray[Any]) -> tuple[Floats, Floats]:
        """Means (n, G) and widths (n, G) at contexts (n, d)."""
        ...


class AskedContext:
    """The context of a prompt that an ask brings, and the prediction of the newest model for it.

    Each context is predicted alone: in one product of matrices with others its last digits would depend on these.
    """

    __slots__ = ("_model", "_predicted", "row", "text")

    def __init__(self, row: NDArray[np.float32], text: str = "") -> None:
        self.row = row
        """The embedding of the prompt (d,)."""
        self.text = text
        """The prompt; "" where no texts were sent."""
        self._model: ContextPredictor | None = None
        self._predicted: tuple[Floats, Floats] | None = None

    def predicted(self, model: ContextPredictor) -> tuple[Floats, Floats]:
        """Means (G,) and widths (G,) of the generators of a model."""
        if self._predicted is None or self._model is not model:
            means, widths = model.predict(self.row[None])
            self._model, self._predicted = model, (means[0], widths[0])
        return self._predicted


@dataclass(frozen=True, slots=True)
class Choice:
    """The generator of the next pick."""

    index: int
    """Its index among the contenders."""
    probability: float | None = None
    """The probability with which it was drawn for the context of the pick; None where no chance was involved."""
    price: float | None = None
    """The price of a unit of cost, where it was found to keep a budget."""
    by_model: bool = False
    """True if a model chose it."""


@dataclass(frozen=True, slots=True)
class PickBasis:
    """The estimates, mixture or model that a choice was made from."""

    positions: list[int]
    """A log position for each contender; 0: nothing of it was used."""
    mixture: str | None = None
    """The name of the mixture, if any."""
    model: str | None = None
    """The name of the model, if any."""


def positions_of(parts: Mapping[int, LogExtent], generators: Sequence[GeneratorState]) -> list[int]:
    """The log position of each generator up to which something was made of these parts; 0 where it is no part."""
    return [parts[each.ordinal].seq if each.ordinal in parts else 0 for each in generators]
