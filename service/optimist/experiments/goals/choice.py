"""What a goal answers about a pick: whom it is for, and what that rests on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from optimist.records import GeneratorState, Part


@dataclass(frozen=True, slots=True)
class Choice:
    """The generator of the next pick."""

    place: int
    """Its place among the contenders."""
    probability: float | None = None
    """With which it was drawn for the context of the pick; None where no chance was involved, or no context."""
    price: float | None = None
    """Of a unit of cost, where it was found to keep a budget."""
    by_model: bool = False
    """Whether the model of contexts chose it."""


@dataclass(frozen=True, slots=True)
class Basis:
    """What a choice was made from."""

    positions: list[int]
    """A log position for each contender; 0: nothing of it was used."""
    mixture: str | None = None
    """The name of the mixture, if any."""
    model: str | None = None
    """The name of the model of contexts, if any."""


def positions_of(parts: Mapping[int, Part], contenders: Sequence[GeneratorState]) -> list[int]:
    """Of each contender the log position up to which something was made of these parts; 0: not part of it."""
    return [parts[one.ordinal].seq if one.ordinal in parts else 0 for one in contenders]
