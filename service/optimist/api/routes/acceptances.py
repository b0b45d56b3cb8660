"""Routes that accept batches on another scale as they are."""

from __future__ import annotations

import logging
from typing import Any

from fastapi import APIRouter

from optimist.api.bodies.objects import ModelRoute
from optimist.api.context import Context, ContextDep
from optimist.api.middleware.access import CallerDep
from optimist.api.middleware.keys import Caller
from optimist.experiments.anomalies import acceptance
from optimist_client.models import AcceptanceRequest, AcceptReply, Identifier

router = APIRouter(prefix="/v1/experiments/{name}", tags=["acceptances"], route_class=ModelRoute)

logger = logging.getLogger(__name__)


@router.put("/picks/{number}/batch/acceptance")
async def accept_pick(
    name: Identifier, number: int, context: ContextDep, caller: CallerDep, request: AcceptanceRequest | None = None
) -> AcceptReply:
    """Accept the batch that was told for a pick as it is, though it is on another scale than others.

    A decision that rests on it is then no longer provisional, unless it rests on others, too. Answers 404 for a pick
    without a batch, 409 for a batch that was retracted.
    """
    return await _accept(context, caller, name, request, pick=number)


@router.put("/generators/{generator:path}/batches/{position}/acceptance")
async def accept_batch(
    name: Identifier,
    generator: str,
    position: int,
    context: ContextDep,
    caller: CallerDep,
    request: AcceptanceRequest | None = None,
) -> AcceptReply:
    """Accept the batch at a position of a generator's log, as for a pick."""
    return await _accept(context, caller, name, request, generator, position=position)


@router.put("/generators/{generator:path}/batches/acceptance")
async def accept_generator(
    name: Identifier, generator: str, context: ContextDep, caller: CallerDep, request: AcceptanceRequest | None = None
) -> AcceptReply:
    """Accept all batches of a generator so far, and with them that the generator is on a scale of its own."""
    return await _accept(context, caller, name, request, generator)


async def _accept(
    context: Context,
    caller: Caller,
    name: str,
    request: AcceptanceRequest | None,
    generator: str | None = None,
    **what: Any,
) -> AcceptReply:
    experiment = await context.experiment(name)
    ordinal = None if generator is None else await context.ordinal(experiment, generator)
    reason = (request or AcceptanceRequest()).reason
    async with context.vitals.room_for(len(reason)):
        stored, already = await context.store.accept_batch(
            name, generator=ordinal, **what, who=caller.key, reason=reason, instance=experiment.instance
        )
    context.polls.changed(name)
    generators = (await context.store.state(name)).generators
    found = acceptance(stored, generators[stored.generator].name)
    if not already:
        logger.info("%s of %s is accepted", found, context.store.full_name(name))
    return AcceptReply(accepted=found, already=already)
