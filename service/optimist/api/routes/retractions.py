"""Routes that retract accepted batches."""

from __future__ import annotations

import logging
from typing import Annotated, Any

from fastapi import APIRouter, Query

from optimist.api.bodies.objects import ModelRoute
from optimist.api.context import Context, ContextDep
from optimist.api.middleware.access import CallerDep
from optimist.api.middleware.keys import Caller
from optimist.api.problems import invalid
from optimist.experiments.admission import kernels_of
from optimist.experiments.anomalies import retracted_batch
from optimist_client.models import Identifier, RetractionRequest, RetractReply

router = APIRouter(prefix="/v1/experiments/{name}", tags=["retractions"], route_class=ModelRoute)

logger = logging.getLogger(__name__)


@router.delete("/picks/{number}/batch")
async def retract_pick(
    name: Identifier, number: int, context: ContextDep, caller: CallerDep, request: RetractionRequest | None = None
) -> RetractReply:
    """Retract the batch that was told for a pick: it no longer counts, and telling it again answers 409.

    Scores are made anew without it. Its samples stay in the budget and the cost; its prompts are handed out again.
    """
    return await _retract(context, caller, name, request, pick=number)


@router.delete("/generators/{generator:path}/batches/{position}")
async def retract_batch(
    name: Identifier,
    generator: str,
    position: int,
    context: ContextDep,
    caller: CallerDep,
    request: RetractionRequest | None = None,
) -> RetractReply:
    """Retract the batch at a position of a generator's log, as for a pick.

    Answers 409 where the log was trimmed up to there, which needs `keep_log`; the answer says what is possible.
    """
    return await _retract(context, caller, name, request, generator, position=position)


@router.delete("/generators/{generator:path}/batches")
async def retract_generator(
    name: Identifier,
    generator: str,
    context: ContextDep,
    caller: CallerDep,
    request: RetractionRequest | None = None,
    until: Annotated[int | None, Query(ge=1, le=2**53)] = None,
) -> RetractReply:
    """Retract all batches of a generator, which starts anew from nothing; always possible.

    With `until`, where prompts are routed, only those up to this position of its log: what was learned of a model
    before its answers changed. Answers 409 where the log was trimmed beyond it; the answer says what is possible.
    """
    return await _retract(context, caller, name, request, generator, until=until)


async def _retract(
    context: Context,
    caller: Caller,
    name: str,
    request: RetractionRequest | None,
    generator: str | None = None,
    **what: Any,
) -> RetractReply:
    experiment = await context.experiment(name)
    ordinal = None if generator is None else await context.ordinal(experiment, generator)
    if what.get("until") is not None and experiment.config.goal != "route":
        raise invalid("until: only an experiment that routes prompts can retract the first batches of a generator")
    reason = (request or RetractionRequest()).reason
    kernels = [kernel for metric in experiment.config.metrics.values() for kernel in kernels_of(metric).values()]
    has_open_contexts = experiment.config.goal == "route" and experiment.config.context_bandwidth == "median"
    fits_kernels = has_open_contexts or any(kernel.is_open for kernel in kernels)
    async with context.vitals.room_for(len(reason), reserve=0.5):
        retraction, already = await context.store.retract(
            name,
            generator=ordinal,
            **what,
            who=caller.key,
            reason=reason,
            fits_kernels=fits_kernels,
            instance=experiment.instance,
        )
    context.polls.changed(name)
    if retraction is None:
        return RetractReply(retracted=[], already=already)
    generators = (await context.store.state(name)).generators
    found = retracted_batch(retraction, generators[retraction.generator].name)
    if not already:
        logger.info("%s of %s is retracted", found, context.store.full_name(name))
    return RetractReply(retracted=[found], already=already, decision_reopened=retraction.reopened)
