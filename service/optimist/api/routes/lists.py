"""The list of experiments, by pages."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Header, Query, Request, Response

from optimist.api.context import ContextDep
from optimist.api.entities import respond
from optimist.api.middleware.access import CallerDep
from optimist.api.pages import CursorQuery, LimitQuery, count_answer, place_of
from optimist_client.models import ExperimentPage

router = APIRouter(tags=["experiments"])


@router.get("/v1/experiments", response_model=ExperimentPage)
async def list_experiments(
    request: Request,
    context: ContextDep,
    caller: CallerDep,
    if_none_match: Annotated[str | None, Header()] = None,
    limit: LimitQuery = 50,
    cursor: CursorQuery = None,
    tag: Annotated[str | None, Query(description="Only experiments with this tag")] = None,
    search: Annotated[
        str | None,
        Query(description="Only those with this text in their name, generators, tags or note, in whatever case"),
    ] = None,
) -> Response:
    """Summaries of the experiments that the caller's key is good for, newest first.

    An experiment that is there all the while is in exactly one of the pages, whatever is created or deleted meanwhile.
    ETag as of reports; an answer to one who sends it may be a second old.
    """
    after, old = place_of(cursor), if_none_match is not None
    body = await context.polls.page(limit, after, caller.experiments, tag, search, old=old)
    count_answer(request, body.text)
    return respond(body, if_none_match)
