"""What every source of samples offers a simulation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from optimist.evaluation import Question

Rows = dict[str, NDArray[Any]]
"""Rows (n, …) of each tensor of a metric, by name: "features", "probabilities", "prompts"."""


@dataclass(frozen=True, slots=True)
class Draw:
    """One of the orders in which samples are drawn: a pure function of the simulation's seed, the trial and the name.

    `trial` None is a draw outside all trials: for the truth, or to fix kernels. Without `shuffle` samples come as they
    stand, where they stand in some order.
    """

    seed: int
    trial: int | None
    generator: str
    shuffle: bool = True

    def rng(self) -> np.random.Generator:
        """This generator's own, which no other name or trial shares."""
        return np.random.default_rng(self._sequence(*self.generator.encode()))

    @property
    def common(self) -> int:
        """A seed that all generators of the trial share, as the order of prompts must be the same for all."""
        return int(self._sequence().generate_state(1)[0])

    def _sequence(self, *key: int) -> np.random.SeedSequence:
        return np.random.SeedSequence(self.seed, spawn_key=(0 if self.trial is None else self.trial + 1, *key))


class Stream(Protocol):
    """A source as it is drawn in one trial."""

    def take(self, count: int) -> Rows | None:
        """The next `count` rows of each tensor, None where fewer are left. No row comes twice."""
        ...


class Source(Protocol):
    """A generator's samples, or the generator itself. It must pickle, and is never changed by what is drawn."""

    @property
    def origin(self) -> str:
        """Where the samples come from, as messages name it."""
        ...

    @property
    def samples(self) -> int | None:
        """How many there are; None: endless."""
        ...

    @property
    def widths(self) -> dict[str, int]:
        """The columns of each tensor, by name."""
        ...

    def stream(self, draw: Draw) -> Stream:
        """The samples in one of their orders, from the start."""
        ...

    def exact(self, question: Question) -> float | None:
        """The true score in closed form, on the scale of estimates; None where there is none."""
        ...


@dataclass(frozen=True)
class Bed:
    """Sources by the generators' names, with what goes with them: settings as `simulate` takes them."""

    sources: Mapping[str, Source]
    settings: Mapping[str, Any] = field(default_factory=dict)
