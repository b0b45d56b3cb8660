"""The route of routes: which generator is the best one for which prompts, computed by a scorer on request."""

from __future__ import annotations

from fastapi import APIRouter

from optimist.api.context import Context, ContextDep
from optimist.api.problems import invalid
from optimist.api.requested import missing, requested
from optimist.experiments.standings import has_other_costs
from optimist.experiments.state import PolicyState
from optimist.records import LEAST_ROUTED, Conflict, NotFound
from optimist_client.models import Experiment, Identifier, Routes

router = APIRouter(prefix="/v1/experiments/{name}", tags=["experiments"])


@router.get("/routes")
async def get_routes(name: Identifier, context: ContextDep) -> Routes:
    """Which generator is the best one for which prompts, and what routing gains over the best single generator.

    It is made now. If no scorer makes it within 10 seconds, an earlier one is returned, which `stale` may mark. Without
    an earlier one it is 503, of the type `being-made` while a scorer is at work: ask again. 422 with another goal
    than "route", 409 while there are too few samples.
    """
    experiment = await context.experiment(name)
    if experiment.config.goal != "route":
        raise invalid(f"only experiments with the goal 'route' have routes; the goal is {experiment.config.goal!r}")
    begun = await _state(context, experiment)

    async def look() -> tuple[Routes | None, bool]:
        made = await context.routes(await _state(context, experiment))
        return made, made is not None and _is_of(begun, made) and not has_other_costs(begun, made)

    async def damage() -> str | None:
        return (await context.state(experiment)).stored.routes_damage

    return await requested(
        look, lambda: context.store.want_routes(name), damage, lambda: context.store.is_claimed(name)
    )


async def _state(context: Context, experiment: Experiment) -> PolicyState:
    """The experiment's state. Raises NotFound if it was deleted, Conflict while there are too few samples."""
    state = await context.state(experiment)
    name = experiment.config.name
    if state.stored.instance != experiment.instance:
        raise NotFound(f"experiment {name!r} was deleted and created again")
    if lacking := missing(state.stored, LEAST_ROUTED):
        raise Conflict(f"there are too few samples to say how prompts are routed: it takes {lacking}")
    if not state.can_be_scored:
        needed = state.needed_to_fit
        few = [generator.name for generator in state.stored.active if generator.batches < needed]
        raise Conflict(
            f"the bandwidth of contexts is not fixed yet: it takes {needed} told picks of each generator, and "
            f"{', '.join(few[:5])} {'has' if len(few) == 1 else 'have'} fewer"
        )
    return state


def _is_of(begun: PolicyState, made: Routes) -> bool:
    """Whether it was made of all samples that there were at the beginning."""
    routable = {generator.ordinal for generator in begun.stored.routable}
    # Generators that were added since are the last ones.
    parts = zip(begun.stored.generators, made.positions, strict=False)
    return all(seq >= g.seq if g.ordinal in routable else not seq for g, seq in parts)
