"""Routes that export an experiment as a file and import one from a file."""

from __future__ import annotations

import asyncio
import hashlib
import time
import uuid
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from tempfile import TemporaryFile, gettempdir
from typing import Annotated, Any, BinaryIO

from fastapi import APIRouter, Header, Query, Request
from fastapi.responses import StreamingResponse

from optimist.api.context import ContextDep
from optimist.api.middleware.access import CallerDep
from optimist.api.middleware.limits import Share
from optimist.api.middleware.permissions import ADMINISTER, GuardedRoute, permits
from optimist.api.problems import ApiError, invalid
from optimist.api.redis_health import RedisHealth
from optimist.archive.exporting import Exporter
from optimist.archive.file import MEDIA_TYPE, Archive, ArchiveWriter, memory_to_open
from optimist.archive.importing import import_archive
from optimist.experiments.outlines import labelled
from optimist.records import CorruptData
from optimist_client.errors import FixError
from optimist_client.models import Experiment, Identifier

router = APIRouter(prefix="/v1", tags=["archives"], route_class=GuardedRoute)

IMPORT = "/v1/import"
REFUSED_WEIGHT = 4
"""How many times as long as it took to find the fault of a large archive its sender must wait with the next one."""
_PIECE = 2**20
_FILE = {"schema": {"type": "string", "format": "binary"}}
_FILE_IN_OPENAPI: dict[str, Any] = {"requestBody": {"required": True, "content": {MEDIA_TYPE: _FILE}}}


@router.get(
    "/experiments/{name}/export",
    response_class=StreamingResponse,
    responses={200: {"content": {MEDIA_TYPE: _FILE}, "description": "The archive"}},
)
@permits(ADMINISTER)
async def export_experiment(name: Identifier, context: ContextDep) -> StreamingResponse:
    """Export the experiment as one file for `POST /v1/import` on any service. The experiment continues meanwhile.

    The file holds the settings, generators, statistics or log, history and estimates as of one moment. If a generator's
    log is trimmed during the export, that generator's data is from a later moment. Open picks are not exported: after
    an import their prompts are assigned again. 422 for an experiment in which the indices that a generator was told
    have more gaps than an archive holds (16,384).
    """
    experiment = await context.experiment(name)
    with ExitStack() as stack:
        # Write to disk first. With a slow client, logs could be trimmed during the export, and once the response has
        # begun, errors can no longer be reported.
        file = stack.enter_context(TemporaryFile())
        try:
            with ArchiveWriter(file) as writer:
                await Exporter(context.store, experiment, writer).run()
        except CorruptData as error:
            raise ApiError(500, "corrupt", "Part of the experiment cannot be read", str(error), action="stop") from None
        except FixError as error:
            raise invalid(str(error)) from None
        stack.pop_all()
    headers = {"content-disposition": f'attachment; filename="{name}.optimist.zip"', "content-length": str(file.tell())}
    return StreamingResponse(_pieces(file), media_type=MEDIA_TYPE, headers=headers)


@router.post("/import", openapi_extra=_FILE_IN_OPENAPI)
@permits(ADMINISTER)
async def import_experiment(
    request: Request,
    context: ContextDep,
    caller: CallerDep,
    name: Annotated[
        Identifier | None, Query(description="Name of the new experiment; by default the exported name")
    ] = None,
    idempotency_key: Annotated[str | None, Header(min_length=1, max_length=200)] = None,
) -> Experiment:
    """Create an experiment, and the reference it needs, from an archive. It continues from the exported state.

    409 if the name of the experiment or of its reference is taken by a different one; 422 with the reason if the file
    is damaged, of an unknown version, or not an archive, or holds what no experiment can have. 429 while another
    archive is imported with the same access key, and for some seconds after a large one was refused. A repeated request
    with the same idempotency key returns the same result.
    """
    instance = hashlib.sha256(idempotency_key.encode()).hexdigest()[:32] if idempotency_key else uuid.uuid4().hex
    importing: set[str] = request.app.state.importing
    with _alone(importing, caller.key), TemporaryFile() as file:
        size = await _spool(request, context.redis_health, file)
        share: Share = request.scope["memory"]
        share.hold(memory_to_open(size))
        begun = time.monotonic()
        try:
            archive = await asyncio.to_thread(Archive, file)
            share.hold(archive.memory)
            # Room is then reserved as it is used: all of it at once would be refused to others for as long as it lasts.
            # A reserve twice as large stays free, so that the import is refused, not they.
            await context.redis_health.check_room(size, reserve=2.0)
            room_for = partial(context.redis_health.room_for, reserve=2.0)
            made = await import_archive(context.store, context.settings, archive, name, instance, room_for)
        except FixError as error:
            if size > _PIECE:
                _keep_out(importing, caller.key, REFUSED_WEIGHT * (time.monotonic() - begun))
            raise invalid(str(error)) from None
        (controls,) = await context.store.labels([made])
        return labelled(await context.experiment(made), controls)


@contextmanager
def _alone(importing: set[str], key: str) -> Generator[None]:
    """Raises `ApiError` 429 while another import with this access key is under way."""
    if importing & {key, f"{key} again"}:
        detail = "another archive is imported with the same access key, or without one, or was just refused: try later"
        raise ApiError(429, "importing", "One import at a time", detail, "retry", {"connection": "close"})
    importing.add(key)
    try:
        yield
    finally:
        importing.remove(key)


def _keep_out(importing: set[str], key: str, seconds: float) -> None:
    """Refuse other imports with this access key for so long: one that was refused must not cost others their time."""
    again = f"{key} again"
    importing.add(again)
    asyncio.get_running_loop().call_later(seconds, importing.discard, again)


async def _spool(request: Request, redis_health: RedisHealth, file: BinaryIO) -> int:
    """Write the body of a request to a temporary file; return its size. Raises `ApiError` 507 if it does not fit."""
    announced, size, checked = request.headers.get("content-length", ""), 0, 0
    try:
        redis_health.check_temporary(gettempdir(), int(announced) if announced.isdecimal() else 0)
        async for piece in request.stream():
            size += file.write(piece)
            if size - checked >= _PIECE:
                checked = size
                redis_health.check_temporary(gettempdir(), 0)
    except ApiError as error:
        error.headers = {"connection": "close"}  # the rest of the body is not read
        raise
    except OSError as error:
        problem = "The temporary file cannot be written", f"{error.strerror}: try again later"
        raise ApiError(507, "disk-full", *problem, "retry", {"connection": "close"}) from None
    return size


def _pieces(file: BinaryIO) -> Iterator[bytes]:
    with file:
        file.seek(0)
        while piece := file.read(_PIECE):
            yield piece
