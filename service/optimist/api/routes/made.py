"""Routes of what a scorer makes when somebody asks, and how they wait for it: mixtures, modes."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, TypeVar

from fastapi import APIRouter, Query

from optimist.api.app_state import AppState, AppStateDep, metric_called
from optimist.api.bodies.objects import ModelRoute
from optimist.api.middleware.permissions import READ, READ_SAMPLES, WORK, permits
from optimist.api.problems import ApiError, invalid
from optimist.experiments.admission import needed_to_fit
from optimist.experiments.state import PolicyState
from optimist.records import (
    MIN_MIXED,
    Artefact,
    Conflict,
    ExperimentState,
    GeneratorState,
    NotFound,
    StoredArtefact,
)
from optimist_client.errors import BEING_MADE
from optimist_client.metrics import Metric
from optimist_client.models import Blend, BlendRequest, Experiment, Identifier, Mixture, Modes

router = APIRouter(prefix="/v1/experiments/{name}", route_class=ModelRoute)

_Result = TypeVar("_Result")


async def awaited(
    app: AppState,
    experiment: Experiment,
    artefact: Artefact,
    check: Callable[[PolicyState], Awaitable[None]],
    look: Callable[[], Awaitable[tuple[_Result | None, bool]]],
    patience: float = 10.0,
) -> _Result:
    """The artefact as scorers make it of the logs as they are now; an earlier one if that takes too long.

    check: raises where it cannot be made of a state; the state is read before each request to the scorers. look: reads
    what there is, None for nothing, and whether it is new enough. patience: seconds to wait for a new one.
    Raises NotFound if the experiment was deleted; `ApiError` 422 with the reason why scorers cannot make it; 503 if
    there is nothing in time: `BEING_MADE` while a scorer is at work, so that it pays to ask again for as long as that
    takes, else "no-scorer".
    """
    name, store = experiment.config.name, app.store
    deadline, ask_at, first = time.monotonic() + patience, 0.0, 0.0
    while True:
        if time.monotonic() >= ask_at:
            await check(await standing(app, experiment))
        (made, is_new), now = await look(), time.monotonic()
        if made is not None and (is_new or now >= deadline):
            return made
        # A note of earlier is not believed before a scorer had the time to try again. Those of a generator are about
        # its estimates.
        is_believed = artefact.generator is None and first and now >= first + 1.0
        if is_believed and (note := await store.artefact_error(name, artefact)):
            raise invalid(note)
        if now >= deadline:
            if artefact.generator is None and await store.is_claimed(name):
                said = "a scorer is at work on it, and requests change nothing of that: ask again until it is there"
                raise ApiError(503, BEING_MADE, "Being made", said, action="retry")
            raise ApiError(503, "no-scorer", "Not scored yet", "no scorer responded in time", action="retry")
        if now >= ask_at:
            await store.want(name, artefact)
            first, ask_at = first or now, now + 1.0  # a scorer may have missed the first request
        await asyncio.sleep(0.05)


async def standing(app: AppState, experiment: Experiment) -> PolicyState:
    """The experiment's state. Raises NotFound if it was deleted."""
    state = await app.state(experiment)
    if state.stored.instance != experiment.instance:
        raise NotFound(f"experiment {experiment.config.name!r} was deleted and created again")
    return state


async def _check_fitted(app: AppState, state: PolicyState, metric: Metric) -> None:
    """Raise `ApiError` 422 while what the metric fixes from the first samples is not fixed."""
    needed = needed_to_fit(metric, len(state.stored.active))
    if not needed or await app.store.fitted(state.config.name, metric.shown_label) is not None:
        return
    if lacking := missing(state.stored, needed):
        raise invalid(f"the kernel bandwidth is not fixed yet: it takes {lacking}")


def is_of(begun: Sequence[GeneratorState], able: Sequence[GeneratorState], positions: Sequence[int]) -> bool:
    """True if something at these positions was made of all samples that the able generators had at the beginning."""
    ordinals = {generator.ordinal for generator in able}
    # Generators that were added since are the last ones.
    parts = zip(begun, positions, strict=False)
    return all(seq >= g.seq if g.ordinal in ordinals else not seq for g, seq in parts)


def missing(stored: ExperimentState, needed: int, max_named: int = 5) -> str:
    """The active generators with fewer than `needed` samples, as text for an error; "" if there are none."""
    lacking = [generator for generator in stored.active if generator.samples < needed]
    named = [f"{needed - generator.samples} more samples of {generator.name!r}" for generator in lacking[:max_named]]
    others = [f"of {len(lacking) - max_named} others"] if len(lacking) > max_named else []
    return ", ".join(named + others)


@router.get("/mixture", tags=["experiments"])
@permits(READ)
async def get_mixture(
    name: Identifier,
    app: AppStateDep,
    metric: Annotated[str, Query(description="Label of a watched metric; by default the one that decides")] = "",
) -> Mixture:
    """The best mixture of the generators: weights, score, and what it gains over the best single generator.

    With the goal "mixture" it is the one that picks are made from; in other experiments, and by watched metrics, it is
    made now. If no scorer makes it within 10 seconds, an earlier one is returned, which `stale` may mark. Without an
    earlier one it is 503, of the type `being-made` while a scorer is at work: with many generators it takes minutes,
    whatever is asked meanwhile; ask again until it is there. 422 for metrics
    without a score of mixtures, and while there are too few samples.
    """
    experiment = await app.experiment(name)
    asked = metric_called(experiment, metric)
    if "mixtures" not in asked.offers:
        raise invalid(f"the metric {asked.shown_label!r}, with these settings, has no score of mixtures")
    begun = (await standing(app, experiment)).stored

    async def check(state: PolicyState) -> None:
        if lacking := missing(state.stored, MIN_MIXED):
            raise invalid(f"there are too few samples to say how generators blend: it takes {lacking}")
        await _check_fitted(app, state, asked)

    async def look() -> tuple[Mixture | None, bool]:
        state = await standing(app, experiment)
        made = await app.mixture(state, asked)
        if made is None:
            return None, False
        # Where picks are made from it, it is new enough unless it is due to be made again now.
        if state.stored.mixture_growth is not None and asked == experiment.config.metric and not state.has_ended:
            return made, not state.stored.is_mixture_due
        return made, is_of(begun.generators, begun.mixable, made.positions)

    return await awaited(app, experiment, Artefact("mixture", asked.shown_label), check, look)


@router.post("/blend", tags=["experiments"])
@permits(WORK)
async def blend(name: Identifier, request: BlendRequest, app: AppStateDep) -> Blend:
    """The counts of the next `size` samples to take from each generator, to serve users with the best mixture.

    The weights come from the newest mixture by the metric that decides. Remainders of rounding go to the next
    requests, whoever sends them. 409 while there is no mixture.
    """
    experiment = await app.experiment(name)
    state = await app.state(experiment)
    made = await app.mixture(state)
    if made is None:
        if "mixtures" not in experiment.config.metric.offers:
            raise invalid(f"the metric {experiment.config.metric.shown_label!r} has no score of mixtures to blend by")
        how = "is made once every generator has some samples"
        if experiment.mixture_growth is None:
            how = f"is made when somebody asks for it: GET /v1/experiments/{name}/mixture"
        raise Conflict(f"experiment {name!r} has no mixture yet; it {how}")
    ordinals = {generator.name: generator.ordinal for generator in state.contenders}
    weights = {part.generator: part.weight for part in made.weights if part.weight > 0.0 and part.generator in ordinals}
    if not (total := sum(weights.values())):
        raise Conflict("all generators of the newest mixture were retired since; it is made again soon")
    weights = {generator: weight / total for generator, weight in weights.items()}
    counts = await app.store.blend(
        name,
        {ordinals[generator]: weight for generator, weight in weights.items()},
        request.size,
        request.request_id or uuid.uuid4().hex,
        instance=experiment.instance,
    )
    shared = {generator: counts[ordinals[generator]] for generator in weights}
    return Blend(counts={generator: count for generator, count in shared.items() if count}, weights=weights)


@router.get("/generators/{generator:path}/modes", tags=["generators"])
@permits(READ_SAMPLES)
async def get_modes(
    name: Identifier,
    generator: str,
    app: AppStateDep,
    count: Annotated[int, Query(ge=1, le=20)] = 5,
    samples: Annotated[int, Query(ge=1, le=32)] = 8,
    metric: Annotated[str, Query(description="Label of a watched metric; by default the one that decides")] = "",
) -> Modes:
    """The generator's largest modes with their most typical samples (FKEA), and the score by type of prompt.

    If no scorer computes them within 10 seconds, an earlier result is returned and marked as stale.
    """
    experiment = await app.experiment(name)
    asked = metric_called(experiment, metric)
    if "modes" not in asked.offers:
        raise invalid(f"modes need a kernel, and the metric {asked.shown_label!r} has no kernel")
    ordinal = await app.ordinal(experiment, generator)
    told = (await standing(app, experiment)).stored.generators[ordinal].seq
    artefact = Artefact("modes", asked.shown_label, ordinal)

    async def check(state: PolicyState) -> None:
        of = state.stored.generators[ordinal]
        if of.batches == 0:
            raise invalid(f"generator {of.name!r} has no samples yet")
        if of.quarantined_count >= of.batches:
            reasons = [f": {batch.reason}" for batch in of.quarantined[:1]]
            raise invalid(f"no batch of generator {of.name!r} can be read{''.join(reasons)}")
        await _check_fitted(app, state, asked)

    async def look() -> tuple[StoredArtefact | None, bool]:
        made = await app.store.artefact(name, artefact)
        return made, made is not None and made.parts[ordinal].seq >= told

    modes = Modes.model_validate_json((await awaited(app, experiment, artefact, check, look)).payload)
    return modes.model_copy(
        update={
            "stale": modes.position < told,
            "modes": [mode.model_copy(update={"samples": mode.samples[:samples]}) for mode in modes.modes[:count]],
            "prompt_groups": [
                group.model_copy(update={"prompts": group.prompts[:samples]}) for group in modes.prompt_groups[:count]
            ],
        }
    )
