"""Routes of mixtures: the best blend of an experiment's generators, and what it consists of in samples."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Query

from optimist.api.asked import metric_called
from optimist.api.bodies.objects import ModelRoute
from optimist.api.context import Context, ContextDep
from optimist.api.problems import invalid
from optimist.api.requested import missing, requested
from optimist.experiments.state import PolicyState, needed_to_fit
from optimist.records import LEAST_MIXED, Conflict, NotFound
from optimist_client.metrics import Metric
from optimist_client.models import Blend, BlendRequest, Experiment, Identifier, Mixture

router = APIRouter(prefix="/v1/experiments/{name}", tags=["experiments"], route_class=ModelRoute)


@router.get("/mixture")
async def get_mixture(
    name: Identifier,
    context: ContextDep,
    metric: Annotated[str, Query(description="Label of a watched metric; by default the one that decides")] = "",
) -> Mixture:
    """The best blend of the generators: weights, score, and what it gains over the best single generator.

    With the goal "mixture" it is the one that picks are made from; in other experiments, and by watched metrics, it is
    made now. If no scorer makes it within 10 seconds, an earlier one is returned, which `stale` may mark. Without an
    earlier one it is 503, of the type `being-made` while a scorer is at work: with many generators it takes minutes,
    whatever is asked meanwhile; ask again until it is there. 422 for metrics
    without a score of blends, and while there are too few samples.
    """
    experiment = await context.experiment(name)
    asked, label = metric_called(experiment, metric)
    if "mixture" not in asked.offers:
        raise invalid(f"the metric {asked.shown_label!r}, with these settings, has no score of blends")
    return await _awaited(context, _Wanted(experiment, asked, label))


@router.post("/blend")
async def blend(name: Identifier, request: BlendRequest, context: ContextDep) -> Blend:
    """How many of the next `size` samples to take from each generator, to serve users with the best blend.

    By the weights of the newest mixture of the metric that decides. What rounding leaves over is credited to the next
    requests, whoever sends them. 409 while there is no mixture.
    """
    experiment = await context.experiment(name)
    state = await context.state(experiment)
    made = await context.mixture(state)
    if made is None:
        how = "is made once every generator has some samples"
        if state.config.goal == "best":
            how = f"is made when somebody asks for it: GET /v1/experiments/{name}/mixture"
        raise Conflict(f"experiment {name!r} has no mixture yet; it {how}")
    known = {generator.name: generator.ordinal for generator in state.contenders}
    weights = {one.generator: one.weight for one in made.weights if one.weight > 0.0 and one.generator in known}
    if not (total := sum(weights.values())):
        raise Conflict("all generators of the newest mixture were retired since; it is made again soon")
    weights = {generator: weight / total for generator, weight in weights.items()}
    counts = await context.store.blend(
        name,
        {known[generator]: weight for generator, weight in weights.items()},
        request.size,
        request.request_id or uuid.uuid4().hex,
        instance=experiment.instance,
    )
    shared = {generator: counts[known[generator]] for generator in weights}
    return Blend(counts={generator: count for generator, count in shared.items() if count}, weights=weights)


@dataclass(frozen=True)
class _Wanted:
    """Whose mixture is wanted, by which metric."""

    experiment: Experiment
    metric: Metric
    label: str
    """As the store calls the metric: "" for the one that decides."""

    def is_made(self, begun: PolicyState, state: PolicyState, made: Mixture) -> bool:
        """Whether it has been made: of all samples that there were at the beginning; or where picks are made from it,
        and it is not due to be made again now."""
        if state.config.goal == "mixture" and not self.label and not state.has_ended:
            return not state.stored.needs_mixture
        mixable = {generator.ordinal for generator in begun.stored.mixable}
        # Generators that were added since are the last ones.
        parts = zip(begun.stored.generators, made.positions, strict=False)
        return all(seq >= g.seq if g.ordinal in mixable else not seq for g, seq in parts)


async def _state(context: Context, wanted: _Wanted) -> PolicyState:
    """The experiment's state.

    Raises NotFound if the experiment was deleted, `ApiError` 422 if no mixture can be made from its samples so far.
    """
    state = await context.state(wanted.experiment)
    stored, name = state.stored, wanted.experiment.config.name
    if stored.instance != wanted.experiment.instance:
        raise NotFound(f"experiment {name!r} was deleted and created again")
    if lacking := missing(stored, LEAST_MIXED):
        raise invalid(f"there are too few samples to say how generators blend: it takes {lacking}")
    needed = needed_to_fit(wanted.metric, len(stored.active))
    if needed and await context.store.fitted(name, wanted.label) is None and (lacking := missing(stored, needed)):
        raise invalid(f"the kernel bandwidth is not fixed yet: it takes {lacking}")
    return state


async def _awaited(context: Context, wanted: _Wanted) -> Mixture:
    """The mixture of the logs as they are now, or the latest available. Raises `ApiError` 503 without any, as
    `requested` does."""
    name, label = wanted.experiment.config.name, wanted.label
    begun = await _state(context, wanted)

    async def look() -> tuple[Mixture | None, bool]:
        state = await _state(context, wanted)
        made = await context.mixture(state, label)
        return made, made is not None and wanted.is_made(begun, state, made)

    return await requested(
        look,
        lambda: context.store.want_mixture(name, label),
        lambda: context.store.mixture_damage(name, label),
        lambda: context.store.is_claimed(name),
    )
