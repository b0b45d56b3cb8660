"""The stored table of routes as users see it. No I/O."""

from __future__ import annotations

from collections.abc import Mapping

from optimist.experiments.mixtures import OLD
from optimist.experiments.state import PolicyState
from optimist.records import Part, StoredRoutes
from optimist_client.models import Routes


def shown_routes(state: PolicyState, parts: Mapping[int, Part], table: str) -> Routes:
    """The table made of these parts, with their positions, and whether samples have grown much, or costs have changed,
    since.

    Raises pydantic's ValidationError if it cannot be read.
    """
    made = Routes.model_validate_json(table)
    return made.model_copy(
        update={
            "experiment": state.config.name,
            "positions": [parts[g.ordinal].seq if g.ordinal in parts else 0 for g in state.stored.generators],
            "stale": state.stored.has_outgrown(StoredRoutes("", parts), OLD) or has_other_costs(state, made),
        }
    )


def has_other_costs(state: PolicyState, made: Routes) -> bool:
    """Whether costs have changed since this table was made."""
    names = [generator.name for generator in state.stored.generators]
    known = [state.costs[name] for name in names] if state.costs.keys() >= set(names) else None
    return made.costs != known
