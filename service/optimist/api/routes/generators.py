"""Routes of generators and of what is done with their accepted batches: append, retract, accept as they are."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request

from optimist.api.app_state import AppState, AppStateDep
from optimist.api.bodies.arrays import ARRAYS_IN_OPENAPI, EncodedArrays
from optimist.api.bodies.batches import BatchEmbedding, BatchEmbeddings, read_batch
from optimist.api.bodies.objects import ModelRoute
from optimist.api.middleware.access import CallerDep
from optimist.api.middleware.permissions import ADMINISTER, WORK, Caller, permits
from optimist.api.problems import invalid
from optimist.experiments.admission import INDEXED, has_open_contexts, kernels_of
from optimist.experiments.anomalies import acceptance, retracted_batch
from optimist.records import COST
from optimist_client.models import (
    AcceptanceRequest,
    AcceptReply,
    GeneratorChange,
    GeneratorRequest,
    Identifier,
    Report,
    RetractionRequest,
    RetractReply,
    TellReply,
)
from optimist_client.previews import check_previews

router = APIRouter(prefix="/v1/experiments/{name}", route_class=ModelRoute)
logger = logging.getLogger(__name__)
START = "Index of the first sample in the generator's sequence; without it the samples have no indices"


@router.put("/picks/{number}/batch/acceptance", tags=["acceptances"])
@permits(ADMINISTER)
async def accept_pick(
    name: Identifier, number: int, app: AppStateDep, caller: CallerDep, request: AcceptanceRequest | None = None
) -> AcceptReply:
    """Accept the batch that was told for a pick as it is, though it is on another scale than others.

    A decision that rests on it is then no longer provisional, unless it rests on others, too. Answers 404 for a pick
    without a batch, 409 for a batch that was retracted.
    """
    return await accept(app, caller, name, request, pick=number)


@router.put("/generators/{generator:path}/batches/{position}/acceptance", tags=["acceptances"])
@permits(ADMINISTER)
async def accept_batch(
    name: Identifier,
    generator: str,
    position: int,
    app: AppStateDep,
    caller: CallerDep,
    request: AcceptanceRequest | None = None,
) -> AcceptReply:
    """Accept the batch at a position of a generator's log, as for a pick."""
    return await accept(app, caller, name, request, generator, position=position)


@router.put("/generators/{generator:path}/batches/acceptance", tags=["acceptances"])
@permits(ADMINISTER)
async def accept_generator(
    name: Identifier, generator: str, app: AppStateDep, caller: CallerDep, request: AcceptanceRequest | None = None
) -> AcceptReply:
    """Accept all batches of a generator so far, and with them that the generator is on a scale of its own."""
    return await accept(app, caller, name, request, generator)


async def accept(
    app: AppState,
    caller: Caller,
    name: str,
    request: AcceptanceRequest | None,
    generator: str | None = None,
    **what: Any,
) -> AcceptReply:
    """Accept the batch of a `pick`, the one at a `position`, or all of a generator."""
    experiment = await app.experiment(name)
    ordinal = None if generator is None else await app.ordinal(experiment, generator)
    reason = (request or AcceptanceRequest()).reason
    async with app.redis_health.room_for(len(reason)):
        stored, already = await app.store.accept_batch(
            name, generator=ordinal, **what, who=caller.key, reason=reason, instance=experiment.instance
        )
    app.polls.changed(name)
    accepted = acceptance(stored, await app.generator_name(experiment, stored.generator))
    if not already:
        logger.info("%s of %s is accepted", accepted, app.store.full_name(name))
    return AcceptReply(accepted=accepted, already=already)


@router.delete("/picks/{number}/batch", tags=["retractions"])
@permits(ADMINISTER)
async def retract_pick(
    name: Identifier, number: int, app: AppStateDep, caller: CallerDep, request: RetractionRequest | None = None
) -> RetractReply:
    """Retract the batch that was told for a pick: it no longer counts, and telling it again answers 409.

    Scores are made anew without it. Its samples stay in the budget and the cost; its prompts are handed out again.
    """
    return await retract(app, caller, name, request, pick=number)


@router.delete("/generators/{generator:path}/batches/{position}", tags=["retractions"])
@permits(ADMINISTER)
async def retract_batch(
    name: Identifier,
    generator: str,
    position: int,
    app: AppStateDep,
    caller: CallerDep,
    request: RetractionRequest | None = None,
) -> RetractReply:
    """Retract the batch at a position of a generator's log, as for a pick.

    Answers 409 where the log was trimmed up to there, which needs `keep_log`; the answer says what is possible.
    """
    return await retract(app, caller, name, request, generator, position=position)


@router.delete("/generators/{generator:path}/batches", tags=["retractions"])
@permits(ADMINISTER)
async def retract_generator(
    name: Identifier,
    generator: str,
    app: AppStateDep,
    caller: CallerDep,
    request: RetractionRequest | None = None,
    until: Annotated[int | None, Query(ge=1, le=2**53)] = None,
) -> RetractReply:
    """Retract all batches of a generator, which starts anew from nothing; always possible.

    With `until`, where prompts are routed, only those up to this position of its log: what was learned of a model
    before its answers changed. Answers 409 where the log was trimmed beyond it; the answer says what is possible.
    """
    return await retract(app, caller, name, request, generator, until=until)


async def retract(
    app: AppState,
    caller: Caller,
    name: str,
    request: RetractionRequest | None,
    generator: str | None = None,
    **what: Any,
) -> RetractReply:
    """Retract the batch of a `pick`, the one at a `position`, or all of a generator, `until` a position or now."""
    experiment = await app.experiment(name)
    ordinal = None if generator is None else await app.ordinal(experiment, generator)
    if what.get("until") is not None and not experiment.config.asks.has_contexts:
        raise invalid("until: only an experiment that routes prompts can retract the first batches of a generator")
    reason = (request or RetractionRequest()).reason
    kernels = [kernel for metric in experiment.config.metrics.values() for kernel in kernels_of(metric).values()]
    fits_kernels = has_open_contexts(experiment.config) or any(kernel.is_open for kernel in kernels)
    async with app.redis_health.room_for(len(reason), reserve=0.5):
        retraction, already = await app.store.retract(
            name,
            generator=ordinal,
            **what,
            who=caller.key,
            reason=reason,
            fits_kernels=fits_kernels,
            instance=experiment.instance,
        )
    app.polls.changed(name)
    if retraction is None:
        return RetractReply(retracted=[], already=already)
    retracted = retracted_batch(retraction, await app.generator_name(experiment, retraction.generator))
    if not already:
        logger.info("%s of %s is retracted", retracted, app.store.full_name(name))
    return RetractReply(retracted=[retracted], already=already, decision_reopened=retraction.reopened)


@router.post("/generators", tags=["generators"])
@permits(ADMINISTER)
async def add_generator(name: Identifier, wanted: GeneratorRequest, app: AppStateDep) -> Report:
    """Add a generator. If the experiment already has a generator of this name, nothing changes."""
    experiment = await app.experiment(name)
    state = await app.state(experiment)
    is_new = all(generator.name != wanted.name for generator in state.stored.generators)
    if is_new and wanted.cost is None and state.max_cost is not None:
        raise invalid("cost: expected a number, as an experiment with `max_cost` needs it for every generator")
    count = 1 + len(state.stored.generators)
    if is_new:
        _refusing(state.goal.check_added, experiment.config, count, wanted.cost)
    if is_new and wanted.seeds is False and experiment.config.metric.is_audited:
        raise invalid(f"seeds: {INDEXED}")
    if is_new:
        _refusing(check_previews, experiment.config.previews, count)
    seeds = experiment.config.seeds is not False if wanted.seeds is None else wanted.seeds
    await app.store.add_generator(
        name, wanted.name, limit=app.settings.max_generators, cost=wanted.cost, is_seedless=not seeds
    )
    app.polls.changed(name)
    return await app.report(experiment)


def _refusing(check: Callable[..., None], *arguments: Any) -> None:
    """Run a check of a config, and raise `ApiError` 422 instead of its FixError."""
    try:
        check(*arguments)
    except ValueError as error:
        raise invalid(str(error)) from None


@router.post("/generators/{generator:path}/batches", openapi_extra=ARRAYS_IN_OPENAPI, tags=["generators"])
@permits(WORK)
async def append(
    name: Identifier,
    generator: str,
    request: Request,
    app: AppStateDep,
    idempotency_key: Annotated[str, Header(min_length=1, max_length=200)],
    embedding: BatchEmbedding = None,
    embeddings: BatchEmbeddings = [],  # noqa: B006 (FastAPI copies it)
    start: Annotated[int | None, Query(ge=0, lt=2**32, description=START)] = None,
) -> TellReply:
    """Add samples that were generated without a pick.

    Requests with the same idempotency key, batch and `start` count once. A key is remembered for a day.

    With `start` the samples are compared with samples of the same indices of other generators. Picks of the generator
    go on at the next multiple of the batch size after them; indices that are left out before them go to no pick.
    Samples of indices that were told before do not count. A generator that ignores seeds has no indices: 422 with
    `start`.
    """
    experiment = await app.experiment(name)
    if experiment.config.asks.has_contexts:
        raise invalid("with the goal 'route' every batch is told for a pick, which has the context of its prompt")
    ordinal = await app.ordinal(experiment, generator)
    encoded = await EncodedArrays.from_request(request)
    contents = await read_batch(encoded, experiment, app.settings, embedding, embeddings)
    key, store = idempotency_key, app.store
    async with app.redis_health.room_for(len(contents.body), lambda: store.was_appended(name, ordinal, key)):
        settled = await store.append(name, ordinal, key, contents, start=start, instance=experiment.instance)
    return await app.told(experiment, settled, contents)


# This route comes last because its path also matches all longer ones.
@router.patch("/generators/{generator:path}", tags=["generators"])
@permits(ADMINISTER)
async def change_generator(name: Identifier, generator: str, change: GeneratorChange, app: AppStateDep) -> Report:
    """Pause, resume or permanently retire a generator, or change its cost. At least one must remain active.

    Batches for its open picks are still accepted. A new cost applies to all its samples, including earlier ones.
    """
    experiment = await app.experiment(name)
    ordinal = await app.ordinal(experiment, generator)
    if change.state is not None:
        await app.store.set_state(name, ordinal, change.state)
    if change.cost is not None:
        await app.store.control(name, {f"{COST}{generator}": repr(change.cost)})
    app.polls.changed(name)
    return await app.report(experiment)
