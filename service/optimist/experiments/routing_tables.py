"""The table of a router, made of the rows of all generators, and the pace at which its budget is spent. No I/O."""

from __future__ import annotations

from collections.abc import Mapping

from optimist.experiments.goals.route import ForRouting
from optimist.experiments.state import PolicyState
from optimist.records import LogExtent
from optimist.routing.answers.features import ContextSettings
from optimist.routing.answers.prompts import RoutedRows
from optimist.routing.gain.reports import Routing, route_table
from optimist_client.models import RoutePace, Routes


def pace_of(state: PolicyState) -> RoutePace | None:
    """The pace at which the budget is spent, by the loaded model; None without a budget, or before a model."""
    config, goal = state.config, state.goal
    if not config.keeps_budget or not isinstance(goal, ForRouting) or goal.loaded is None:
        return None
    price, kept = goal.price(state.arms, state.overspent)
    return RoutePace(
        ceiling=config.ceiling,
        at_least=config.at_least,
        kept=None if config.at_least is None else kept,
        spent=state.cost / max(state.stored.told, 1),
        price=price,
    )


def table_of(
    state: PolicyState, rows: RoutedRows, parts: Mapping[int, LogExtent], contexts: ContextSettings | None
) -> Routes:
    """The table of rows that were made of these parts. contexts: how they become columns. Raises as `route_table`."""
    config, metric, generators = state.config, state.config.metric, state.stored.generators
    pace = pace_of(state)
    routing = Routing(
        names=[generator.name for generator in generators],
        lower_is_better=metric.lower_is_better,
        policy=config.policy,
        price=config.price if pace is None else pace.price,
        costs=state.all_costs,
        retired=[generator.name for generator in generators if generator.state == "retired"],
        tries=config.tries,
        contexts=contexts,
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
