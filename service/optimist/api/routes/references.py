"""Routes of references: moments of real data and perhaps its rows, uploaded once and shared by experiments.

Rows come in one request, or in pieces: begin, send each piece, complete.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import Annotated

import numpy as np
from fastapi import APIRouter, Path, Query, Request
from numpy.typing import NDArray
from pydantic import BaseModel, Field, ValidationError

from optimist.api.alone import Alone
from optimist.api.bodies.arrays import ARRAYS_IN_OPENAPI, Arrays, EncodedArrays
from optimist.api.bodies.objects import ModelRoute, run_in_thread
from optimist.api.context import Context, ContextDep, SettingsDep, StoreDep
from optimist.api.middleware.access import CallerDep
from optimist.api.middleware.keys import Caller
from optimist.api.middleware.limits import SMALL, Share
from optimist.api.middleware.permissions import ADMINISTER, READ, permits
from optimist.api.pages import STEP, CursorQuery, LimitQuery, page_of, place_of
from optimist.api.problems import ApiError, invalid
from optimist.api.references import (
    FEATURES,
    Gathered,
    Layout,
    Queue,
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
from optimist.numerics.batches import check_rows
from optimist.records import Conflict, Full, NotFound, codec
from optimist.store import Store
from optimist.store.references import CHUNK_BYTES, Uploads
from optimist_client import tensors
from optimist_client.errors import FixError
from optimist_client.models import Identifier, ReferenceInfo, ReferencePage, UploadRequest, UploadState
from optimist_client.models.references import Digest
from optimist_client.validation import in_words
from optimist_client.wire import EmbeddingName

router = APIRouter(prefix="/v1/references", tags=["references"], route_class=ModelRoute)
NONE = "there is no such upload, or it has expired: begin it again"


class ReferenceQuery(BaseModel):
    """What is said of a reference beside its arrays."""

    name: Annotated[Identifier, Field(description="The name that experiments refer to")]
    samples: Annotated[int | None, Field(ge=2, le=2**53, description="Number of real samples behind the moments")] = (
        None
    )
    embedding: Annotated[EmbeddingName | None, Field(description="Name of the features' embedding")] = None
    rows: Annotated[bool, Field(description="Whether to keep the rows of the features")] = False


@router.post("", openapi_extra=ARRAYS_IN_OPENAPI)
@permits(ADMINISTER)
async def create_reference(
    request: Request,
    context: ContextDep,
    store: StoreDep,
    settings: SettingsDep,
    caller: CallerDep,
    wanted: Annotated[ReferenceQuery, Query()],
) -> ReferenceInfo:
    """Store moments (`mean` (d,) and `covariance` (d, d), or pytorch-fid's `mu` and `sigma`) or real `features` (n, d).

    `samples`, in the body or beside it, says how many features moments come from, and `some_rows` (k, d) are at most
    256 of these: differences of FID then allow for the choice of the real samples. Of features all this is computed.
    With `rows` the features are kept, too, as some metrics need it; see also the upload in pieces. Uploading the same
    reference again under the same name succeeds; 409 for another one.
    """
    name, samples, embedding = wanted.name, wanted.samples, wanted.embedding
    arrays = await (await EncodedArrays.from_request(request)).decode(settings)
    if wanted.rows:
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
    async with context.redis_health.room_for(len(body), lambda: store.references.is_there(name)):
        is_kept = await store.references.put(name, info.model_dump_json(), body)
    if not is_kept:
        standing = await stored_reference(store, name)
        check_embeddings(standing, embedding)
        return standing
    return info


@router.get("")
@permits(READ)
async def list_references(
    context: ContextDep,
    store: StoreDep,
    caller: CallerDep,
    limit: LimitQuery = STEP,
    cursor: CursorQuery = None,
    unused: Annotated[bool, Query(description="Only those that no experiment uses: for admins")] = False,
) -> ReferencePage:
    """References, newest first; one that is there all the while is in exactly one of the pages."""
    places = await store.references.newest(place_of(cursor))
    if unused:
        ADMINISTER.check(caller, None)  # it looks at every experiment of the namespace
        used = await users_of_references(context)
        places = [place for place in places if place.name not in used]
    metas, following = await page_of(places, limit, store.references.metas)
    return ReferencePage(references=[ReferenceInfo.model_validate_json(meta) for meta in metas], next=following)


@router.get("/{name}")
@permits(READ)
async def get_reference(name: Identifier, store: StoreDep) -> ReferenceInfo:
    """One reference: its dimension, number of samples, embedding, size and digest."""
    return await stored_reference(store, name)


@router.delete("/{name}", status_code=204)
@permits(ADMINISTER)
async def delete_reference(name: Identifier, context: ContextDep) -> None:
    """Delete a reference. 409 while an experiment uses it, which the answer names, or one is being created."""
    await delete_unused(context, name)


@router.post("/{name}/uploads")
@permits(ADMINISTER)
async def begin_upload(
    name: Identifier, wanted: UploadRequest, context: ContextDep, store: StoreDep, caller: CallerDep
) -> UploadState:
    """Begin to upload a reference with its rows, or go on with an upload: the answer says which pieces are missing.

    An upload is kept for a day after its newest piece. 409 if another reference has this name, or if the access key has
    as many unfinished uploads as it may have. 422 for rows that the service could not make a reference of.
    """
    settings = context.settings
    if wanted.dimension > settings.max_dimension:
        raise invalid(f"dimension: expected at most {settings.max_dimension}, got {wanted.dimension}")
    layout = Layout.from_request(wanted, settings.max_body)
    if layout.bytes > settings.max_reference:
        raise invalid(f"rows: expected a reference of at most {settings.max_reference} bytes, got {layout.bytes}")
    if layout.memory > max(settings.max_memory, SMALL):
        raise invalid(
            f"dimension: expected rows whose moments take at most {settings.max_memory} bytes of memory "
            f"(OPTIMIST_MAX_MEMORY), those of dimension {wanted.dimension} take {layout.memory}"
        )
    if standing := await standing_reference(store, name):
        check_same(standing, wanted.digest, wanted.embedding)
        return UploadState(piece_rows=layout.piece_rows, pieces=layout.pieces, missing=[])
    uploads, plan = store.references.uploads, codec.encode(layout)

    async def is_begun() -> bool:
        return await uploads.plan(name, wanted.digest) is not None

    async with context.redis_health.room_for(layout.bytes, is_begun):
        try:
            begun = await uploads.begin(name, wanted.digest, plan, caller.key, settings.max_uploads)
        except Full:
            raise await _too_many(uploads, caller.key, settings.max_uploads) from None
    layout = codec.decode(Layout, begun)
    known = layout.rows, layout.dimension, layout.dtype, layout.embedding
    if known != (wanted.rows, wanted.dimension, wanted.dtype, wanted.embedding):
        raise Conflict(f"the upload was begun as {begun}: go on with that, or use another name")
    return await _state(store, name, wanted.digest, layout)


@router.put("/{name}/uploads/{digest}/{piece}", status_code=204, openapi_extra=ARRAYS_IN_OPENAPI)
@permits(ADMINISTER)
async def put_piece(
    request: Request,
    name: Identifier,
    digest: Digest,
    piece: Annotated[int, Path(ge=0, description="Its number: it begins with row piece · `piece_rows`")],
    context: ContextDep,
    store: StoreDep,
    settings: SettingsDep,
) -> None:
    """Send a piece of an upload, as `features` (n, d). Pieces may come in any order, and at the same time.

    409 if the piece was sent before with other numbers; 404 if there is no such upload, or no longer.
    """
    layout = await _plan(store, name, digest)
    if piece >= layout.pieces:
        raise invalid(f"piece: expected at most {layout.pieces - 1}, got {piece}")
    arrays = await (await EncodedArrays.from_request(request)).decode(settings)
    body = await run_in_thread(sum(array.nbytes for array in arrays.values()), _checked, arrays, layout, piece)
    async with context.redis_health.room_for(len(body)):
        await store.references.uploads.put(name, digest, piece + 1, body)


@router.delete("/{name}/uploads/{digest}", status_code=204)
@permits(ADMINISTER)
async def delete_upload(name: Identifier, digest: Digest, store: StoreDep, caller: CallerDep) -> None:
    """Delete an unfinished upload with the pieces that were sent. Deleting it again succeeds."""
    await store.references.uploads.drop(name, digest)
    await store.references.uploads.ended(name, digest, caller.key)


@router.post("/{name}/uploads/{digest}")
@permits(ADMINISTER)
async def complete_upload(
    request: Request, name: Identifier, digest: Digest, context: ContextDep, store: StoreDep, caller: CallerDep
) -> ReferenceInfo:
    """Make the reference of an upload all of whose pieces were sent; it may take minutes.

    Requests that complete the same upload, one after the other or at once, get the same answer. 409 while pieces are
    missing. 422 if the rows do not have the digest; then the upload is deleted.
    """
    alone: Alone = request.app.state.alone
    # One after the other: those that waited find the reference, and take no memory of their own.
    async with alone.lock("upload is completed", caller.namespace, name, digest):
        try:
            info = await _completed(request, name, digest, context, store)
        except (NotFound, Conflict):
            # Another API process may have completed it meanwhile, by which the upload has become the reference.
            standing = await standing_reference(store, name)
            if standing is None or standing.digest != digest:
                raise
            info = standing
    await store.references.uploads.ended(name, digest, caller.key)
    return info


async def _completed(request: Request, name: str, digest: str, context: Context, store: Store) -> ReferenceInfo:
    """The reference of an upload, made now or by an earlier request. Raises as `complete_upload` does."""
    uploads = store.references.uploads
    if standing := await standing_reference(store, name):
        check_same(standing, digest, None)
        await uploads.drop(name, digest)
        return standing
    layout = await _plan(store, name, digest)
    missing = (await _state(store, name, digest, layout)).missing
    if missing:
        few = ", ".join(f"{piece}" for piece in missing[:8]) + (", …" if len(missing) > 8 else "")
        raise Conflict(f"{len(missing)} of {layout.pieces} pieces are missing: send {few}")
    share: Share = request.scope["memory"]
    share.hold_more(layout.memory)
    queue: Queue = request.app.state.references
    gathered = Gathered(layout)
    for piece in range(layout.pieces):
        body = await uploads.get(name, digest, piece + 1)
        if body is None:
            raise NotFound(NONE)
        await queue.run(request, gathered.add, body)
    found, scale, rest = await queue.run(request, gathered.finish)
    if found != digest:
        await uploads.drop(name, digest)
        raise invalid(f"the rows that were sent have the digest {found}, not {digest}: the upload is deleted")
    info = ReferenceInfo(
        name=name,
        dimension=layout.dimension,
        samples=layout.rows,
        embedding=layout.embedding,
        scale=scale,
        rows=layout.rows,
        bytes=layout.bytes,
        digest=digest,
        created=time.time(),
    )
    await store.references.reserve(name, context.settings.max_experiments)
    async with context.redis_health.room_for(len(rest)):
        await _put_rest(uploads, name, digest, 0, layout.head)
        starts = range(0, len(rest), CHUNK_BYTES)
        parts = [
            await _put_rest(uploads, name, digest, number, rest[start : start + CHUNK_BYTES])
            for number, start in enumerate(starts, layout.pieces + 1)
        ]
        body_digest = await queue.run(request, gathered.body_digest, b"".join(parts))
        chunks = 1 + layout.pieces + len(parts)
        await store.references.finish(name, digest, info.model_dump_json(), body_digest, chunks)
    return await stored_reference(store, name)  # of two processes one has written the description


async def _put_rest(uploads: Uploads, name: str, digest: str, number: int, part: bytes) -> bytes:
    """Store a chunk that was computed, and return the one that is kept: another replica may have been faster.

    Its moments may differ in their last bits, and either may be kept.
    """
    with contextlib.suppress(Conflict):
        await uploads.put(name, digest, number, part)
    return await uploads.get(name, digest, number) or part


async def keep_rows(
    request: Request,
    context: Context,
    store: Store,
    caller: Caller,
    name: str,
    rows: NDArray[np.floating],
    samples: int | None,
    embedding: str | None,
) -> ReferenceInfo:
    """Store a reference with its rows (n, d), all of which came in one request. Raises `ApiError` 422."""
    if rows.ndim != 2:
        raise invalid(f"features: expected shape (n, d) with n at least 2, got {rows.shape}")
    if samples not in (None, len(rows)):
        raise invalid(f"samples: the features have {len(rows)} rows, not {samples}")
    digest = await asyncio.to_thread(tensors.digest, {FEATURES: rows})
    shape = {"rows": len(rows), "dimension": rows.shape[1], "dtype": rows.dtype.name}
    try:
        wanted = UploadRequest.model_validate({**shape, "digest": digest, "embedding": embedding})
    except ValidationError as error:
        raise invalid(f"features: {in_words(error)}") from None
    state = await begin_upload(name, wanted, context, store, caller)
    layout = Layout(wanted.rows, wanted.dimension, wanted.dtype, state.piece_rows, embedding)
    for piece in state.missing:
        start = piece * layout.piece_rows
        arrays: Arrays = {FEATURES: rows[start : start + layout.piece_rows]}
        body = await run_in_thread(arrays[FEATURES].nbytes, _checked, arrays, layout, piece)
        await store.references.uploads.put(name, digest, piece + 1, body)
    return await complete_upload(request, name, digest, context, store, caller)


async def _too_many(uploads: Uploads, owner: str, most: int) -> ApiError:
    unfinished = await uploads.unfinished(owner)
    shown = ", ".join(f"{name} ({digest[:12]}…)" for name, digest in unfinished[:4]) + ", …" * (len(unfinished) > 4)
    return ApiError(
        409,
        "too-many-uploads",
        "Too many unfinished uploads",
        f"expected at most {most} unfinished uploads of references with one access key (OPTIMIST_MAX_UPLOADS): "
        f"complete or delete one of {shown}; each is dropped a day after its newest piece",
    )


def _checked(arrays: Arrays, layout: Layout, piece: int) -> bytes:
    """The rows of a piece as they are stored. Raises `ApiError` 422."""
    if set(arrays) != {FEATURES}:
        raise invalid(f"expected {FEATURES}; found {', '.join(sorted(arrays)) or 'nothing'}")
    rows, shape = arrays[FEATURES], (layout.rows_of(piece), layout.dimension)
    if rows.shape != shape:
        raise invalid(f"{FEATURES}: expected shape {shape} for piece {piece}, got {rows.shape}")
    try:
        check_rows(FEATURES, rows, layout.dimension)
    except FixError as error:
        raise invalid(f"piece {piece}: {error}") from None
    return layout.packed(rows)


async def _plan(store: Store, name: str, digest: str) -> Layout:
    """The layout of an upload. Raises NotFound."""
    plan = await store.references.uploads.plan(name, digest)
    if plan is None:
        raise NotFound(NONE)
    return codec.decode(Layout, plan)


async def _state(store: Store, name: str, digest: str, layout: Layout) -> UploadState:
    there = await store.references.uploads.numbers(name, digest)
    missing = [piece for piece in range(layout.pieces) if piece + 1 not in there]
    return UploadState(piece_rows=layout.piece_rows, pieces=layout.pieces, missing=missing)
