"""Routes of picks: ask, tell, give up."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request

from optimist.api.batches import Embedding, read_batch
from optimist.api.bodies import ARRAYS_IN_OPENAPI
from optimist.api.context import ContextDep
from optimist_client.models import AskReply, AskRequest, Experiment, Identifier, TellReply, WorkerName

router = APIRouter(prefix="/v1/experiments/{name}/picks", tags=["picks"])

Instance = Annotated[
    str | None, Query(description="The pick's `instance`: refuses it where the experiment was made again since")
]


@router.post("")
async def ask(name: Identifier, context: ContextDep, request: AskRequest | None = None) -> AskReply:
    """The next picks, or the decision and no pick when the experiment has ended."""
    return await context.with_recent(name, lambda experiment: context.desk(experiment).ask(request or AskRequest()))


@router.post("/{number}/batch", openapi_extra=ARRAYS_IN_OPENAPI)
async def tell(
    name: Identifier,
    number: int,
    request: Request,
    context: ContextDep,
    next_: Annotated[bool, Query(alias="next", description="Answer with the next pick as well")] = False,
    worker: Annotated[WorkerName | None, Query(description="Whom the next pick is for")] = None,
    instance: Instance = None,
    embedding: Embedding = None,
) -> TellReply:
    """Settle a pick with the features, or class probabilities, of its samples; with their prompts and ids, if any.

    When this answers 200, the batch is durable and counts once.
    """

    async def settle(experiment: Experiment) -> TellReply:
        batch = await read_batch(request, experiment, context.settings, embedding)
        settled = await context.store.settle(
            name, number, batch.digest, batch.rows, batch.body, instance=instance or experiment.instance
        )
        return await context.told(experiment, settled)

    reply = await context.with_recent(name, settle)
    if not next_:
        return reply
    # The request id makes the repeat of a lost tell-and-ask find the pick it already opened.
    asked = AskRequest(worker=worker, request_id=f"after-{number}")
    following = await context.with_recent(name, lambda experiment: context.desk(experiment).ask(asked))
    return reply.model_copy(update={"next": following})


@router.delete("/{number}", status_code=204)
async def give_up(
    name: Identifier,
    number: int,
    context: ContextDep,
    reason: Annotated[str, Query(max_length=1000)] = "",
    instance: Instance = None,
) -> None:
    """Return a pick untold, so that it no longer counts as on its way."""
    await context.experiment(name)
    await context.store.give_up(name, number, reason, instance=instance)
