"""Routes of what a scorer makes when somebody asks, and how they wait for it: mixtures, routing tables, modes."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated, TypeVar

from fastapi import APIRouter, Query

from optimist.api.bodies.objects import ModelRoute
from optimist.api.context import Context, ContextDep, metric_called
from optimist.api.problems import ApiError, invalid
from optimist.experiments.admission import needed_to_fit
from optimist.experiments.standings import has_other_costs
from optimist.experiments.state import PolicyState
from optimist.records import LEAST_MIXED, LEAST_ROUTED, Conflict, ExperimentState, NotFound
from optimist_client.errors import BEING_MADE
from optimist_client.metrics import Metric
from optimist_client.models import Blend, BlendRequest, Experiment, Identifier, Mixture, Modes, Routes

router = APIRouter(prefix="/v1/experiments/{name}", route_class=ModelRoute)

POLL = 0.05
"""Seconds between checks for the result."""
ASK_AGAIN = 1.0
"""Seconds between requests to the scorers: a scorer may have missed the first one."""
PATIENCE = 10.0
"""Maximum seconds to wait for the result."""
BELIEVED = 1.0
"""Seconds after which a note of a scorer that it cannot be made is the answer."""
NAMED = 5
"""Maximum number of generators that an error names."""

Result = TypeVar("Result")


async def requested(
    look: Callable[[], Awaitable[tuple[Result | None, bool]]],
    want: Callable[[], Awaitable[None]],
    error: Callable[[], Awaitable[str | None]] | None = None,
    is_at_work: Callable[[], Awaitable[bool]] | None = None,
) -> Result:
    """The newest result of a scorer; an earlier one if it has not been made anew in time.

    look: reads what there is, None for nothing, and whether it is new enough; it raises if it cannot be made. want:
    tells the scorers to make it. error: why they cannot, None if they can. is_at_work: whether a scorer is at it.
    Raises `ApiError` 422 with the reason of `error`, 503 if there is nothing in time: `BEING_MADE` while a scorer is at
    work, so that it pays to ask again for as long as that takes, else "no-scorer".
    """
    deadline, ask_at, first = time.monotonic() + PATIENCE, 0.0, 0.0
    while True:
        (made, is_new), now = await look(), time.monotonic()
        if made is not None and (is_new or now >= deadline):
            return made
        # A note of earlier is not believed before a scorer had the time to try again.
        if error is not None and first and now >= first + BELIEVED and (note := await error()):
            raise invalid(note)
        if now >= deadline:
            if is_at_work is not None and await is_at_work():
                said = "a scorer is at work on it, and requests change nothing of that: ask again until it is there"
                raise ApiError(503, BEING_MADE, "Being made", said, action="retry")
            raise ApiError(503, "no-scorer", "Not scored yet", "no scorer responded in time", action="retry")
        if now >= ask_at:
            await want()
            first, ask_at = first or now, now + ASK_AGAIN
        await asyncio.sleep(POLL)


def missing(stored: ExperimentState, needed: int) -> str:
    """The active generators with fewer than `needed` samples, as text for an error; "" if there are none."""
    lacking = [generator for generator in stored.active if generator.samples < needed]
    named = [f"{needed - generator.samples} more samples of {generator.name!r}" for generator in lacking[:NAMED]]
    others = [f"of {len(lacking) - NAMED} others"] if len(lacking) > NAMED else []
    return ", ".join(named + others)


@router.get("/mixture", tags=["experiments"])
async def get_mixture(
    name: Identifier,
    context: ContextDep,
    metric: Annotated[str, Query(description="Label of a watched metric; by default the one that decides")] = "",
) -> Mixture:
    """The best mixture of the generators: weights, score, and what it gains over the best single generator.

    With the goal "mixture" it is the one that picks are made from; in other experiments, and by watched metrics, it is
    made now. If no scorer makes it within 10 seconds, an earlier one is returned, which `stale` may mark. Without an
    earlier one it is 503, of the type `being-made` while a scorer is at work: with many generators it takes minutes,
    whatever is asked meanwhile; ask again until it is there. 422 for metrics
    without a score of mixtures, and while there are too few samples.
    """
    experiment = await context.experiment(name)
    asked, label = metric_called(experiment, metric)
    if "mixtures" not in asked.offers:
        raise invalid(f"the metric {asked.shown_label!r}, with these settings, has no score of mixtures")
    return await _awaited_mixture(context, _WantedMixture(experiment, asked, label))


@router.post("/blend", tags=["experiments"])
async def blend(name: Identifier, request: BlendRequest, context: ContextDep) -> Blend:
    """How many of the next `size` samples to take from each generator, to serve users with the best mixture.

    By the weights of the newest mixture of the metric that decides. What rounding leaves over is credited to the next
    requests, whoever sends them. 409 while there is no mixture.
    """
    experiment = await context.experiment(name)
    state = await context.state(experiment)
    made = await context.mixture(state)
    if made is None:
        how = "is made once every generator has some samples"
        if experiment.mixture_growth is None:
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
class _WantedMixture:
    """Whose mixture is wanted, by which metric."""

    experiment: Experiment
    metric: Metric
    label: str
    """The store's name of the metric: "" for the one that decides."""

    def is_made(self, begun: PolicyState, state: PolicyState, made: Mixture) -> bool:
        """Whether the mixture was made of all samples that there were at the beginning; or, where picks are made from
        it, whether it is not due to be made again now."""
        if state.stored.mixture_growth is not None and not self.label and not state.has_ended:
            return not state.stored.is_mixture_due
        mixable = {generator.ordinal for generator in begun.stored.mixable}
        # Generators that were added since are the last ones.
        parts = zip(begun.stored.generators, made.positions, strict=False)
        return all(seq >= g.seq if g.ordinal in mixable else not seq for g, seq in parts)


async def _mixture_state(context: Context, wanted: _WantedMixture) -> PolicyState:
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


async def _awaited_mixture(context: Context, wanted: _WantedMixture) -> Mixture:
    """The mixture of the logs as they are now, or the latest available. Raises `ApiError` 503 without any, as
    `requested` does."""
    name, label = wanted.experiment.config.name, wanted.label
    begun = await _mixture_state(context, wanted)

    async def look() -> tuple[Mixture | None, bool]:
        state = await _mixture_state(context, wanted)
        made = await context.mixture(state, label)
        return made, made is not None and wanted.is_made(begun, state, made)

    return await requested(
        look,
        lambda: context.store.want_mixture(name, label),
        lambda: context.store.mixture_error(name, label),
        lambda: context.store.is_claimed(name),
    )


@router.get("/routes", tags=["experiments"])
async def get_routes(name: Identifier, context: ContextDep) -> Routes:
    """Which generator is the best one for which prompts, and what routing gains over the best single generator.

    It is made now. If no scorer makes it within 10 seconds, an earlier one is returned, which `stale` may mark. Without
    an earlier one it is 503, of the type `being-made` while a scorer is at work: ask again. 422 with another goal
    than "route", 409 while there are too few samples.
    """
    experiment = await context.experiment(name)
    if not experiment.config.asks.has_contexts:
        raise invalid(f"only experiments with the goal 'route' have routes; the goal is {experiment.config.goal!r}")
    begun = await _routed_state(context, experiment)

    async def look() -> tuple[Routes | None, bool]:
        made = await context.routing_table(await _routed_state(context, experiment))
        return made, made is not None and _is_of(begun, made) and not has_other_costs(begun, made)

    async def error() -> str | None:
        return (await context.state(experiment)).stored.routes_error

    return await requested(look, lambda: context.store.want_routes(name), error, lambda: context.store.is_claimed(name))


async def _routed_state(context: Context, experiment: Experiment) -> PolicyState:
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
    """Whether the table was made of all samples that there were at the beginning."""
    routable = {generator.ordinal for generator in begun.stored.routable}
    # Generators that were added since are the last ones.
    parts = zip(begun.stored.generators, made.positions, strict=False)
    return all(seq >= g.seq if g.ordinal in routable else not seq for g, seq in parts)


@router.get("/generators/{generator:path}/modes", tags=["generators"])
async def get_modes(
    name: Identifier,
    generator: str,
    context: ContextDep,
    count: Annotated[int, Query(ge=1, le=20)] = 5,
    samples: Annotated[int, Query(ge=1, le=32)] = 8,
    metric: Annotated[str, Query(description="Label of a watched metric; by default the one that decides")] = "",
) -> Modes:
    """The generator's largest modes with their most typical samples (FKEA), and the score by type of prompt.

    If no scorer computes them within 10 seconds, an earlier result is returned and marked as stale.
    """
    experiment = await context.experiment(name)
    asked, label = metric_called(experiment, metric)
    if "modes" not in asked.offers:
        raise invalid(f"modes need a kernel, and the metric {asked.shown_label!r} has no kernel")
    ordinal = await context.ordinal(experiment, generator)
    wanted = _WantedModes(experiment, ordinal, asked, label)
    told = await _position(context, wanted)
    modes = await _awaited_modes(context, wanted, told)
    return modes.model_copy(
        update={
            "stale": modes.position < told,
            "modes": [mode.model_copy(update={"samples": mode.samples[:samples]}) for mode in modes.modes[:count]],
            "prompt_groups": [
                group.model_copy(update={"prompts": group.prompts[:samples]}) for group in modes.prompt_groups[:count]
            ],
        }
    )


@dataclass(frozen=True)
class _WantedModes:
    """Whose modes are wanted, by which metric."""

    experiment: Experiment
    ordinal: int
    metric: Metric
    label: str
    """The store's name of the metric: "" for the one that decides."""


async def _position(context: ContextDep, wanted: _WantedModes) -> int:
    """The generator's log position.

    Raises NotFound if the experiment was deleted, `ApiError` 422 if no modes can be computed from its batches so far.
    """
    experiment = wanted.experiment
    stored = await context.store.state(experiment.config.name)
    if stored.instance != experiment.instance:
        raise NotFound(f"experiment {experiment.config.name!r} was deleted and created again")
    generator = stored.generators[wanted.ordinal]
    if generator.batches == 0:
        raise invalid(f"generator {generator.name!r} has no samples yet")
    if generator.quarantined_count >= generator.batches:
        reasons = [f": {one.reason}" for one in generator.quarantined[:1]]
        raise invalid(f"no batch of generator {generator.name!r} can be read{''.join(reasons)}")
    needed = needed_to_fit(wanted.metric, len(stored.active))
    if needed and await context.store.fitted(experiment.config.name, wanted.label) is None:
        lacking = missing(stored, needed)
        if lacking:
            raise invalid(f"the kernel bandwidth is not fixed yet: it takes {lacking}")
    return generator.seq


async def _awaited_modes(context: ContextDep, wanted: _WantedModes, position: int) -> Modes:
    """The modes at log position `position` or later, or the latest available. Raises `ApiError` 503 without any."""
    name, ordinal, label = wanted.experiment.config.name, wanted.ordinal, wanted.label

    async def look() -> tuple[str | None, bool]:
        made = await context.store.modes(name, ordinal, label)
        return (None, False) if made is None else (made[1], made[0] >= position)

    async def want() -> None:
        await _position(context, wanted)  # raises if all batches turn out to be unreadable
        await context.store.want_modes(name, ordinal, label)

    return Modes.model_validate_json(await requested(look, want))
