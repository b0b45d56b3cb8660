"""The interface of a source of samples."""

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
    """The random order of one generator's samples: a pure function of the simulation's seed, the trial and the name.

    `trial` None is a draw separate from all trials, for true scores or to fit kernels. Without `shuffle` samples keep
    their given order, if the source has one.
    """

    seed: int
    trial: int | None
    generator: str
    shuffle: bool = True

    def rng(self) -> np.random.Generator:
        """A random generator for this name and trial only."""
        return np.random.default_rng(self._sequence(*self.generator.encode()))

    @property
    def common(self) -> int:
        """A seed shared by all generators of the trial, because they must get the prompts in the same order."""
        return int(self._sequence().generate_state(1)[0])

    def _sequence(self, *key: int) -> np.random.SeedSequence:
        return np.random.SeedSequence(self.seed, spawn_key=(0 if self.trial is None else self.trial + 1, *key))


class Stream(Protocol):
    """The samples of a source in one trial."""

    def take(self, count: int) -> Rows | None:
        """The next `count` rows of each tensor; None if fewer are left. No row is returned twice."""
        ...


class Source(Protocol):
    """A generator's samples, or the generator itself. It must be picklable, and drawing must not change it."""

    @property
    def origin(self) -> str:
        """A description of where the samples come from, for messages."""
        ...

    @property
    def samples(self) -> int | None:
        """The number of samples; None if unlimited."""
        ...

    @property
    def widths(self) -> dict[str, int]:
        """The number of columns of each tensor, by name."""
        ...

    def stream(self, draw: Draw) -> Stream:
        """The samples in the order of `draw`, from the start."""
        ...

    def exact(self, question: Question) -> float | None:
        """The true score in closed form, on the scale of estimates; None if there is no closed form."""
        ...


@dataclass(frozen=True)
class SourceSet:
    """Sources by generator name, with the settings that belong to them, which are parameters of `simulate`."""

    sources: Mapping[str, Source]
    settings: Mapping[str, Any] = field(default_factory=dict)
