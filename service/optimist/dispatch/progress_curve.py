"""How an experiment went, small enough to be drawn: counts at checkpoints, estimates as they were made. No I/O.

It takes the history as it grows, so that a report on a million rounds costs what came since the last one.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optimist.store import CurvePoint
from optimist.store.formats import HISTORY
from optimist_client.models import Curve, GeneratorProgress

MOST_CHECKPOINTS = 256
MOST_POINTS = 4000
"""Estimates drawn in all: of more, every second, third, … of each generator."""
REMEMBERED = 256
"""Batches that are kept as they were read, to tell whether a history read later is the same one, gone on."""

Counts = NDArray[np.int64]


def stride_of(told: int) -> int:
    """Batches from one checkpoint to the next: the least power of two that keeps them at most `MOST_CHECKPOINTS`."""
    return 1 << max(0, (max(told - 1, 0) // MOST_CHECKPOINTS).bit_length())


@dataclass(frozen=True)
class Course:
    """Cumulative counts at checkpoints, and the curves of all generators, after `told` batches of the history."""

    told: int = 0
    batches: Counts = field(default_factory=lambda: np.zeros((0, 0), np.int64))
    """(k, G): batches of each generator at the multiples of `stride`."""
    samples: Counts = field(default_factory=lambda: np.zeros(0, np.int64))
    """(k,): samples told in all at them."""
    newest: Counts = field(default_factory=lambda: np.zeros(0, np.int64))
    """(G,): batches of each generator after all `told`."""
    newest_samples: int = 0
    points: Sequence[Sequence[CurvePoint]] = ()
    """What was kept of the estimates, by generator."""
    recent: bytes = b""
    """The newest batches of the history, `REMEMBERED` at most."""

    @property
    def starts(self) -> tuple[int, list[int]]:
        """From where `follows` needs the history, in bytes, and the curve of each generator: the last that is known."""
        return HISTORY.itemsize * self.told - len(self.recent), [max(0, len(points) - 1) for points in self.points]

    def follows(self, history: bytes, points: Sequence[Sequence[CurvePoint]]) -> Course | None:
        """The course with what was read from `starts` on; None where Redis no longer has what was read before."""
        known = [tuple(points[-1:]) for points in self.points]
        found = [tuple(new[: len(last)]) for last, new in zip(known, points, strict=False)]
        if not history.startswith(self.recent) or found != known:
            return None
        new = [points[len(last) :] for last, points in zip(known, points, strict=False)]
        return self.then(history[len(self.recent) :], [*new, *points[len(new) :]])

    @property
    def stride(self) -> int:
        """Batches from one checkpoint to the next."""
        return stride_of(self.told)

    def then(self, history: bytes, points: Sequence[Sequence[CurvePoint]]) -> Course:
        """The course with the history after the first `told` batches, and what came to each generator's curve."""
        batches, generators = np.frombuffer(history, HISTORY), len(points)
        told = self.told + len(batches)
        stride = stride_of(told)
        kept = np.arange(1, len(self.batches) + 1) * self.stride % stride == 0
        # The batches between checkpoints; the last piece lies beyond the last of them. One by one they stay in cache.
        edges = [0, *range(stride - self.told % stride, len(batches) + 1, stride), len(batches)]
        pieces = [batches[start:end] for start, end in pairwise(edges)]
        counts = np.array([np.bincount(piece["generator"], minlength=generators) for piece in pieces])
        by_generator = _widened(self.newest[None, :], generators) + counts.cumsum(axis=0)
        samples = self.newest_samples + np.array([piece["rows"].sum(dtype=np.int64) for piece in pieces]).cumsum()
        before = [*self.points, *[()] * (generators - len(self.points))]
        return Course(
            told,
            np.concatenate([_widened(self.batches[kept], generators), by_generator[:-1]]),
            np.concatenate([self.samples[kept], samples[:-1]]),
            by_generator[-1],
            int(samples[-1]),
            [[*known, *new] for known, new in zip(before, points, strict=True)],
            (self.recent + history)[-REMEMBERED * HISTORY.itemsize :],
        )

    def checkpoints(self, after: int) -> tuple[list[int], list[int], Counts]:
        """Rounds (k,), samples (k,) and batches by generator (k, G) at the checkpoints after so many batches.

        The last multiple of `stride` up to `after` is among them: who knows it otherwise knows rounds that were lost.
        """
        rounds = np.arange(1, len(self.batches) + 1) * self.stride
        batches, samples = self.batches, self.samples
        if self.told % self.stride:
            rounds = np.append(rounds, self.told)
            samples = np.append(samples, self.newest_samples)
            batches = np.concatenate([batches, self.newest[None, :]])
        new = rounds > after - self.stride
        return rounds[new].tolist(), samples[new].tolist(), batches[new]

    def generators(self, names: Sequence[str], batches: Counts, after: int) -> list[GeneratorProgress]:
        """Every generator with its counts (k, G), and the estimates made when `after` batches were told, or later.

        The last estimate made before that is among them, too.
        """
        curves = [points[max(0, bisect_left(points, after, key=_told) - 1) :] for points in self.points]
        every = -(-sum(map(len, curves)) // MOST_POINTS) or 1
        return [
            # The newest of them always.
            GeneratorProgress(generator=name, batches=batches[:, g].tolist(), curve=_curve(curves[g][::-every][::-1]))
            for g, name in enumerate(names)
        ]


def _told(point: CurvePoint) -> int:
    return point.told


def _widened(counts: Counts, generators: int) -> Counts:
    """Counts (k, g) with zeros for generators that joined."""
    return np.pad(counts, ((0, 0), (0, generators - counts.shape[1])))


def _curve(points: Sequence[CurvePoint]) -> Curve:
    # All at once: each call of the decoder costs more than what it decodes here.
    numbers: list[list[Any]] = json.loads(f"[{','.join(point.point for point in points)}]")
    samples, scores, lower, upper = (list(column) for column in zip(*numbers, strict=True)) if numbers else [[]] * 4
    return Curve(told=[point.told for point in points], samples=samples, scores=scores, lower=lower, upper=upper)
