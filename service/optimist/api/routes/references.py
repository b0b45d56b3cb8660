"""Routes of references: moments of real data and perhaps its rows, uploaded once and shared by experiments."""

from __future__ import annotations

import time
from typing import Annotated

from fastapi import APIRouter, Query, Request

from optimist.api.bodies.arrays import ARRAYS_IN_OPENAPI, read_arrays
from optimist.api.bodies.aside import aside
from optimist.api.bodies.moments import Queue, checked, memory_of, packed
from optimist.api.context import ContextDep, SettingsDep, StoreDep
from optimist.api.middleware.access import CallerDep
from optimist.api.middleware.limits import Share
from optimist.api.pages import STEP, CursorQuery, LimitQuery, page_of, place_of
from optimist.api.problems import invalid
from optimist.api.references import check_embeddings, stored_reference
from optimist.api.routes.uploads import keep_rows
from optimist_client.models import Identifier, ReferenceInfo, ReferencePage
from optimist_client.wire import EmbeddingName

router = APIRouter(prefix="/v1/references", tags=["references"])


@router.post("", openapi_extra=ARRAYS_IN_OPENAPI)
async def create_reference(
    request: Request,
    context: ContextDep,
    store: StoreDep,
    settings: SettingsDep,
    caller: CallerDep,
    name: Annotated[Identifier, Query(description="The name that experiments refer to")],
    samples: Annotated[
        int | None, Query(ge=2, le=2**53, description="Number of real samples behind the moments")
    ] = None,
    embedding: Annotated[EmbeddingName | None, Query(description="Name of the features' embedding")] = None,
    keep: Annotated[bool, Query(alias="rows", description="Whether to keep the rows of the features")] = False,
) -> ReferenceInfo:
    """Store moments (`mean` (d,) and `covariance` (d, d), or pytorch-fid's `mu` and `sigma`) or real `features` (n, d).

    `samples`, in the body or beside it, says how many features moments come from, and `some_rows` (k, d) are at most
    256 of these: differences of FID then allow for the choice of the real samples. Of features all this is computed.
    With `rows` the features are kept, too, as some metrics need it; see also the upload in pieces. Uploading the same
    reference again under the same name succeeds; 409 for another one.
    """
    arrays = await read_arrays(request, settings)
    if keep:
        if set(arrays) != {"features"}:
            raise invalid(f"rows: only features have rows to keep; found {', '.join(sorted(arrays)) or 'nothing'}")
        features = arrays["features"]
        return await keep_rows(request, context, store, caller, name, features, samples, embedding)
    share: Share = request.scope["memory"]
    share.hold_more(memory_of(arrays))
    # One at a time, and not in the threads that check batches, because a large reference takes seconds.
    queue: Queue = request.app.state.references
    data = await queue.run(request, checked, arrays, settings.max_dimension, samples)
    # Not in that thread, which would hold the interpreter while others have the processors.
    digest, body = await aside(8 * data.dimension**2, packed, data.moments)
    info = ReferenceInfo(
        name=name,
        dimension=data.dimension,
        samples=data.samples,
        embedding=embedding,
        digest=digest,
        scale=data.scale,
        bytes=len(body),
        created=time.time(),
    )
    del data
    await store.references.reserve(name, settings.max_experiments)
    async with context.vitals.room_for(len(body), lambda: store.references.is_there(name)):
        is_kept = await store.references.put(name, info.model_dump_json(), body)
    if not is_kept:
        standing = await stored_reference(store, name)
        check_embeddings(standing, embedding)
        return standing
    return info


@router.get("")
async def list_references(store: StoreDep, limit: LimitQuery = STEP, cursor: CursorQuery = None) -> ReferencePage:
    """References, newest first; one that is there all the while is in exactly one of the pages."""
    places = await store.references.newest(place_of(cursor))
    metas, following = await page_of(places, limit, store.references.metas)
    return ReferencePage(references=[ReferenceInfo.model_validate_json(meta) for meta in metas], next=following)


@router.get("/{name}")
async def get_reference(name: Identifier, store: StoreDep) -> ReferenceInfo:
    """One reference: its dimension, number of samples, embedding, size and digest."""
    return await stored_reference(store, name)
