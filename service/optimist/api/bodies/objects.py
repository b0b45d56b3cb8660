"""Bodies of JSON: a large one is parsed in a thread, and refused at once where an object has far too many fields.

Validation makes an error for each unknown field: millions of them would hold the event loop for a minute.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.routing import APIRoute

from optimist.api.bodies.aside import LARGE, aside

MOST_FIELDS = 2000
"""Fields of an object. The costs of an experiment have the most, one for each generator."""

MOST_LISTS = 2**20
"""Opening brackets in a body, those in texts included: no hook is called of a list, so millions hold the GIL."""


def parsed(body: bytes) -> Any:
    """The value of a JSON text. Raises JSONDecodeError, also beyond `MOST_FIELDS` of an object and `MOST_LISTS`."""
    if (found := body.count(b"[")) > MOST_LISTS:
        raise json.JSONDecodeError(f"at most {MOST_LISTS} opening brackets, found {found}", "", 0)
    # Without calls into Python code, json.loads would hold the GIL until it has finished and block all other threads.
    hooks: dict[str, Any] = {"parse_float": _calling(float), "parse_int": _calling(int)} if len(body) > LARGE else {}
    return json.loads(body, object_pairs_hook=_object, **hooks)


def _object(fields: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(fields) > MOST_FIELDS:
        raise json.JSONDecodeError(f"at most {MOST_FIELDS} fields of an object, found {len(fields)}", "", 0)
    return dict(fields)


def _calling(kind: Callable[[str], float]) -> Callable[[str], float]:
    return lambda text: kind(text)


class _Parsed(Request):
    async def json(self) -> Any:
        body = await self.body()
        return await aside(len(body), parsed, body)


class ModelRoute(APIRoute):
    """A route whose body FastAPI reads as a model."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """FastAPI's handler, which gets requests that parse JSON by `parsed`."""
        handler = super().get_route_handler()

        async def handle(request: Request) -> Response:
            return await handler(_Parsed(request.scope, request.receive))

        return handle
