"""Requests that are answered at the door, without FastAPI, get the same answers to errors as all others."""

from __future__ import annotations

import asyncio

import httpx
import pytest
from fastapi import Request, Response
from starlette.exceptions import HTTPException

from optimist.api.board import Board
from optimist.api.bodies.arrays import body_of
from optimist.api.door.access import Access
from optimist.api.door.limits import Limits
from optimist.api.door.service import Service, Straight
from optimist.api.problems import invalid
from optimist.settings import Settings
from optimist.store import Conflict

ERRORS = {
    "/invalid": invalid("no"),
    "/store": Conflict("no"),
    "/http": HTTPException(503, "no"),
    "/odd": KeyError("no"),
}


async def fail(request: Request) -> Response:
    await body_of(request)
    raise ERRORS[f"/{request.path_params['which']}"]


async def answers(path: str) -> tuple[httpx.Response, httpx.Response]:
    """The answers to one request, at the door and by FastAPI."""
    access, limits = (
        Access(keys=False, local=False, rate=None),
        Limits(Settings.model_validate({}), "/archive", Board()),
    )
    found = []
    for straight in ([Straight("/{which}", fail)], []):
        app = Service(access, limits, straight)
        app.state.key_ring = None
        app.add_route("/{which}", fail, methods=["POST"])
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
            found.append(await http.post(path, content=b"{}", headers={"x-request-id": "mine"}))
    return found[0], found[1]


@pytest.mark.parametrize("path", ERRORS)
def test_errors_have_one_answer(path: str):
    here, there = asyncio.run(answers(path))
    assert (here.status_code, here.json(), here.headers) == (there.status_code, there.json(), there.headers)
    assert here.headers.get_list("x-request-id") == ["mine"]
    assert here.json()["type"].startswith("urn:optimist:problem:")
