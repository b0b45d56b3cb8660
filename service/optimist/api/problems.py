"""Turns errors into RFC 9457 problem details.

Each says what was wrong, what was expected, and whether the client should fix the request, retry, or stop.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from http import HTTPStatus
from itertools import zip_longest
from typing import Literal

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.routing import BaseRoute, Route

from optimist.insight.metrics import REFUSED
from optimist.records import Conflict, Full, Gone, NotFound, NotRetractable, Refused, Retracted, StoreError, Unavailable
from optimist_client.models import Problem
from optimist_client.validation import brief, each_in_words, meant

Action = Literal["fix", "retry", "stop"]


class ApiError(Exception):
    """A refused request, of which nothing was stored. `slug` is the stable last part of the problem's type."""

    def __init__(
        self,
        status: int,
        slug: str,
        title: str,
        detail: str = "",
        action: Action = "fix",
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail or title)
        self.headers = headers or {}
        self.problem = Problem(
            type=f"urn:optimist:problem:{slug}", title=title, status=status, detail=detail, action=action
        )


def invalid(detail: str) -> ApiError:
    """A 422 error: the request could be parsed but its content is not valid."""
    return ApiError(422, "invalid", "The request is not valid", detail)


def of_http(error: HTTPException) -> ApiError:
    """An HTTPException as an `ApiError`, to be raised where FastAPI does not handle exceptions."""
    title = HTTPStatus(error.status_code).phrase
    action: Action = "retry" if error.status_code in (408, 503) else "fix"
    slug = title.lower().replace(" ", "-")
    return ApiError(error.status_code, slug, title, str(error.detail), action, error.headers)


def gone_away() -> ApiError:
    """A 400 error: the client disconnected before the response was sent."""
    return ApiError(400, "disconnected", "The client disconnected", action="retry")


def install(app: FastAPI) -> None:
    """Install error handlers so that `app` answers every error with a problem document."""

    async def answered(request: Request, error: Exception) -> Response:
        if isinstance(error, HTTPException) and error.detail == HTTPStatus(error.status_code).phrase:
            error = _of_path(app, request, error)
        return answer_to(error)

    for kind in (ApiError, StoreError, RequestValidationError, HTTPException, ClientDisconnect, Exception):
        app.add_exception_handler(kind, answered)


def _of_path(app: FastAPI, request: Request, error: HTTPException) -> HTTPException:
    """The error for a path or a method that no route has, with what was expected."""
    path, method = request.url.path, request.method
    if error.status_code == 405:
        allowed = sorted({name for route in app.routes for name in _methods_of(route, path)} - {"HEAD"})
        said = f"{path} takes {' and '.join(allowed)}, got {method}"
        return HTTPException(405, said, {"allow": ", ".join(allowed)})
    if error.status_code == 404:
        paths = [_as_asked(route.path, path) for route in app.routes if isinstance(route, Route)]
        return HTTPException(404, f"no route {brief(path)}{meant(path, paths)}", error.headers)
    return error


def _methods_of(route: BaseRoute, path: str) -> set[str]:
    return set(route.methods or ()) if isinstance(route, Route) and route.path_regex.match(path) else set()


def _as_asked(template: str, path: str) -> str:
    """The path of a route with the names that stand in the path of a request, where they have equally many parts."""
    parts = list(zip_longest(template.split("/"), path.split("/"), fillvalue=""))
    return "".join(f"/{asked if part.startswith('{') and asked else part}" for part, asked in parts if part)


def answer_to(error: Exception) -> Response:
    """The response to an error of any kind, a problem document."""
    if isinstance(error, HTTPException):
        error = of_http(error)
    elif isinstance(error, StoreError):
        error = problem_of(error)
    elif isinstance(error, RequestValidationError):
        error = invalid(each_in_words(error.errors()))
    elif isinstance(error, ClientDisconnect):
        error = gone_away()  # for the metrics only: nobody receives it
    elif not isinstance(error, ApiError):
        error = ApiError(500, "internal", "The service failed", type(error).__name__, action="retry")
    return respond(error.problem, error.headers)


_OF_STORE: list[tuple[type[StoreError], tuple[int, str, str, Action]]] = [
    (NotFound, (404, "not-found", "Not found", "fix")),
    (Retracted, (409, "retracted", "Retracted", "stop")),
    (NotRetractable, (409, "not-retractable", "Cannot be retracted", "fix")),
    (Conflict, (409, "conflict", "Conflict with the stored state", "fix")),
    (Full, (422, "invalid", "The request is not valid", "fix")),
    (Refused, (422, "invalid", "The request is not valid", "fix")),
    (Gone, (410, "gone", "No longer available", "stop")),
    (Unavailable, (503, "unavailable", "The store is not available", "retry")),
    (StoreError, (500, "store", "The store failed", "retry")),
]
"""Status, slug, title and action for each error of the store, the first one that fits."""


def problem_of(error: StoreError) -> ApiError:
    """The error to send to the client for an error of the store."""
    status, slug, title, action = next(facts for kind, facts in _OF_STORE if isinstance(error, kind))
    return ApiError(status, slug, title, str(error), action)


def respond(problem: Problem, headers: Mapping[str, str] | None = None) -> Response:
    """The HTTP response for a problem. `headers` override the default ones. Counts the problem in the metrics."""
    REFUSED.labels(problem.type.rpartition(":")[2]).inc()
    headers = {**({"retry-after": "1"} if problem.action == "retry" else {}), **(headers or {})}
    # ASCII only: the detail may quote client text with an unpaired surrogate, which UTF-8 cannot encode.
    body = json.dumps(problem.model_dump(), ensure_ascii=True)
    return Response(body, status_code=problem.status, headers=headers, media_type="application/problem+json")
