"""The mixtures of an experiment over time, as charts show them. No I/O."""

from __future__ import annotations

import json
import math
from bisect import bisect_left
from collections.abc import Sequence
from statistics import NormalDist
from typing import Any

from optimist.numerics.estimate import natural
from optimist.numerics.mixtures.mixture import Mixture
from optimist.records import MixturePoint
from optimist_client.models import MixtureCurve

MOST_WEIGHTS = 20_000
"""Weights drawn in all: of more, every second, third, … mixture."""


def curve_point(mixture: Mixture, delta: float) -> str:
    """What is kept of a mixture for charts: JSON, to six digits, with null for what is infinite.

    [score, lower and upper end of its 1 − δ interval, place of the best single generator, its score, gain, its error,
    gap, weights], all by place in the mixture; scores are on the natural scale.
    """
    z = -NormalDist().inv_cdf(delta / 2.0)
    ends = (mixture.value - z * mixture.error, mixture.value + z * mixture.error)
    scores = [natural(value, mixture.scale, mixture.floor) for value in (mixture.value, *ends, mixture.best_value)]
    score, lower, upper, best = map(_short, scores)
    gains = [_short(number) for number in (mixture.gain, mixture.gain_error, mixture.gap)]
    weights = [_short(weight) for weight in mixture.weights]
    place = mixture.generators.index(mixture.best)
    return json.dumps([score, lower, upper, place, best, *gains, weights], separators=(",", ":"))


def mixture_curve(points: Sequence[MixturePoint], names: Sequence[str], after: int) -> MixtureCurve:
    """The points made after so many batches were told, and the last one before, thinned out; names: by ordinal."""
    points = points[max(0, bisect_left(points, after, key=lambda point: point.told) - 1) :]
    every = -(-len(points) * len(names) // MOST_WEIGHTS) or 1
    points = points[::-every][::-1]
    found: list[list[Any]] = [json.loads(point.point) for point in points]
    weights: dict[str, list[float]] = {name: [0.0] * len(points) for name in names}
    ordinals = [list(point.parts) for point in points]
    for at, (point, parts) in enumerate(zip(found, ordinals, strict=True)):
        for ordinal, weight in zip(parts, point[8], strict=True):
            weights[names[ordinal]][at] = weight
    return MixtureCurve(
        told=[point.told for point in points],
        samples=[point.samples for point in points],
        weights=weights,
        scores=[point[0] for point in found],
        lower=[point[1] for point in found],
        upper=[point[2] for point in found],
        best=[f"{names[parts[point[3]]]}" for point, parts in zip(found, ordinals, strict=True)],
        best_scores=[point[4] for point in found],
        gains=[point[5] for point in found],
        gain_errors=[point[6] for point in found],
        gaps=[point[7] for point in found],
    )


def _short(number: float) -> float | None:
    return float(f"{number:.6g}") if math.isfinite(number) else None
