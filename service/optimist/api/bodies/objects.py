"""Bodies of JSON: what one holds is counted before it is parsed, and a large one is parsed in a thread. All are UTF-8.

To parse millions of values holds all threads, and validation makes an error for each unknown field.

Work on large bodies is done in threads.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from typing import Any, ClassVar, TypeVar

from fastapi import HTTPException, Request, Response
from starlette.requests import ClientDisconnect

from optimist.api.middleware.access import header
from optimist.api.middleware.limits import Body, has_gone
from optimist.api.middleware.permissions import GuardedRoute
from optimist.api.problems import ApiError
from optimist.json_sizes import MAX_VALUES, check_size

_Result = TypeVar("_Result")

LARGE = 2**18
"""Bytes up to which a body is checked on the event loop: this takes less time than waking a thread."""
JSON_WORK = 8
"""Work for a byte of JSON, in bytes of other bodies."""


async def run_in_thread(size: int, work: Callable[..., _Result], *args: Any) -> _Result:
    """Return `work(*args)`, computed in a thread if it processes more than `LARGE` bytes.

    Raises ClientDisconnect where the client has gone by the time at which a thread is free.
    """
    if size <= LARGE:
        return work(*args)
    # The result comes in a list that is emptied here: the loop keeps a future and its result alive until the next one.
    done = (await asyncio.to_thread(_boxed, work, args)).pop()
    if isinstance(done, Exception):
        try:
            raise done
        finally:
            del done  # it refers to this frame: only the collector would free both, and the arrays in `args` with them
    return done


def _boxed(work: Callable[..., _Result], args: tuple[Any, ...]) -> list[_Result | Exception]:
    """The result of `work(*args)`, or its error without the traceback, whose frames would keep the arrays alive."""
    try:
        if has_gone():
            raise ClientDisconnect
        return [work(*args)]
    except Exception as error:
        error.__context__ = None
        return [error.with_traceback(None)]


def text_of(body: bytes, max_values: int = MAX_VALUES) -> str:
    """The text of a body of JSON.

    Raises HTTPException 400 unless it is UTF-8, which is what `check_size` counts, FixError as that does.
    """
    try:
        text = body.decode()
    except UnicodeDecodeError as error:
        raise HTTPException(400, f"expected JSON in UTF-8, got other bytes at {error.start}") from None
    if text.startswith("\ufeff") or "\0" in text:  # UTF-16 and UTF-32 of ASCII is UTF-8 with zeros
        raise HTTPException(400, "expected JSON in UTF-8, got a byte order mark, or zeros")
    check_size(body, max_values)
    return text


def parsed(body: bytes, max_values: int = MAX_VALUES) -> Any:
    """The value of a body of JSON. Raises JSONDecodeError, also where `check_size` raises; HTTPException 400."""
    try:
        text = text_of(body, max_values)
    except ValueError as error:
        raise json.JSONDecodeError(str(error), "", 0) from None
    # Without calls into Python code, json.loads would hold the GIL until it has finished and block all other threads.
    hooks: dict[str, Any] = (
        {"parse_float": _calling(float), "parse_int": _calling(int)} if JSON_WORK * len(body) > LARGE else {}
    )
    return json.loads(text, **hooks)


def _calling(kind: Callable[[str], float]) -> Callable[[str], float]:
    return lambda text: kind(text)


def expect_json(request: Request) -> None:
    """Raises `ApiError` 415 if the body is named as anything but JSON, as `curl -d` and forms do."""
    kind = (header(request.scope, b"content-type") or "application/json").partition(";")[0].strip().lower()
    if not kind.endswith("json"):
        raise ApiError(415, "media-type", "Unsupported media type", f"expected application/json, got {kind}")


class _Parsed(Request):
    async def json(self) -> Any:
        body = await self.body()
        return await run_in_thread(JSON_WORK * len(body), parsed, body)


class ModelRoute(GuardedRoute):
    """A route whose body FastAPI reads as a model, of at most `max_bytes` bytes."""

    max_bytes: ClassVar[int] = LARGE

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """FastAPI's handler, which gets requests that parse JSON by `parsed`."""
        handler = super().get_route_handler()

        async def handle(request: Request) -> Response:
            if self.body_field is not None:
                body: Body = request.scope["body"]
                body.expect(self.max_bytes)
                expect_json(request)
            return await handler(_Parsed(request.scope, request.receive))

        return handle


class LongRoute(ModelRoute):
    """A route whose model has long texts: prompts, or images in base64."""

    max_bytes = 2**24
