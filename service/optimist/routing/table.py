"""The table of a router, made of the rows of all generators: as it is stored, read, and drawn over time. No I/O."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from optimist.experiments.curves import short, since
from optimist.experiments.report import OLD
from optimist.experiments.state import PolicyState
from optimist.records import ArtefactPoint, LogExtent, StoredArtefact, extents, is_outgrown
from optimist.routing.answers.rows import RoutedRows
from optimist.routing.gain.reports import Routing, route_table
from optimist_client.models import RouteCurve, RoutePace, Routes

MOST_ROUTE_POINTS = 2000
"""Points drawn: of more, every second, third, … one."""


def route_point(table: Routes) -> str:
    """A routing table as one point of a chart: JSON, to six digits, with null for what is not known.

    [gain, two ends of its interval, expected score of routed prompts, best single generator, its score], on the scale
    of the metric.
    """
    numbers = [short(number) for number in (table.gain, table.lower, table.upper, table.score, table.best_score)]
    gain, lower, upper, score, best_score = numbers
    return json.dumps([gain, lower, upper, score, table.best, best_score], separators=(",", ":"))


def route_curve(points: Sequence[ArtefactPoint], after: int) -> RouteCurve:
    """The points made after so many batches were recorded, and the last one before, thinned out."""
    points = since(points, after, MOST_ROUTE_POINTS)
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


def read_table(state: PolicyState, stored: StoredArtefact) -> Routes:
    """The table, with the positions that it was made of; it is stale where samples have grown much, or costs have
    changed, since.

    Raises pydantic's ValidationError if it cannot be read.
    """
    made, parts = Routes.model_validate_json(stored.payload), stored.parts
    return made.model_copy(
        update={
            "experiment": state.config.name,
            "positions": [parts[g.ordinal].seq if g.ordinal in parts else 0 for g in state.stored.generators],
            "stale": is_outgrown(parts, extents(state.stored.modelled), OLD) or has_other_costs(state, made),
        }
    )


def has_other_costs(state: PolicyState, made: Routes) -> bool:
    """True if costs have changed since this table was made."""
    return made.costs != state.all_costs


def table_of(state: PolicyState, pace: RoutePace | None, rows: RoutedRows, parts: Mapping[int, LogExtent]) -> Routes:
    """The table of rows that were made of these parts. Raises as `route_table`."""
    config, metric, generators = state.config, state.config.metric, state.stored.generators
    routing = Routing(
        names=[generator.name for generator in generators],
        lower_is_better=metric.lower_is_better,
        policy=config.policy,
        price=config.price if pace is None else pace.price,
        costs=state.all_costs,
        retired=[generator.name for generator in generators if generator.state == "retired"],
        tries=config.tries,
        contexts=rows.settings,
        seed=config.seed,
        title=metric.shown_title,
        scale=metric.scale,
        delta=config.delta,
    )
    known: dict[str, object] = {
        "experiment": config.name,
        "positions": [parts[g.ordinal].seq if g.ordinal in parts else 0 for g in generators],
        "samples": sum(part.samples for part in parts.values()),
        "pace": pace,
    }
    return route_table(rows, routing).model_copy(update=known)
