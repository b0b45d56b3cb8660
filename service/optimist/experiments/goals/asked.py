"""What a goal is asked and what it answers: the contexts of an ask, and the choice of a pick."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from optimist.numerics.arrays import Floats
from optimist.records import GeneratorState, LogExtent

MANY = 4
"""Contexts from which a thread predicts: a hundred of them would block the event loop for tens of milliseconds."""


class Predictor(Protocol):
    """A model of what generators score on contexts."""

    def predict(self, contexts: NDArray[Any]) -> tuple[Floats, Floats]:
        """Means (n, G) and widths (n, G) at contexts (n, d)."""
        ...


class AskedContexts:
    """The embeddings (n, d) of the prompts of an ask, their texts if it has any, and what a model predicts for them.

    Each context is predicted alone: in one product of matrices with others its last digits would depend on these.
    """

    def __init__(self, rows: NDArray[np.float32], texts: Sequence[str] | None = None) -> None:
        self.rows = rows
        self._texts = texts
        self._model: Predictor | None = None
        self._found: dict[int, tuple[Floats, Floats]] = {}

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def nbytes(self) -> tuple[int, int]:
        """About the bytes of the embeddings, and of the texts."""
        return self.rows.nbytes, sum(map(len, self._texts or ()))

    def __getitem__(self, place: int) -> AskedContext:
        return AskedContext(self, place)

    def text(self, place: int) -> str:
        """The prompt; "" where no texts were sent."""
        return "" if self._texts is None else self._texts[place]

    def predicted(self, model: Predictor, place: int) -> tuple[Floats, Floats]:
        """Means (G,) and widths (G,) of the generators of a model at one context."""
        if self._model is not model:
            self._model, self._found = model, {}
        found = self._found.get(place)
        if found is None:
            means, widths = model.predict(self.rows[place : place + 1])
            found = self._found[place] = means[0], widths[0]
        return found

    def predict(self, model: Predictor, most: int) -> None:
        """Predict the first contexts, at most so many."""
        for place in range(min(most, len(self))):
            self.predicted(model, place)


class AskedContext:
    """One of the contexts of an ask."""

    __slots__ = ("_all", "_place")

    def __init__(self, contexts: AskedContexts, place: int) -> None:
        self._all = contexts
        self._place = place

    @property
    def row(self) -> NDArray[np.float32]:
        """The embedding (d,), float32."""
        return self._all.rows[self._place]

    @property
    def text(self) -> str:
        """The prompt; "" without one."""
        return self._all.text(self._place)

    def predicted(self, model: Predictor) -> tuple[Floats, Floats]:
        """Means (G,) and widths (G,) of the generators of a model."""
        return self._all.predicted(model, self._place)


@dataclass(frozen=True, slots=True)
class Choice:
    """The generator of the next pick."""

    place: int
    """Its place among the contenders."""
    probability: float | None = None
    """The probability with which it was drawn for the context of the pick; None where no chance was involved."""
    price: float | None = None
    """The price of a unit of cost, where it was found to keep a budget."""
    by_model: bool = False
    """Whether a model chose it."""


@dataclass(frozen=True, slots=True)
class Basis:
    """The estimates, mixture or model that a choice was made from."""

    positions: list[int]
    """A log position for each contender; 0: nothing of it was used."""
    mixture: str | None = None
    """The name of the mixture, if any."""
    model: str | None = None
    """The name of the model, if any."""


def positions_of(parts: Mapping[int, LogExtent], contenders: Sequence[GeneratorState]) -> list[int]:
    """The log position of each contender up to which something was made of these parts; 0 where it is no part."""
    return [parts[one.ordinal].seq if one.ordinal in parts else 0 for one in contenders]
