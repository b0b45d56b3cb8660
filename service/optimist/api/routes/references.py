"""Routes of references: moments of real data and perhaps its rows, uploaded once and shared by experiments."""

from __future__ import annotations

import re
import time
from typing import Annotated

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, Field

from optimist.api.app_state import AppStateDep
from optimist.api.bodies.arrays import ARRAYS_IN_OPENAPI, TENSORS_IN_OPENAPI, EncodedArrays
from optimist.api.bodies.objects import ModelRoute, run_in_thread
from optimist.api.middleware.access import CallerDep
from optimist.api.middleware.limits import BodyShare
from optimist.api.middleware.permissions import ADMINISTER, READ, permits
from optimist.api.pages import STEP, CursorQuery, LimitQuery, page_of, place_of
from optimist.api.problems import invalid
from optimist.api.references import (
    Queue,
    UploadedRows,
    check_embeddings,
    check_same,
    checked,
    delete_unused,
    memory_of,
    packed,
    standing_reference,
    stored_reference,
    users_of_references,
)
from optimist.api.temporary import TemporaryFile, spooled
from optimist.records import Conflict
from optimist_client.errors import FixError
from optimist_client.models import Identifier, ReferenceInfo, ReferencePage
from optimist_client.wire import EmbeddingName

router = APIRouter(prefix="/v1/references", tags=["references"], route_class=ModelRoute)
ROWS = re.compile(r"/v1/references/[^/]+/rows")
EmbeddingQuery = Annotated[EmbeddingName | None, Field(description="Name of the features' embedding")]


class ReferenceQuery(BaseModel):
    """The parameters of a reference beside its arrays."""

    name: Annotated[Identifier, Field(description="The name that experiments refer to")]
    samples: Annotated[int | None, Field(ge=2, le=2**53, description="Number of real samples behind the moments")] = (
        None
    )
    embedding: EmbeddingQuery = None


@router.post("", openapi_extra=ARRAYS_IN_OPENAPI)
@permits(ADMINISTER)
async def create_reference(
    request: Request,
    app: AppStateDep,
    wanted: Annotated[ReferenceQuery, Query()],
) -> ReferenceInfo:
    """Store moments (`mean` (d,) and `covariance` (d, d), or pytorch-fid's `mu` and `sigma`) or real `features` (n, d).

    `samples`, in the body or beside it, says how many features moments come from, and `some_rows` (k, d) are at most
    256 of these: differences of FID then allow for the choice of the real samples. Of features all this is computed.
    Uploading the same reference again under the same name succeeds; 409 for another one.
    """
    store, settings = app.store, app.settings
    name, samples, embedding = wanted.name, wanted.samples, wanted.embedding
    arrays = await (await EncodedArrays.from_request(request)).decode(settings)
    share: BodyShare = request.scope["memory"]
    share.hold_more(memory_of(arrays))
    # One at a time, and not in the threads that check batches, because a large reference takes seconds.
    queue: Queue = request.app.state.references
    data = await queue.run(request, checked, arrays, settings.max_dimension, samples)
    # Not in that thread, which would hold the interpreter while others have the processors.
    digest, body = await run_in_thread(8 * data.dimension**2, packed, data.moments)
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
    async with app.redis_health.room_for(len(body), lambda: store.references.is_there(name)):
        is_kept = await store.references.put(name, info.model_dump_json(), body)
    if not is_kept:
        standing = await stored_reference(store, name)
        check_embeddings(standing, embedding)
        return standing
    return info


@router.get("")
@permits(READ)
async def list_references(
    app: AppStateDep,
    caller: CallerDep,
    limit: LimitQuery = STEP,
    cursor: CursorQuery = None,
    unused: Annotated[bool, Query(description="Only those that no experiment uses: for admins")] = False,
) -> ReferencePage:
    """References, newest first; one that is there all the while is in exactly one of the pages."""
    references = app.store.references
    places = await references.newest(place_of(cursor))
    if unused:
        ADMINISTER.check(caller, None)  # it looks at every experiment of the namespace
        used = await users_of_references(app)
        places = [place for place in places if place.name not in used]
    metas, following = await page_of(places, limit, references.metas)
    return ReferencePage(references=[ReferenceInfo.model_validate_json(meta) for meta in metas], next=following)


@router.get("/{name}")
@permits(READ)
async def get_reference(name: Identifier, app: AppStateDep) -> ReferenceInfo:
    """One reference: its dimension, number of samples, embedding, size and digest."""
    return await stored_reference(app.store, name)


@router.delete("/{name}", status_code=204)
@permits(ADMINISTER)
async def delete_reference(name: Identifier, app: AppStateDep) -> None:
    """Delete a reference. 409 while an experiment uses it, which the answer names, or one is being created."""
    await delete_unused(app, name)


@router.put("/{name}/rows", openapi_extra=TENSORS_IN_OPENAPI)
@permits(ADMINISTER)
async def put_rows(
    request: Request,
    name: Identifier,
    digest: Annotated[
        str,
        Query(
            pattern="^[0-9a-f]{64}$",
            description="SHA-256 of the text `features(<n>, <d>)` and the numbers as little-endian float64, row by row",
        ),
    ],
    app: AppStateDep,
    embedding: EmbeddingQuery = None,
) -> ReferenceInfo:
    """Store a reference with its rows, as some metrics need: `features` (n, d), which may be larger than memory.

    They are written to a temporary file, and stored once all have come and have the digest: 422 otherwise, as for a
    body that was cut off. Uploading the same reference again under the same name succeeds; 409 for another one. 507
    where the temporary disk has no room for it.
    """
    store, settings = app.store, app.settings
    if standing := await standing_reference(store, name):
        check_same(standing, digest, embedding)
        return standing
    queue: Queue = request.app.state.references
    with TemporaryFile(app.redis_health.check_temporary) as file:
        size = await spooled(request, file)
        try:
            rows = UploadedRows(file, size, settings.max_dimension)
            request.scope["memory"].hold_more(rows.memory)
            for block in rows.blocks:
                await queue.run(request, rows.add, block)
            actual, scale = await queue.run(request, rows.finish)
        except FixError as error:
            raise invalid(str(error)) from None
        if actual != digest:
            raise invalid(f"the rows have the digest {actual}, not {digest}")
        info = ReferenceInfo(
            name=name,
            dimension=rows.dimension,
            samples=rows.count,
            embedding=embedding,
            scale=scale,
            rows=rows.count,
            bytes=rows.size,
            digest=digest,
            created=time.time(),
        )
        await store.references.reserve(name, settings.max_experiments)
        async with app.redis_health.room_for(rows.size, lambda: store.references.is_there(name)):
            try:
                if await store.references.put_parts(name, info.model_dump_json(), rows.parts()):
                    return info
            except Conflict:  # moments of the same rows may differ in their last bits by the machine that made them
                check_same(await stored_reference(store, name), digest, embedding)
    return await stored_reference(store, name)
