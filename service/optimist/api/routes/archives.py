"""Routes that export an experiment as a file and import one from a file."""

from __future__ import annotations

import asyncio
import hashlib
import re
import time
import uuid
from collections.abc import AsyncGenerator, Iterator
from contextlib import ExitStack
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, Query, Request
from fastapi.responses import StreamingResponse

from optimist.api.app_state import AppStateDep
from optimist.api.exclusion import Exclusion
from optimist.api.middleware.access import CallerDep
from optimist.api.middleware.limits import BodyShare
from optimist.api.middleware.permissions import ADMINISTER, GuardedRoute, permits
from optimist.api.problems import ApiError, invalid
from optimist.api.temporary import PIECE, TemporaryFile, spooled
from optimist.archive.exporting import Exporter
from optimist.archive.file import MEDIA_TYPE, Archive, ArchiveWriter, memory_to_open
from optimist.archive.importing import import_archive
from optimist.experiments.outlines import labelled
from optimist.records import CorruptData
from optimist_client.errors import FixError
from optimist_client.models import Experiment, Identifier

router = APIRouter(prefix="/v1", tags=["archives"], route_class=GuardedRoute)

IMPORT = re.compile("/v1/import")
EXPORT, IMPORTING = "archive is exported", "archive is imported"
_FILE = {"schema": {"type": "string", "format": "binary"}}
_FILE_IN_OPENAPI: dict[str, Any] = {"requestBody": {"required": True, "content": {MEDIA_TYPE: _FILE}}}


async def _open_until_answered() -> AsyncGenerator[ExitStack]:
    """A stack that is closed when the response has ended, or its client has gone."""
    with ExitStack() as stack:
        yield stack


@router.get(
    "/experiments/{name}/export",
    response_class=StreamingResponse,
    responses={200: {"content": {MEDIA_TYPE: _FILE}, "description": "The archive"}},
)
@permits(ADMINISTER)
async def export_experiment(
    name: Identifier,
    request: Request,
    app: AppStateDep,
    caller: CallerDep,
    open_until_answered: Annotated[ExitStack, Depends(_open_until_answered)],
) -> StreamingResponse:
    """Export the experiment as one file for `POST /v1/import` on any service. The experiment continues meanwhile.

    The file holds the settings, generators, statistics or log, history and estimates as of one moment. If a generator's
    log is trimmed during the export, that generator's data is from a later moment. Open picks are not exported: after
    an import their prompts are assigned again. 422 for an experiment in which the indices that a generator was told
    have more gaps than an archive holds (16,384). 429 while another archive is exported with the same access key, until
    its client has received it; 507 where the temporary disk has no room for it.
    """
    experiment = await app.experiment(name)
    exclusion: Exclusion = request.app.state.exclusion
    open_until_answered.enter_context(exclusion.doing(EXPORT, caller.key))
    # Write to disk first. With a slow client, logs could be trimmed during the export, and once the response has begun,
    # errors can no longer be reported.
    file = open_until_answered.enter_context(TemporaryFile(app.redis_health.check_temporary))
    try:
        with ArchiveWriter(file) as writer:
            await Exporter(app.store, experiment, writer).run()
    except CorruptData as error:
        raise ApiError(500, "corrupt", "Part of the experiment cannot be read", str(error), action="stop") from None
    except FixError as error:
        raise invalid(str(error)) from None
    headers = {"content-disposition": f'attachment; filename="{name}.optimist.zip"', "content-length": str(file.tell())}
    return StreamingResponse(_pieces(file), media_type=MEDIA_TYPE, headers=headers)


@router.post("/import", openapi_extra=_FILE_IN_OPENAPI)
@permits(ADMINISTER)
async def import_experiment(
    request: Request,
    app: AppStateDep,
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
    exclusion: Exclusion = request.app.state.exclusion
    with exclusion.doing(IMPORTING, caller.key), TemporaryFile(app.redis_health.check_temporary) as file:
        size = await spooled(request, file)
        share: BodyShare = request.scope["memory"]
        share.hold(memory_to_open(size))
        begun = time.monotonic()
        try:
            archive = await asyncio.to_thread(Archive, file)
            share.hold(archive.memory)
            # Room is then reserved as it is used: all of it at once would be refused to others for as long as it lasts.
            # A reserve twice as large stays free, so that the import is refused, not they.
            await app.redis_health.check_room(size, reserve=2.0)
            room_for = partial(app.redis_health.room_for, reserve=2.0)
            made = await import_archive(app.store, app.settings, archive, name, instance, room_for)
        except FixError as error:
            if size > PIECE:
                # For four times as long as the check took.
                exclusion.keep_out(IMPORTING, caller.key, 4 * (time.monotonic() - begun))
            raise invalid(str(error)) from None
        (controls,) = await app.store.labels([made])
        return labelled(await app.experiment(made), controls)


def _pieces(file: TemporaryFile) -> Iterator[bytes]:
    file.seek(0)
    while piece := file.read(PIECE):
        yield piece
