"""Routes of references: real-data moments, uploaded once and shared by experiments."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import Future
from typing import Annotated, TypeVar

from fastapi import APIRouter, Query, Request

from optimist.api.bodies.arrays import ARRAYS_IN_OPENAPI, read_arrays
from optimist.api.bodies.moments import Queue, memory_of, stored
from optimist.api.context import ContextDep, SettingsDep, StoreDep
from optimist.api.door.limits import Share
from optimist.api.problems import ApiError, gone_away
from optimist_client.models import Identifier, ReferenceInfo
from optimist_client.wire import EmbeddingName

router = APIRouter(prefix="/v1/references", tags=["references"])
Result = TypeVar("Result")


@router.post("", openapi_extra=ARRAYS_IN_OPENAPI)
async def create_reference(
    request: Request,
    context: ContextDep,
    store: StoreDep,
    settings: SettingsDep,
    name: Annotated[Identifier, Query(description="What experiments will call it")],
    samples: Annotated[int | None, Query(ge=1, description="How many real samples the moments come from")] = None,
    embedding: Annotated[EmbeddingName | None, Query(description="What made the features")] = None,
) -> ReferenceInfo:
    """Store moments (`mean` (d,) and `covariance` (d, d), or pytorch-fid's `mu` and `sigma`) or real `features` (n, d).

    The same moments again under the same name are accepted; others are refused with 409.
    """
    arrays = await read_arrays(request, settings)
    rows = len(arrays["features"]) if "features" in arrays and arrays["features"].ndim else None
    share: Share = request.scope["memory"]
    share.hold_more(memory_of(arrays))
    # One at a time, and not in the threads that check batches: a large one takes seconds.
    queue: Queue = request.app.state.references
    dimension, digest, scale, body = await _awaited(request, queue.submit(stored, arrays, settings.max_dimension))
    await store.references.reserve(name, settings.max_experiments)
    info = ReferenceInfo(
        name=name,
        dimension=dimension,
        samples=samples if rows is None else rows,
        embedding=embedding,
        digest=digest,
        scale=scale,
        created=time.time(),
    )
    async with context.vitals.room_for(len(body), lambda: store.references.is_there(name)):
        is_kept = await store.references.put(name, info.model_dump_json(), body)
    if not is_kept:
        standing = await stored_reference(store, name)
        check_embeddings(standing, embedding)
        return standing
    return info


@router.get("")
async def list_references(store: StoreDep) -> list[ReferenceInfo]:
    """All references, oldest first."""
    return [ReferenceInfo.model_validate_json(meta) for meta in (await store.references.all()).values()]


@router.get("/{name}")
async def get_reference(name: Identifier, store: StoreDep) -> ReferenceInfo:
    """One reference's dimension, origin and digest."""
    return await stored_reference(store, name)


async def stored_reference(store: StoreDep, name: str) -> ReferenceInfo:
    """The reference called `name`. Raises `ApiError` 404."""
    meta = await store.references.meta(name)
    if meta is None:
        raise ApiError(404, "not-found", "Not found", f"no reference is called {name!r}: upload it first")
    return ReferenceInfo.model_validate_json(meta)


def check_embeddings(reference: ReferenceInfo, embedding: str | None) -> None:
    """Raise `ApiError` 409 where a reference is known to be of another embedding than the one named."""
    if embedding is not None and reference.embedding not in (None, embedding):
        raise ApiError(
            409,
            "conflict",
            "Features of two embeddings cannot be compared",
            f"reference {reference.name!r} is of embedding {reference.embedding!r}, not of {embedding!r}",
        )


async def _awaited(request: Request, future: Future[Result]) -> Result:
    """What a future comes to; where the client leaves before it has begun, it is cancelled, and `ApiError` raised."""
    answer = asyncio.wrap_future(future)
    leaving = asyncio.ensure_future(_until_left(request))
    try:
        await asyncio.wait((answer, leaving), return_when=asyncio.FIRST_COMPLETED)
        if not answer.done() and future.cancel():
            raise gone_away()
        return await answer
    finally:
        leaving.cancel()
        future.cancel()


async def _until_left(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
