"""An experiment over time, small enough to be drawn: counts and estimates, mixtures. No I/O.

`ProgressCurve` takes the history as it grows, so that a report on a million rounds costs what came since the last one.
"""

from __future__ import annotations

import json
import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import NormalDist
from typing import Any

import numpy as np

from optimist.arrays import Ints
from optimist.estimates.estimate import natural
from optimist.estimates.mixture import Mixture
from optimist.records import HISTORY, ArtefactPoint, CurvePoint
from optimist_client.models import Curve, GeneratorProgress, MixtureCurve


def curve_point(mixture: Mixture, delta: float) -> str:
    """A mixture as one point of a chart: JSON, to six digits, with null for what is infinite.

    [score, lower and upper end of its 1 − δ interval, index of the best single generator, its score, gain, its error,
    gap, weights], all by index in the mixture; scores are on the natural scale.
    """
    z = -NormalDist().inv_cdf(delta / 2.0)
    ends = (mixture.value - z * mixture.error, mixture.value + z * mixture.error)
    scores = [natural(value, mixture.scale, mixture.floor) for value in (mixture.value, *ends, mixture.best_value)]
    score, lower, upper, best = map(short, scores)
    gains = [short(number) for number in (mixture.gain, mixture.gain_error, mixture.gap)]
    weights = [short(weight) for weight in mixture.weights]
    index = mixture.generators.index(mixture.best)
    return json.dumps([score, lower, upper, index, best, *gains, weights], separators=(",", ":"))


def mixture_curve(points: Sequence[ArtefactPoint], names: Sequence[str], after: int) -> MixtureCurve:
    """The points made after so many batches were recorded, and the last one before, thinned out; names: by ordinal."""
    # At most 20,000 weights are drawn: of more, every second, third, … mixture.
    points = since(points, after, 20_000, len(names))
    numbers: list[list[Any]] = [json.loads(point.point) for point in points]
    weights: dict[str, list[float]] = {name: [0.0] * len(points) for name in names}
    ordinals = [list(point.parts) for point in points]
    for at, (point, parts) in enumerate(zip(numbers, ordinals, strict=True)):
        for ordinal, weight in zip(parts, point[8], strict=True):
            weights[names[ordinal]][at] = weight
    return MixtureCurve(
        told=[point.told for point in points],
        samples=[point.samples for point in points],
        weights=weights,
        scores=[point[0] for point in numbers],
        lower=[point[1] for point in numbers],
        upper=[point[2] for point in numbers],
        best=[f"{names[parts[point[3]]]}" for point, parts in zip(numbers, ordinals, strict=True)],
        best_scores=[point[4] for point in numbers],
        gains=[point[5] for point in numbers],
        gain_standard_errors=[point[6] for point in numbers],
        gaps=[point[7] for point in numbers],
    )


def since(points: Sequence[ArtefactPoint], after: int, limit: int, each: int = 1) -> Sequence[ArtefactPoint]:
    """The points made after so many batches, and the last one before: of more than `limit` numbers, `each` in a point,
    every second, third, … point.
    """
    points = points[max(0, bisect_left(points, after, key=lambda point: point.told) - 1) :]
    every = -(-len(points) * each // limit) or 1
    # Thinned from the end, so that the newest point stays.
    return points[::-every][::-1]


def short(number: float | None) -> float | None:
    """A number to six digits, as charts keep it; None where it is not finite."""
    return None if number is None or not math.isfinite(number) else float(f"{number:.6g}")


MAX_CHECKPOINTS = 256
MAX_POINTS = 4000
"""Estimates drawn in all, and as many of all watched metrics: of more, every second, third, … of each generator."""
REMEMBERED = 256
"""Batches that are kept as they were read, to tell whether a history read later is the same one, gone on."""

Points = Mapping[str, Sequence[Sequence[CurvePoint]]]
"""Estimates by the label of the metric, the metric that decides first, and by generator."""


def stride_of(told: int) -> int:
    """Batches from one checkpoint to the next: the least power of two that keeps them at most `MAX_CHECKPOINTS`."""
    return 1 << max(0, (max(told - 1, 0) // MAX_CHECKPOINTS).bit_length())


@dataclass(frozen=True)
class ProgressCurve:
    """Cumulative counts at checkpoints, and the curves of all generators, after `told` batches of the history."""

    told: int = 0
    batches: Ints = field(default_factory=lambda: np.zeros((0, 0), np.int64))
    """(k, G): batches of each generator at the multiples of `stride`."""
    samples: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    """(k,): samples recorded in all at them."""
    newest: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    """(G,): batches of each generator after all `told`."""
    newest_samples: int = 0
    points: Points = field(default_factory=dict[str, Sequence[Sequence[CurvePoint]]])
    """The estimates that were kept."""
    recent: bytes = b""
    """The newest batches of the history, `REMEMBERED` at most."""

    @property
    def start(self) -> int:
        """The byte of the history from which `follows` needs it."""
        return HISTORY.itemsize * self.told - len(self.recent)

    def starts(self, label: str, generators: int) -> list[int]:
        """The last known point of each generator's curve by a metric, from which `follows` needs the curve."""
        starts = [max(0, len(points) - 1) for points in self.points.get(label, ())]
        return starts + [0] * (generators - len(starts))

    def follows(self, history: bytes, points: Points) -> ProgressCurve | None:
        """The curve with what was read from `start` and `starts` on; None where Redis has lost what was read before."""
        new: dict[str, Sequence[Sequence[CurvePoint]]] = {}
        for label, read in points.items():
            newest = [tuple(points[-1:]) for points in self.points.get(label, ())]
            if [tuple(points[: len(last)]) for last, points in zip(newest, read, strict=False)] != newest:
                return None
            rest = [points[len(last) :] for last, points in zip(newest, read, strict=False)]
            new[label] = [*rest, *read[len(rest) :]]
        return self.then(history[len(self.recent) :], new) if history.startswith(self.recent) else None

    @property
    def stride(self) -> int:
        """Batches from one checkpoint to the next."""
        return stride_of(self.told)

    def then(self, history: bytes, points: Points) -> ProgressCurve:
        """The curve with the history after the first `told` batches, and what came to each generator's curves."""
        batches, generators = np.frombuffer(history, HISTORY), len(next(iter(points.values())))
        told = self.told + len(batches)
        stride = stride_of(told)
        kept = np.arange(1, len(self.batches) + 1) * self.stride % stride == 0
        # The batches between checkpoints; the last piece lies beyond the last of them. One by one they stay in cache.
        edges = [0, *range(stride - self.told % stride, len(batches) + 1, stride), len(batches)]
        pieces = [batches[start:end] for start, end in pairwise(edges)]
        counts = np.array([np.bincount(piece["generator"], minlength=generators) for piece in pieces])
        by_generator = _widened(self.newest[None, :], generators) + counts.cumsum(axis=0)
        samples = self.newest_samples + np.array([piece["rows"].sum(dtype=np.int64) for piece in pieces]).cumsum()
        return ProgressCurve(
            told,
            np.concatenate([_widened(self.batches[kept], generators), by_generator[:-1]]),
            np.concatenate([self.samples[kept], samples[:-1]]),
            by_generator[-1],
            int(samples[-1]),
            {label: _extended(self.points.get(label, ()), new) for label, new in points.items()},
            (self.recent + history)[-REMEMBERED * HISTORY.itemsize :],
        )

    def checkpoints(self, after: int) -> tuple[list[int], list[int], Ints]:
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

    def generators(self, names: Sequence[str], batches: Ints, after: int) -> list[GeneratorProgress]:
        """Every generator with its counts (k, G), and the estimates made when `after` batches were recorded, or later.

        The last estimate made before that is among them, too.
        """
        (first, primary), *others = ((label, self._since(label, after)) for label in self.points)
        curves, watched = _thinned({first: primary})[first], _thinned(dict(others))
        return [
            GeneratorProgress(
                generator=name,
                batches=batches[:, g].tolist(),
                curve=_curve(curves[g]),
                watched={label: _curve(points[g]) for label, points in watched.items()},
            )
            for g, name in enumerate(names)
        ]

    def _since(self, label: str, after: int) -> list[Sequence[CurvePoint]]:
        return [points[max(0, bisect_left(points, after, key=_told) - 1) :] for points in self.points[label]]


def _extended(old: Sequence[Sequence[CurvePoint]], new: Sequence[Sequence[CurvePoint]]) -> list[Sequence[CurvePoint]]:
    before = [*old, *[()] * (len(new) - len(old))]
    return [[*points, *more] for points, more in zip(before, new, strict=True)]


def _thinned(curves: Points) -> Points:
    """At most `MAX_POINTS` points in all, or little more, and always the newest of each generator."""
    every = -(-sum(len(points) for generators in curves.values() for points in generators) // MAX_POINTS) or 1
    return {label: [points[::-every][::-1] for points in generators] for label, generators in curves.items()}


def _told(point: CurvePoint) -> int:
    return point.told


def _widened(counts: Ints, generators: int) -> Ints:
    """Counts (k, g) with zeros for generators that joined."""
    return np.pad(counts, ((0, 0), (0, generators - counts.shape[1])))


def _curve(points: Sequence[CurvePoint]) -> Curve:
    # All at once: each call of the decoder costs more than what it decodes here.
    numbers: list[list[Any]] = json.loads(f"[{','.join(point.point for point in points)}]")
    samples, scores, lower, upper = (list(column) for column in zip(*numbers, strict=True)) if numbers else [[]] * 4
    return Curve(told=[point.told for point in points], samples=samples, scores=scores, lower=lower, upper=upper)
