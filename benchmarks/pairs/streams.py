"""A generator's estimates along a stream: what `StreamingEstimator` finds whenever one is due."""

from __future__ import annotations

import pickle
from bisect import bisect_right
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from problems import Problem, problem_named

from optimist.estimates.estimate import Estimate
from optimist.estimation.streaming import StreamingEstimator

BATCH = 5
GROWTH = 0.04
LOOKS = (
    *(20, 25, 30, 35, 40, 45, 50, 55, 60, 70, 80, 90, 100, 115, 130, 150, 175, 200, 230, 260, 300, 350, 400, 500, 600),
    *(700, 850, 1_000),
)
"""The samples of each generator at which it is scored in lockstep."""


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

    problem: str
    file: str
    number: int
    keep: Path | None = None
    """Folder of tables made before, and of this one."""
    looks: tuple[int, ...] = ()
    """The samples at which a generator is scored; none: whenever an estimate is due."""

    def __call__(self) -> dict[str, Table]:
        """Score the stream, or read it."""
        if self.keep is None:
            return self._scored()
        kind = "lockstep" if self.looks else "races"
        path = self.keep / kind / self.problem.replace(" ", "-") / f"{self.number}.pickle"
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(pickle.dumps(self._scored()))
        return pickle.loads(path.read_bytes())

    def _scored(self) -> dict[str, Table]:
        problem = problem_named(self.problem, self.file)
        places = places_of(problem, self.number)
        found: dict[str, Table] = {}
        ends = self.looks or range(BATCH, problem.horizon + 1, BATCH)
        for generator in problem.generators:
            estimator = StreamingEstimator(problem.bound(), 0.0 if self.looks else GROWTH, paired=True)
            rows = problem.rows(generator, places)
            counts: list[int] = []
            estimates: list[Estimate] = []
            first = 0
            for last in (end for end in ends if end <= problem.horizon):
                batch = {name: array[first:last] for name, array in rows.items()}
                if estimator.add(batch, [f"{row}" for row in range(first, last)], None, (first, last - first)):
                    counts.append(last)
                    estimates.append(estimator.estimate())
                first = last
            found[generator] = Table(tuple(counts), tuple(estimates))
        return found


def places_of(problem: Problem, number: int) -> NDArray[np.int64]:
    """The places in the pools that a stream visits (horizon,)."""
    return np.random.default_rng(number).integers(problem.size, size=problem.horizon)
