"""Routes that list experiments."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Header, Query, Response

from optimist.api.context import ContextDep
from optimist.api.door.access import CallerDep
from optimist.api.entities import respond
from optimist.dispatch.labels import matches
from optimist_client.models import Experiment, Overview

router = APIRouter(tags=["experiments"])

TagQuery = Annotated[str | None, Query(description="Only experiments with this tag")]
SearchQuery = Annotated[
    str | None, Query(description="Only those with this text in their name, generators, tags or note, in whatever case")
]


@router.get("/v1/experiments")
async def list_experiments(
    context: ContextDep, caller: CallerDep, tag: TagQuery = None, search: SearchQuery = None
) -> list[Experiment]:
    """All experiments that the caller's key is good for, by creation."""
    seen = await context.labelled([name for name in await context.store.experiments() if caller.sees(name)])
    return [experiment for experiment in seen if matches(experiment.config, tag, search)]


@router.get("/v1/overview", response_model=Overview)
async def get_overview(
    context: ContextDep,
    caller: CallerDep,
    if_none_match: Annotated[str | None, Header()] = None,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
    offset: Annotated[int, Query(ge=0)] = 0,
    tag: TagQuery = None,
    search: SearchQuery = None,
) -> Response:
    """State, leader and samples of every experiment, the newest first; may be a second old. ETag as of reports."""
    return respond(await context.polls.overview(limit, offset, caller.experiments, tag, search), if_none_match)
