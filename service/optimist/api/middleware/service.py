"""The application: FastAPI's, behind the checks that every request passes. Each request is counted and logged."""

from __future__ import annotations

import logging
import os
import re
import time
from collections.abc import Awaitable, Callable, Iterable
from functools import cache
from http import HTTPStatus
from typing import Any, TypeVar, get_args, get_origin
from urllib.parse import parse_qsl

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from prometheus_client import Counter, Histogram
from pydantic import BaseModel, ValidationError
from starlette.routing import BaseRoute, Match, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from optimist.api import problems
from optimist.api.app_state import is_replaced
from optimist.api.middleware.access import Access, header
from optimist.api.middleware.limits import ADMITTED, BodyLimits
from optimist.api.middleware.permissions import permission_of
from optimist.api.problems import ApiError
from optimist.insight.metrics import REQUEST_SECONDS
from optimist.insight.metrics import REQUESTS as ANSWERED
from optimist.process import REQUEST_ID, REQUESTS
from optimist.records import NotFound
from optimist.turns import Turns

HEADER = b"x-request-id"
SAFE_HEADERS = {b"cache-control": b"private, no-store", b"x-content-type-options": b"nosniff"}
"""The headers of every answer that does not have its own: no proxy or browser keeps it, or guesses its type."""
OTHER = "other"
"""The label for requests that matched no route, and for unusual methods: these may be arbitrary text."""
_ID = re.compile(r"[\x21-\x7e]{1,128}")
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_log = logging.getLogger(__name__)
Parameters = TypeVar("Parameters", bound=BaseModel)


class Visit:
    """One request: it gets an id, the client's own if it sent one, and is counted and timed."""

    def __init__(self, scope: Scope, send: Send) -> None:
        given = header(scope, HEADER)
        self._id = given if given is not None and _ID.fullmatch(given) else os.urandom(16).hex()
        REQUEST_ID.set(self._id)
        self._scope = scope
        self._send = send
        self._begun = time.perf_counter()
        self._status = 500

    async def send(self, message: Message) -> None:
        """Pass a message of the response on, with the request's id in its headers."""
        if message["type"] == "http.response.start":
            self._status = message["status"]
            headers = list(message.get("headers", ()))
            own = {name for name, _ in headers}
            missing = [item for item in SAFE_HEADERS.items() if item[0] not in own]
            message["headers"] = [*headers, *missing, (HEADER, self._id.encode())]
        await self._send(message)

    def record(self) -> None:
        """Count the request, by the route in its scope, and log it where requests are logged."""
        scope, status, seconds = self._scope, self._status, time.perf_counter() - self._begun
        route = getattr(scope.get("route"), "path", OTHER)
        method = scope["method"] if scope["method"] in _METHODS else OTHER
        _answered(method, route, status).inc()
        _seconds(route).observe(seconds)
        if REQUESTS.isEnabledFor(logging.INFO):
            caller = scope.get("caller")
            fields = {
                "method": method,
                "path": scope["path"],
                "status": status,
                "seconds": round(seconds, 6),
                "key": None if caller is None else caller.key or None,
            }
            if (waited_for := scope.get("waited_for")) is not None:
                fields["waited_for"] = waited_for
            REQUESTS.info("%s %s %d", method, scope["path"], status, extra={"fields": fields})


@cache
def _answered(method: str, route: str, status: int) -> Counter:
    return ANSWERED.labels(method, route, str(status))


@cache
def _seconds(route: str) -> Histogram:
    return REQUEST_SECONDS.labels(route)


class RawRoute(Route):
    """A POST route that is answered without FastAPI, which has one of the same path for the documentation.

    What FastAPI does on the way to a route takes longer than all that is done about a batch before it is sent to Redis.
    """

    def __init__(self, path: str, endpoint: Callable[[Request], Awaitable[Response]]) -> None:
        """Raises TypeError where the function of the route has no permission."""
        permission_of(endpoint)
        super().__init__(path, endpoint, methods=["POST"], include_in_schema=False)

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """The match of a request with this route. Another method is for FastAPI's route of the same path."""
        matching, matched = super().matches(scope)
        return (matching, matched) if matching is Match.FULL else (Match.NONE, {})

    async def answer(self, request: Request) -> Response:
        """The route's answer by the experiment as this process last saw it. Where that was deleted and made again, the
        new one answers."""
        try:
            return await self.endpoint(request)
        except (NotFound, ApiError):
            if not await is_replaced(request):
                raise
        return await self.endpoint(request)


def read_parameters(model: type[Parameters], request: Request) -> Parameters:
    """Read the fields of `model` from the request's path and query like FastAPI, which would double the time of a tell.

    Raises RequestValidationError if they are not valid.
    """
    path, text = request.path_params, request.scope["query_string"].decode("latin-1")
    if "%" in text or "+" in text:
        pairs = parse_qsl(text, keep_blank_values=True)
    else:  # the same, in a fifth of the time
        pairs = [pair.partition("=")[::2] for pair in text.split("&") if pair]
    given: dict[str, Any] = {**dict(pairs), **path}
    for name in _lists(model):
        if name in given:
            given[name] = [value for key, value in pairs if key == name]
    try:
        return model.model_validate(given)
    except ValidationError as error:
        errors = error.errors(include_url=False)
        raise RequestValidationError(
            [
                {**problem, "loc": ("path" if problem["loc"][0] in path else "query", *problem["loc"])}
                for problem in errors
            ]
        ) from None


@cache
def _lists(model: type[BaseModel]) -> list[str]:
    """The names of the fields that are lists, for which a query may give several values."""
    fields = model.model_fields.items()
    return [name for name, field in fields if list in map(get_origin, (field.annotation, *get_args(field.annotation)))]


def parameters_in_openapi(model: type[BaseModel], *path: str) -> dict[str, Any]:
    """The OpenAPI description of the parameters, for the route's `openapi_extra`. `path` names those in the path."""
    schema = model.model_json_schema()
    required = schema.get("required", [])
    return {
        "parameters": [
            {
                "name": name,
                "in": "path" if name in path else "query",
                "required": name in required,
                "schema": {key: value for key, value in described.items() if key != "description"},
                **({"description": described["description"]} if "description" in described else {}),
            }
            for name, described in schema["properties"].items()
        ],
        "responses": {
            "422": {
                "description": "Validation Error",
                "content": {"application/json": {"schema": {"$ref": "#/components/schemas/HTTPValidationError"}}},
            }
        },
    }


class Service(FastAPI):
    """The application, in which every request gets an id, is checked, limited and counted.

    Namespaces have equal shares of its time (`Turns`). Of its `routes` the first one that matches answers. FastAPI adds
    none of its own: each route says what its caller needs, and a path with one slash more is another path.
    """

    def __init__(self, access: Access, limits: BodyLimits, routes: Iterable[BaseRoute], **settings: Any) -> None:
        super().__init__(openapi_url=None, docs_url=None, redoc_url=None, redirect_slashes=False, **settings)
        self._access = access
        self._limits = limits
        self.router.routes.extend(routes)
        self._turns = Turns()
        problems.install(self)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request. Its scope has "caller", "body" and "memory" when it comes to a route."""
        if scope["type"] != "http":
            await super().__call__(scope, receive, send)
            return
        scope["app"] = self
        visit = Visit(scope, send)
        counted = scope.get("state", {}).pop(ADMITTED, None)
        try:
            try:
                await self._access.admit(scope, self.routes)
                if counted is not None and "caller" in scope and not counted(scope["caller"].key):
                    raise _too_many_connections()
            except Exception as error:
                await _refusal(error)(scope, receive, visit.send)
                return
            if (caller := scope.get("caller")) is None:
                await self._answer(scope, receive, visit)
                return
            await self._turns.take(caller.namespace)
            await self._turns.metered(caller.namespace, self._answer(scope, receive, visit))
        finally:
            if "body" in scope:
                scope.pop("body").release()  # it refers to the scope: without this only the collector would free both
            visit.record()

    async def _answer(self, scope: Scope, receive: Receive, visit: Visit) -> None:
        """Answer a request that is admitted."""
        try:
            receive = self._limits.body(scope, receive, self._access.admit_again, self._turns)
            answer: ASGIApp = super().__call__
            if isinstance(route := scope.get("route"), RawRoute):
                answer = await route.answer(Request(scope, receive))
        except Exception as error:
            answer = _refusal(error)
        await answer(scope, receive, visit.send)


def _too_many_connections() -> ApiError:
    return ApiError(
        503,
        "unavailable",
        "Too many connections",
        "requests in progress with this key use its share of the connections: try again later",
        action="retry",
        headers={"retry-after": "1", "connection": "close"},
    )


def _refusal(error: Exception) -> Response:
    """The answer to a request that failed."""
    answer = problems.answer_to(error)
    if answer.status_code == HTTPStatus.INTERNAL_SERVER_ERROR:
        _log.error("a request failed", exc_info=error)
    return answer
