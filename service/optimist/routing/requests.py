"""The request for the table of routes, as a scorer makes it of the logs as they are now."""

from __future__ import annotations

from fastapi import APIRouter

from optimist.api.app_state import AppStateDep, table_of
from optimist.api.bodies.objects import ModelRoute
from optimist.api.middleware.permissions import READ, permits
from optimist.api.problems import invalid
from optimist.api.routes.made import awaited, is_of, missing, standing
from optimist.experiments.state import PolicyState
from optimist.records import MIN_MODELLED, Conflict
from optimist_client.models import Identifier, Routes

router = APIRouter(prefix="/v1/experiments/{name}", route_class=ModelRoute)


@router.get("/routes", tags=["experiments"])
@permits(READ)
async def get_routes(name: Identifier, app: AppStateDep) -> Routes:
    """Which generator is the best one for which prompts, and what routing gains over the best single generator.

    It is made now. If no scorer makes it within 10 seconds, an earlier one is returned, which `stale` may mark. Without
    an earlier one it is 503, of the type `being-made` while a scorer is at work: ask again. 422 with another goal
    than "route", 409 while there are too few samples.
    """
    experiment = await app.experiment(name)
    if not experiment.config.asks.has_contexts:
        raise invalid(f"only experiments with the goal 'route' have routes; the goal is {experiment.config.goal!r}")
    begun = await standing(app, experiment)

    async def check(state: PolicyState) -> None:
        if lacking := missing(state.stored, MIN_MODELLED):
            raise Conflict(f"there are too few samples to say how prompts are routed: it takes {lacking}")
        if not state.can_be_scored:
            needed = state.needed_to_fit
            few = [generator.name for generator in state.stored.active if generator.batches < needed]
            raise Conflict(
                f"the bandwidth of contexts is not fixed yet: it takes {needed} told picks of each generator, and "
                f"{', '.join(few[:5])} {'has' if len(few) == 1 else 'have'} fewer"
            )

    async def look() -> tuple[Routes | None, bool]:
        made = await app.table(await standing(app, experiment))
        if made is None:
            return None, False
        is_new = is_of(begun.stored.generators, begun.stored.modelled, made.positions)
        return made, is_new and made.costs == begun.all_costs

    return await awaited(app, experiment, table_of(experiment), check, look)
