"""Routes of archives: an experiment as a file, and from one."""

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
from optimist.archive.exporting import Exporting
from optimist.archive.file import MEDIA_TYPE, Archive, ArchiveError, ArchiveWriter
from optimist.archive.importing import import_archive
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
    """The experiment as one file, for `POST /v1/import` here or elsewhere. It goes on meanwhile.

    Its settings, generators, statistics or log, history and estimates, of one moment; a generator whose log is trimmed
    while it is read is of a later one. Picks that are open are not in it: their prompts are handed out again.
    """
    experiment = await context.experiment(name)
    with ExitStack() as stack:
        # On disk first: a slow client would have logs trimmed under the reader, and errors could not be told any more.
        file = stack.enter_context(TemporaryFile())
        try:
            with ArchiveWriter(file) as writer:
                await Exporting(context.store, experiment, writer).run()
        except Damaged as error:
            raise ApiError(500, "damaged", "Part of the experiment is damaged", str(error), action="stop") from None
        stack.pop_all()
    headers = {"content-disposition": f'attachment; filename="{name}.optimist.zip"', "content-length": str(file.tell())}
    return StreamingResponse(_pieces(file), media_type=MEDIA_TYPE, headers=headers)


@router.post("/import", openapi_extra=_FILE_IN_OPENAPI)
async def import_experiment(
    request: Request,
    context: ContextDep,
    name: Annotated[Identifier | None, Query(description="What it is to be called; as it was by default")] = None,
    idempotency_key: Annotated[str | None, Header(min_length=1, max_length=200)] = None,
) -> Experiment:
    """Make an experiment from an archive, with the reference it needs. It goes on where it was exported.

    409 where another experiment has the name, or another reference has the name of its own; 422 with the reason for a
    file that is damaged, of another version, or no archive. The same idempotency key again answers as before.
    """
    instance = hashlib.sha256(idempotency_key.encode()).hexdigest()[:32] if idempotency_key else uuid.uuid4().hex
    with TemporaryFile() as file:
        async for piece in request.stream():
            file.write(piece)
        try:
            archive = await asyncio.to_thread(Archive, file)
            async with context.vitals.room_for(file.seek(0, os.SEEK_END)):
                made = await import_archive(context.store, context.settings, archive, name, instance)
                return await context.experiment(made)
        except ArchiveError as error:
            raise invalid(str(error)) from None


def _pieces(file: BinaryIO) -> Iterator[bytes]:
    with file:
        file.seek(0)
        while piece := file.read(_PIECE):
            yield piece
