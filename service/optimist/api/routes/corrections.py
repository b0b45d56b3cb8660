"""The route that retracts and accepts several batches at once, and says before that what the report would then be."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from functools import partial

from fastapi import APIRouter, Request

from optimist.api.app_state import AppState, AppStateDep
from optimist.api.bodies.objects import ModelRoute
from optimist.api.exclusion import Exclusion
from optimist.api.middleware.access import CallerDep
from optimist.api.middleware.limits import BodyShare
from optimist.api.middleware.permissions import ADMINISTER, Caller, permits
from optimist.api.problems import invalid
from optimist.api.routes.generators import accept, retract
from optimist.api.temporary import TemporaryFile
from optimist.archive.copying import copy_experiment
from optimist.records import NotFound, StoreError
from optimist.store import Store
from optimist.store.copies import COPY_SECONDS
from optimist_client.errors import FixError
from optimist_client.models import (
    AcceptanceRequest,
    CorrectionRequest,
    Experiment,
    Identifier,
    Report,
    RetractionRequest,
)

router = APIRouter(prefix="/v1/experiments/{name}/corrections", tags=["retractions"], route_class=ModelRoute)


@router.post("")
@permits(ADMINISTER)
async def correct(
    request: Request,
    name: Identifier,
    app: AppStateDep,
    caller: CallerDep,
    wanted: CorrectionRequest,
    trial: bool = False,
) -> Report:
    """Retract and accept batches, one after the other, and answer with the report that follows.

    With `trial` nothing changes: a copy of the experiment is corrected, scored anew and deleted. So the report has
    exactly the numbers and the decision that would follow if nothing else was told. `scored` is false in it where
    scores were not ready within 20 seconds. Trials in a namespace follow one another: 429 while another one with the
    same access key waits. Refusals are as for a single retraction or acceptance; what was done
    before one stays done.
    """
    experiment = await app.experiment(name)
    if not trial:
        await _correct(app, caller, name, wanted)
        return await app.report(experiment)
    exclusion: Exclusion = request.app.state.exclusion
    turn = exclusion.lock("trial", caller.namespace)
    with exclusion.doing("trial waits", caller.key):
        await turn.acquire()
    try:
        async with _copied(app, experiment, request.scope["memory"]) as (copies, copied):
            has_table = await app.table(await app.state(experiment)) is not None
            await _correct(copies, caller, copied, wanted)
            report = await _settled(copies, copied, has_table)
    finally:
        turn.release()
    return report.model_copy(update={"experiment": name})


async def _correct(app: AppState, caller: Caller, name: str, wanted: CorrectionRequest) -> None:
    for batch in wanted.retract:
        reason = RetractionRequest(reason=wanted.reason)
        await retract(app, caller, name, reason, batch.generator, position=batch.position)
    for batch in wanted.accept:
        reason = AcceptanceRequest(reason=wanted.reason)
        await accept(app, caller, name, reason, batch.generator, position=batch.position)


@asynccontextmanager
async def _copied(app: AppState, experiment: Experiment, share: BodyShare) -> AsyncGenerator[tuple[AppState, str]]:
    """A copy of an experiment that nobody else can name, which is deleted in the end: its context and its name."""
    store = app.store
    room_for = partial(app.redis_health.room_for, reserve=2.0)
    try:
        with TemporaryFile(app.redis_health.check_temporary) as file:
            name = await copy_experiment(experiment, store, app.settings, file, share.hold, room_for)
    except FixError as error:
        raise invalid(str(error)) from None
    keeping = asyncio.create_task(_keep(store.copies, name))
    try:
        yield AppState(store.copies, app.settings, app.redis_health), name
    finally:
        keeping.cancel()
        await store.copies.delete_experiment(name)


async def _keep(copies: Store, name: str) -> None:
    while True:
        with suppress(StoreError):
            await copies.keep_copy(name)
        await asyncio.sleep(COPY_SECONDS / 5)


async def _settled(app: AppState, name: str, has_table: bool, patience: float = 20.0) -> Report:
    """The report once all that is due is made, and with `has_table` a table of routes; or as it is after `patience`
    seconds."""
    ends = time.monotonic() + patience
    while True:
        try:
            report = (await app.polls.now(name)).report
        except NotFound:
            raise NotFound("the experiment was deleted during the trial") from None
        is_scored = report.scored and all(metric.scored for metric in report.watched.values())
        if (is_scored and (report.routes is not None or not has_table)) or time.monotonic() > ends:
            return report
        await asyncio.sleep(0.05)
