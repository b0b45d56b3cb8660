"""Routes of picks: ask, tell, give up."""

from __future__ import annotations

from collections.abc import Awaitable
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, Field
from starlette.routing import Match, Route
from starlette.types import Scope

from optimist.api.batches import EMBEDDING, read_batch
from optimist.api.bodies import ARRAYS_IN_OPENAPI
from optimist.api.context import ContextDep, context_of
from optimist.api.parameters import parameters_in_openapi, read_parameters
from optimist.store import Batch, NotFound
from optimist_client.models import AskReply, AskRequest, Experiment, Identifier, TellReply
from optimist_client.wire import EmbeddingName, GeneratorName, WorkerName

# Ask and tell are asked for more than anything else: they do without dependencies, read what FastAPI would read
# slowly, and answer as they stand.
PICKS = "/v1/experiments/{name}/picks"
router = APIRouter(prefix=PICKS, tags=["picks"])

INSTANCE = "The pick's `instance`: refuses it where the experiment was made again since"


@router.post("", response_model=AskReply)
async def ask(name: Identifier, http: Request, request: AskRequest | None = None) -> Response:
    """The next picks, or the decision and no pick when the experiment has ended."""
    wanted, context = request or AskRequest(), context_of(http)
    return _answer(await context.with_recent(name, lambda experiment: context.desk(experiment).ask(wanted)))


class Told(BaseModel):
    """The parameters of a tell."""

    name: Identifier
    number: int
    next: Annotated[bool, Field(description="Answer with the next pick as well")] = False
    worker: Annotated[WorkerName | None, Field(description="Whom the next pick is for")] = None
    generators: Annotated[list[GeneratorName] | None, Field(description="What it may be of, if not any")] = None
    instance: Annotated[str | None, Field(description=INSTANCE)] = None
    embedding: Annotated[EmbeddingName | None, Field(description=EMBEDDING)] = None


@router.post(
    "/{number}/batch",
    response_model=TellReply,
    openapi_extra=ARRAYS_IN_OPENAPI | parameters_in_openapi(Told, "name", "number"),
)
async def tell(request: Request) -> Response:
    """Settle a pick with the features, or class probabilities, of its samples; with their prompts and ids, if any.

    When this answers 200, the batch is durable and counts once.
    """
    context, given = context_of(request), read_parameters(Told, request)
    name, number = given.name, given.number
    # The request id makes the repeat of a lost tell-and-ask find the pick it already opened.
    # (A number too long for one is no pick's, and its tell is refused.)
    again = f"after-{number}"[:200]
    asked = AskRequest(worker=given.worker, request_id=again, generators=given.generators) if given.next else None

    async def settle(experiment: Experiment) -> tuple[TellReply, Awaitable[AskReply] | None]:
        is_known = partial(context.store.check_pick, name, number)
        batch = await read_batch(request, experiment, context.settings, given.embedding, is_known)
        parts = number, batch.digest, batch.rows, batch.body
        if given.instance is None or given.instance == experiment.instance:
            settled, following = await context.desk(experiment).tell(Batch(*parts), asked)
        else:
            settled, following = await context.store.settle(name, *parts, instance=given.instance), None
        return await context.told(experiment, settled), following

    reply, following = await context.with_recent(name, settle)
    if asked is None:
        return _answer(reply)
    try:
        then = await following if following is not None else None
    except NotFound:
        then = None
    if then is None:  # the experiment is another one by now
        then = await context.with_recent(name, lambda experiment: context.desk(experiment).ask(asked))
    return _answer(reply.model_copy(update={"next": then}))


class Straight(Route):
    """A route that Starlette serves. FastAPI's own of the same path, behind it, is there for the documentation."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Whether a request is for this route, which is what it is counted by."""
        match, found = super().matches(scope)
        return match, {**found, "route": self}


# FastAPI takes longer to come to a route than all that is done about the batch before it is sent to Redis.
straight = Straight(f"{PICKS}/{{number}}/batch", tell, methods=["POST"])


def _answer(reply: AskReply | TellReply) -> Response:
    """As FastAPI would answer with it, without checking once more what the service made itself."""
    return Response(reply.model_dump_json(), media_type="application/json")


@router.delete("/{number}", status_code=204)
async def give_up(
    name: Identifier,
    number: int,
    context: ContextDep,
    reason: Annotated[str, Query(max_length=1000)] = "",
    instance: Annotated[str | None, Query(description=INSTANCE)] = None,
) -> None:
    """Return a pick untold, so that it no longer counts as on its way."""
    await context.experiment(name)
    await context.store.give_up(name, number, reason, instance=instance)
