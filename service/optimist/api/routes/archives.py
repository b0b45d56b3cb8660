"""Routes that export an experiment as a file and import one from a file."""

from __future__ import annotations

import asyncio
import hashlib
import os
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from tempfile import TemporaryFile
from typing import Annotated, Any, BinaryIO

from fastapi import APIRouter, Header, Query, Request
from fastapi.responses import StreamingResponse

from optimist.api.context import ContextDep
from optimist.api.problems import ApiError, invalid
from optimist.archive.exporting import Exporter
from optimist.archive.file import MEDIA_TYPE, Archive, ArchiveError, ArchiveWriter
from optimist.archive.importing import import_archive
from optimist.dispatch.labels import labelled
from optimist.store import Damaged
from optimist_client.models import Experiment, Identifier

router = APIRouter(prefix="/v1", tags=["archives"])

IMPORT = "/v1/import"
_PIECE = 2**20
_FILE = {"schema": {"type": "string", "format": "binary"}}
_FILE_IN_OPENAPI: dict[str, Any] = {"requestBody": {"required": True, "content": {MEDIA_TYPE: _FILE}}}


@router.get(
    "/experiments/{name}/export",
    response_class=StreamingResponse,
    responses={200: {"content": {MEDIA_TYPE: _FILE}, "description": "The archive"}},
)
async def export_experiment(name: Identifier, context: ContextDep) -> StreamingResponse:
    """Export the experiment as one file for `POST /v1/import` on any service. The experiment continues meanwhile.

    The file holds the settings, generators, statistics or log, history and estimates as of one moment. If a generator's
    log is trimmed during the export, that generator's data is from a later moment. Open picks are not exported: after
    an import their prompts are assigned again.
    """
    experiment = await context.experiment(name)
    with ExitStack() as stack:
        # Write to disk first. With a slow client, logs could be trimmed during the export, and once the response has
        # begun, errors can no longer be reported.
        file = stack.enter_context(TemporaryFile())
        try:
            with ArchiveWriter(file) as writer:
                await Exporter(context.store, experiment, writer).run()
        except Damaged as error:
            raise ApiError(500, "damaged", "Part of the experiment is damaged", str(error), action="stop") from None
        stack.pop_all()
    headers = {"content-disposition": f'attachment; filename="{name}.optimist.zip"', "content-length": str(file.tell())}
    return StreamingResponse(_pieces(file), media_type=MEDIA_TYPE, headers=headers)


@router.post("/import", openapi_extra=_FILE_IN_OPENAPI)
async def import_experiment(
    request: Request,
    context: ContextDep,
    name: Annotated[
        Identifier | None, Query(description="Name of the new experiment; by default the exported name")
    ] = None,
    idempotency_key: Annotated[str | None, Header(min_length=1, max_length=200)] = None,
) -> Experiment:
    """Create an experiment, and the reference it needs, from an archive. It continues from the exported state.

    409 if the name of the experiment or of its reference is taken by a different one; 422 with the reason if the file
    is damaged, of an unknown version, or not an archive. A repeated request with the same idempotency key returns the
    same result.
    """
    instance = hashlib.sha256(idempotency_key.encode()).hexdigest()[:32] if idempotency_key else uuid.uuid4().hex
    with TemporaryFile() as file:
        async for piece in request.stream():
            file.write(piece)
        try:
            archive = await asyncio.to_thread(Archive, file)
            async with context.vitals.room_for(file.seek(0, os.SEEK_END)):
                made = await import_archive(context.store, context.settings, archive, name, instance)
                (controls,) = await context.store.labels([made])
                return labelled(await context.experiment(made), controls)
        except ArchiveError as error:
            raise invalid(str(error)) from None


def _pieces(file: BinaryIO) -> Iterator[bytes]:
    with file:
        file.seek(0)
        while piece := file.read(_PIECE):
            yield piece
