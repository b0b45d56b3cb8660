"""The interface of a source of samples, and sources with given samples in arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from optimist.estimation.question import Question
from optimist_client.errors import FixError

Rows = dict[str, NDArray[Any]]
"""Rows (n, …) of each tensor of a metric, by name: "features", "probabilities", "prompts"."""


@dataclass(frozen=True, slots=True)
class Draw:
    """The random order of one generator's samples: a pure function of the simulation's seed, the trial and the name.

    `trial` None is a draw separate from all trials, for true scores or to fit kernels. Without `shuffle` samples keep
    their given order, if the source has one. With `paired` the generator's name does not matter, so that row i of every
    generator is drawn alike, as far as the generators have it.
    """

    seed: int
    trial: int | None
    generator: str
    shuffle: bool = True
    paired: bool = False

    def rng(self) -> np.random.Generator:
        """A random generator for this trial, and for this name only unless `paired`."""
        return np.random.default_rng(self._sequence(*(b"" if self.paired else self.generator.encode())))

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
    aligned: bool | None = None
    """True if row i of every source has the same seed or prompt; None where only the caller can know."""

    def is_paired(self, asked: bool | None = None) -> bool:
        """True if trials draw the same rows of every source: as `asked`, by default if the sources are aligned.

        Raises FixError if asked of sources with unaligned rows or different numbers of rows.
        """
        if asked is None or (asked and self.aligned):
            return bool(self.aligned)
        if asked:
            expected = "paired: expected sources with row i of the same seed or prompt"
            if self.aligned is False:
                raise FixError(f"{expected}; found an experiment that is not paired, or lacks samples in between")
            counts = {made.samples: made.origin for made in self.sources.values()}
            if len(counts) > 1:
                listed = ", ".join(f"{count or 'any number'} in {origin}" for count, origin in counts.items())
                raise FixError(f"{expected}, so as many rows of each; found {listed}")
        return asked


@dataclass(frozen=True, eq=False)
class ArraySource:
    """A generator's samples, drawn without replacement: `rows` (n, …) of each tensor, with equal n.

    `ends` are the numbers of rows of aligned sources that have fewer. A paired draw shuffles only between them, so that
    it gives each source that has a row the same one.
    """

    rows: Rows
    origin: str = "an array"
    ends: tuple[int, ...] = ()

    @property
    def samples(self) -> int:
        return len(next(iter(self.rows.values())))

    @property
    def widths(self) -> dict[str, int]:
        return {name: rows.shape[1] for name, rows in self.rows.items()}

    def stream(self, draw: Draw) -> ArrayStream:
        order = np.arange(self.samples)
        if draw.shuffle:
            rng, ends = draw.rng(), self.ends if draw.paired else ()
            order = np.concatenate([rng.permutation(part) for part in np.split(order, ends)])
        return ArrayStream(self.rows, order)

    def exact(self, question: Question) -> None:
        """None: the true score of given samples has no closed form."""


class ArrayStream:
    """Rows in a given order."""

    def __init__(self, rows: Rows, order: NDArray[np.int64]) -> None:
        self._rows = rows
        self._order = order
        self._taken = 0

    def take(self, count: int) -> Rows | None:
        """The next `count` rows of each tensor; None if fewer are left."""
        chosen = self._order[self._taken : self._taken + count]
        if len(chosen) < count:
            return None
        self._taken += count
        return {name: rows[chosen] for name, rows in self._rows.items()}
