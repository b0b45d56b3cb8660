"""What routing gains over time, as charts show it. No I/O."""

from __future__ import annotations

import json
import math
from bisect import bisect_left
from collections.abc import Sequence
from typing import Any

from optimist.records import RoutePoint
from optimist_client.models import RouteCurve, Routes

MOST_POINTS = 2000
"""Points drawn: of more, every second, third, … one."""


def route_point(table: Routes) -> str:
    """What is kept of a table for charts: JSON, to six digits, with null for what is not known.

    [gain, two ends of its interval, expected score of routed prompts, best single generator, its score], on the scale
    of the metric.
    """
    numbers = [_short(number) for number in (table.gain, table.lower, table.upper, table.score, table.best_score)]
    gain, lower, upper, score, best_score = numbers
    return json.dumps([gain, lower, upper, score, table.best, best_score], separators=(",", ":"))


def route_curve(points: Sequence[RoutePoint], after: int) -> RouteCurve:
    """The points made after so many batches were told, and the last one before, thinned out."""
    points = points[max(0, bisect_left(points, after, key=lambda point: point.told) - 1) :]
    every = -(-len(points) // MOST_POINTS) or 1
    points = points[::-every][::-1]
    found: list[list[Any]] = [json.loads(point.point) for point in points]
    return RouteCurve(
        told=[point.told for point in points],
        samples=[point.samples for point in points],
        gains=[point[0] for point in found],
        lower=[point[1] for point in found],
        upper=[point[2] for point in found],
        scores=[point[3] for point in found],
        best=[point[4] for point in found],
        best_scores=[point[5] for point in found],
    )


def _short(number: float | None) -> float | None:
    return None if number is None or not math.isfinite(number) else float(f"{number:.6g}")
