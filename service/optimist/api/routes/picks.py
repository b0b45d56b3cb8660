"""Routes of picks: ask, tell, give up."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, Field

from optimist.api.app_state import AppStateDep, app_state_of
from optimist.api.bodies.arrays import ARRAYS_IN_OPENAPI, TENSORS_IN_OPENAPI, EncodedArrays
from optimist.api.bodies.asks import (
    IN_OPENAPI,
    AskParameters,
    bytes_of,
    check_worker,
    read_ask,
)
from optimist.api.bodies.batches import EMBEDDING, EMBEDDINGS, read_batch
from optimist.api.bodies.objects import run_in_thread
from optimist.api.middleware.permissions import WORK, GuardedRoute, permits
from optimist.api.middleware.service import RawRoute, parameters_in_openapi, read_parameters
from optimist.api.problems import ApiError, invalid, problem_of
from optimist.dispatch.dispatcher import Dispatcher
from optimist.records import NotFound, PickBatch, StoreError
from optimist.turns import charged
from optimist_client import tensors
from optimist_client.errors import FixError
from optimist_client.models import AskReply, AskRequest, Identifier, Problem, TellAllReply, TellReply
from optimist_client.models.picks import MAX_BATCHES
from optimist_client.wire import EmbeddingName, GeneratorName, WorkerName

# Ask and tell are asked for more than anything else: they do without dependencies, read what FastAPI would read
# slowly, and answer as they stand.
PICKS = "/v1/experiments/{name}/picks"
router = APIRouter(prefix=PICKS, tags=["picks"], route_class=GuardedRoute)

INSTANCE = "The pick's `instance`: refuses it where the experiment was made again since"
NONCE = "The pick's `nonce`: refuses it where the number stands for another pick by now"


@router.post("", response_model=AskReply, openapi_extra=IN_OPENAPI)
@permits(WORK)
async def ask(http: Request, request: AskRequest | None = None) -> Response:  # FastAPI reads the signature only
    """The next picks, or the decision and no pick when the experiment has ended.

    With the goal "route" it needs `contexts`, the embedding of each prompt, and answers at once with one pick for each.
    They are in the JSON, or in a body of safetensors: `contexts` (n, d), and perhaps `texts` (n, k), the prompts in
    UTF-8 with zeros behind. A body of JSON has at most 64 KiB, and 1 MiB with the goal "route"; larger ones get 413.
    """
    app, given = app_state_of(http), read_parameters(AskParameters, http)
    experiment = await app.served(given.name, http.scope)
    wanted, contexts = await read_ask(http, experiment.info, given)
    # Less is kept free of asks than of tells: that an experiment has ended should be heard for longer.
    size = bytes_of(experiment.info, wanted, contexts)
    async with app.redis_health.room_for(size, reserve=0.5):
        reply = await experiment.ask(wanted, http.scope["caller"].key, contexts)
    http.scope["waited_for"] = reply.waited_for
    return _answer(reply)


class TellParameters(BaseModel):
    """The parameters of a tell."""

    name: Identifier
    number: int
    next: Annotated[bool, Field(description="Answer with the next pick as well")] = False
    worker: Annotated[WorkerName | None, Field(description="Whom the next pick is for")] = None
    generators: Annotated[list[GeneratorName] | None, Field(description="What it may be of, if not any")] = None
    instance: Annotated[str | None, Field(description=INSTANCE)] = None
    nonce: Annotated[str, Field(pattern=r"^[0-9a-f]{1,64}$", description=NONCE)]
    embedding: Annotated[EmbeddingName | None, Field(description=EMBEDDING)] = None
    embeddings: Annotated[list[str], Field(description=EMBEDDINGS)] = []


@router.post(
    "/{number}/batch",
    response_model=TellReply,
    openapi_extra=ARRAYS_IN_OPENAPI | parameters_in_openapi(TellParameters, "name", "number"),
)
@permits(WORK)
async def tell(request: Request) -> Response:
    """Settle a pick with the features or class probabilities of its samples; with prompts, ids and records, if any.

    When this answers 200, the batch is durable and counts once.
    """
    app, given = app_state_of(request), read_parameters(TellParameters, request)
    experiment = await app.served(given.name, request.scope)
    info, then = experiment.info, None
    if given.next:
        if info.config.context is not None:
            raise invalid("next: a pick of the goal 'route' is for a prompt: ask for it with its context")
        check_worker(info, given.worker)
        # By its id the repeat of a lost tell-and-ask finds the pick that it opened; nobody else can guess it.
        again = f"after-{given.nonce}"
        then = AskRequest(worker=given.worker, request_id=again, generators=given.generators)
    if given.instance not in (None, info.instance):
        raise NotFound("the experiment was deleted and made again since")
    encoded = await EncodedArrays.from_request(request)
    reply, following = await _told(request, experiment, encoded, given, given.number, given.nonce, then)
    if following is not None:
        reply = reply.model_copy(update={"next": (asked := await following)})
        request.scope["waited_for"] = asked.waited_for
    return _answer(reply)


class TellAllParameters(BaseModel):
    """The parameters of several tells."""

    name: Identifier
    instance: Annotated[str, Field(description=INSTANCE)]
    picks: Annotated[
        list[Annotated[str, Field(pattern=r"^\d{1,15}\.[0-9a-f]{1,64}$")]],
        Field(
            min_length=1,
            max_length=MAX_BATCHES,
            description="`<number>.<nonce>` of each pick, in the order of the bodies",
        ),
    ]
    embedding: Annotated[EmbeddingName | None, Field(description=EMBEDDING)] = None
    embeddings: Annotated[list[str], Field(description=EMBEDDINGS)] = []


@router.post(
    "/batches",
    response_model=TellAllReply,
    openapi_extra=TENSORS_IN_OPENAPI | parameters_in_openapi(TellAllParameters, "name"),
)
@permits(WORK)
async def tell_all(request: Request) -> Response:
    """Settle several picks with a body of safetensors for each, one after another, as by a tell of each.

    Each is accepted, or refused, by itself: `replies` and `problems` say so by the numbers of the picks. When this
    answers 200, those that were accepted are durable and count once. After any other answer send all of them again.
    """
    app, given = app_state_of(request), read_parameters(TellAllParameters, request)
    experiment = await app.served(given.name, request.scope)
    if given.instance != experiment.info.instance:
        raise NotFound("the experiment was deleted and made again since")
    encoded = await EncodedArrays.from_request(request)
    bodies = await run_in_thread(encoded.work, _split, encoded, len(given.picks))
    picks = [(int(number), nonce) for number, _, nonce in (pick.partition(".") for pick in given.picks)]

    replies, problems = dict[int, TellReply](), dict[int, Problem]()

    async def settle(number: int, nonce: str, body: bytes) -> None:
        part = replace(encoded, content=body, work=len(body))
        try:
            replies[number], _ = await _told(request, experiment, part, given, number, nonce)
        except (ApiError, StoreError) as error:
            problem = (error if isinstance(error, ApiError) else problem_of(error)).problem
            if problem.action == "retry":
                raise
            problems[number] = problem

    begun = list[asyncio.Task[None]]()
    for pick, body in zip(picks, bodies, strict=True):
        begun.append(asyncio.create_task(charged(settle(*pick, body))))
        await asyncio.sleep(0)  # others go on between two of them
    for failed in await asyncio.gather(*begun, return_exceptions=True):
        if failed is not None:
            raise failed
    return _answer(TellAllReply(replies=replies, problems=problems))


raw = [RawRoute(f"{PICKS}/{{number}}/batch", tell), RawRoute(f"{PICKS}/batches", tell_all), RawRoute(PICKS, ask)]
"""The busiest one first, because every request is matched against them."""


async def _told(
    request: Request,
    experiment: Dispatcher,
    encoded: EncodedArrays,
    given: TellParameters | TellAllParameters,
    number: int,
    nonce: str,
    then: AskRequest | None = None,
) -> tuple[TellReply, asyncio.Future[AskReply] | None]:
    """Settle one pick; also returns the future answer to `then`, as `Dispatcher.tell` does."""
    app, info = app_state_of(request), experiment.info
    if encoded.is_large:
        await app.store.check_pick(given.name, number)
    contents = await read_batch(encoded, info, app.settings, given.embedding, given.embeddings)
    async with app.redis_health.room_for(len(contents.body), lambda: app.store.has_ended(given.name, number)):
        batch = PickBatch(number, nonce, contents)
        settled, following = await experiment.tell(batch, then, request.scope["caller"].key)
    return await app.told(info, settled, contents), following


def _split(encoded: EncodedArrays, picks: int) -> list[bytes]:
    """The body of the batch of each pick. Raises `ApiError` 415 for JSON, 422 for others than that."""
    if encoded.is_json:
        raise ApiError(415, "media-type", "Unsupported media type", f"expected {tensors.MEDIA_TYPE}, got JSON")
    try:
        return tensors.split(encoded.content, picks)
    except FixError as error:
        raise invalid(f"picks: {error}") from None


def _answer(reply: AskReply | TellReply | TellAllReply) -> Response:
    """The answer that FastAPI would give, without checking once more what the service made itself."""
    return Response(reply.model_dump_json(), media_type="application/json")


@router.delete("/{number}", status_code=204)
@permits(WORK)
async def give_up(
    name: Identifier,
    number: int,
    app: AppStateDep,
    reason: Annotated[str, Query(max_length=1000)] = "",
    instance: Annotated[str | None, Query(description=INSTANCE)] = None,
    nonce: Annotated[str, Query(pattern=r"^[0-9a-f]{0,64}$", description=NONCE)] = "",
) -> None:
    """Return a pick untold, so that it no longer counts as on its way."""
    await app.experiment(name)
    await app.store.give_up(name, number, reason, nonce=nonce, instance=instance)
    app.wake(name)  # an ask may be refused because of this pick
