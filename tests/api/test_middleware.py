"""Requests that are answered in the middleware, without FastAPI, are read and answered like all others."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import weakref
from collections.abc import Generator

import httpx
import numpy as np
import pytest
from fastapi import Request, Response
from pydantic import BaseModel
from starlette.datastructures import QueryParams
from starlette.exceptions import HTTPException

from optimist.api.bodies.objects import LARGE, parsed, run_in_thread
from optimist.api.middleware.access import Access
from optimist.api.middleware.limits import BodyLimits, SharedCounters
from optimist.api.middleware.permissions import PUBLIC, GuardedRoute, permits
from optimist.api.middleware.service import RawRoute, Service, read_parameters
from optimist.api.problems import invalid
from optimist.json_sizes import MAX_FIELDS, MAX_VALUES
from optimist.records import Conflict
from optimist.settings import Settings

LIMITS = BodyLimits(Settings.model_validate({}), {}, SharedCounters())
ERRORS = {
    "/invalid": invalid("no"),
    "/store": Conflict("no"),
    "/http": HTTPException(503, "no"),
    "/odd": KeyError("no"),
}


@permits(PUBLIC)
async def fail(request: Request) -> Response:
    await request.scope["body"].whole()
    raise ERRORS[f"/{request.path_params['which']}"]


async def answers(path: str) -> tuple[httpx.Response, httpx.Response]:
    """The answers to one request, by the middleware and by FastAPI."""
    access = Access(keys=False, local=False, rate=None)
    found = []
    for route in (RawRoute("/{which}", fail), GuardedRoute("/{which}", fail, methods=["POST"])):
        app = Service(access, LIMITS, [route])
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
            found.append(await http.post(path, content=b"{}", headers={"x-request-id": "mine"}))
    return found[0], found[1]


@contextlib.contextmanager
def without_collector() -> Generator[None]:
    """Only what nothing refers to any more is freed."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@pytest.mark.parametrize("path", ERRORS)
def test_errors_have_one_answer(path: str):
    here, there = asyncio.run(answers(path))
    assert (here.status_code, here.json(), here.headers) == (there.status_code, there.json(), there.headers)
    assert here.headers.get_list("x-request-id") == ["mine"]
    assert here.json()["type"].startswith("urn:optimist:problem:")


def test_a_request_is_freed_when_it_is_answered():
    bodies: list[weakref.ref[object]] = []

    @permits(PUBLIC)
    async def answer(request: Request) -> Response:
        await request.scope["body"].whole()
        bodies.append(weakref.ref(request.scope["body"]))
        return Response()

    async def ask() -> None:
        app = Service(Access(keys=False, local=False, rate=None), LIMITS, [RawRoute("/here", answer)])
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as http:
            await http.post("/here", content=b"{}")

    with without_collector():
        asyncio.run(ask())
        assert [body() for body in bodies] == [None]


def test_a_refused_body_is_freed_with_its_error():
    arrays: list[weakref.ref[object]] = []

    def refuse(rows: np.ndarray) -> None:
        raise ValueError("expected finite numbers")

    async def read() -> None:
        rows = np.ones(4)
        arrays.append(weakref.ref(rows))
        with contextlib.suppress(ValueError):
            await run_in_thread(LARGE + 1, refuse, rows)

    with without_collector():
        asyncio.run(read())
        assert [rows() for rows in arrays] == [None]


@pytest.mark.parametrize("query", ["", "a=1", "a=1&a=2&b=", "b", "&&a=1&", "a=1=2", "a=%20&b=1+2", "a=é", "=x"])
def test_parameters_are_read_like_a_query(query: str):
    class Known(BaseModel):
        a: list[str] = []
        b: str = "none"

    scope = {"type": "http", "path_params": {}, "query_string": query.encode(), "headers": []}
    found, expected = read_parameters(Known, Request(scope)), QueryParams(query.encode())
    assert (found.a, found.b) == (expected.getlist("a"), expected.get("b", "none"))


@pytest.mark.parametrize("item", [b"0", b"[]", b"{}", b'""', b'"\\\\"', b'"\\""'])
def test_values_are_counted_before_they_are_parsed(item: bytes):
    whole = b"[" + b",".join([item] * (MAX_VALUES // 3)) + b"]"
    assert len(parsed(whole)) == MAX_VALUES // 3
    with pytest.raises(ValueError, match="at most 65,536 values in JSON"):
        parsed(b"[" + b",".join([item] * (MAX_VALUES + 1)) + b"]")


def test_fields_are_counted_before_they_are_parsed():
    with pytest.raises(ValueError, match="at most 2,000 fields in JSON"):
        parsed(b"{" + b",".join([b'"" \t: 0'] * (MAX_FIELDS + 1)) + b"}")


@pytest.mark.parametrize("start", range(4))
def test_what_is_in_a_text_is_no_value(start: int):
    """Whatever stands at the end of a piece."""
    text = "x" * start + r",:[{\"" * (2 * MAX_VALUES)
    assert parsed(json.dumps({"text": text}).encode()) == {"text": text}
