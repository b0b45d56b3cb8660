"""A generator's estimates along a stream: what `Track` finds whenever one is due."""

from __future__ import annotations

import pickle
from bisect import bisect_right
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from beds import Bed, bed_named
from numpy.typing import NDArray

from optimist.evaluation.track import Track
from optimist.numerics.estimate import Estimate

BATCH = 5
GROWTH = 0.04


@dataclass(frozen=True)
class Table:
    """The estimates of one generator along one stream, by the samples after which they were due."""

    counts: tuple[int, ...]
    estimates: tuple[Estimate, ...]

    def at(self, samples: int) -> Estimate | None:
        """The newest estimate after this many samples; None before the first."""
        place = bisect_right(self.counts, samples)
        return self.estimates[place - 1] if place else None


@dataclass(frozen=True)
class Stream:
    """Task: the tables of all generators along the stream of this number: {generator: table}.

    All generators get the same places of their pools. Tables of different numbers are independent of each other.
    """

    bed: str
    file: str
    number: int
    keep: Path | None = None
    """Folder of tables made before, and of this one."""

    def __call__(self) -> dict[str, Table]:
        """Score the stream, or read it."""
        if self.keep is None:
            return self._scored()
        path = self.keep / self.bed.replace(" ", "-") / f"{self.number}.pickle"
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(pickle.dumps(self._scored()))
        return pickle.loads(path.read_bytes())

    def _scored(self) -> dict[str, Table]:
        bed = bed_named(self.bed, self.file)
        places = places_of(bed, self.number)
        found: dict[str, Table] = {}
        for generator in bed.generators:
            track = Track(bed.bound(), GROWTH, paired=True)
            rows = bed.rows(generator, places)
            counts: list[int] = []
            estimates: list[Estimate] = []
            for first in range(0, bed.horizon, BATCH):
                last = first + BATCH
                batch = {name: array[first:last] for name, array in rows.items()}
                if track.add(batch, [f"{row}" for row in range(first, last)], None, (first, BATCH)):
                    counts.append(last)
                    estimates.append(track.estimate())
            found[generator] = Table(tuple(counts), tuple(estimates))
        return found


def places_of(bed: Bed, number: int) -> NDArray[np.int64]:
    """The places in the pools that a stream visits (horizon,)."""
    return np.random.default_rng(number).integers(bed.size, size=bed.horizon)
