"""Errors as RFC 9457 problem details: what was wrong, what was expected, and whether to fix, retry or stop."""

from __future__ import annotations

import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import Literal

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from optimist.insight.metrics import REFUSED
from optimist.store import Conflict, Full, Gone, NotFound, Refused, StoreError, Unavailable
from optimist_client.models import Problem

Action = Literal["fix", "retry", "stop"]


class ApiError(Exception):
    """A refusal; nothing was stored. `slug` is the stable last part of the problem's type."""

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
    """422: the request could be read but is not what was expected."""
    return ApiError(422, "invalid", "The request is not what was expected", detail)


def gone_away() -> ApiError:
    """400: the client left before it was answered."""
    return ApiError(400, "disconnected", "The client left", action="retry")


def install(app: FastAPI) -> None:
    """Make every error of `app` a problem document."""

    @app.exception_handler(ApiError)
    async def refused(request: Request, error: ApiError) -> Response:
        return respond(error.problem, error.headers)

    @app.exception_handler(StoreError)
    async def stored(request: Request, error: StoreError) -> Response:
        return respond(problem_of(error).problem)

    @app.exception_handler(RequestValidationError)
    async def malformed(request: Request, error: RequestValidationError) -> Response:
        lines = [f"{'.'.join(str(part) for part in item['loc'])}: {item['msg']}" for item in error.errors()]
        return respond(invalid("; ".join(lines)).problem)

    @app.exception_handler(Exception)
    async def unexpected(request: Request, error: Exception) -> Response:
        return respond(
            ApiError(500, "internal", "The service failed", type(error).__name__, action="retry").problem,
            {"x-request-id": request.scope.get("request_id", "")},  # outside of what puts it into other answers
        )

    @app.exception_handler(HTTPException)
    async def other(request: Request, error: HTTPException) -> Response:
        title = HTTPStatus(error.status_code).phrase
        slug = title.lower().replace(" ", "-")
        action: Action = "retry" if error.status_code in (408, 503) else "fix"
        return respond(ApiError(error.status_code, slug, title, str(error.detail), action).problem, error.headers)

    @app.exception_handler(ClientDisconnect)
    async def left(request: Request, error: ClientDisconnect) -> Response:
        return respond(gone_away().problem)  # nobody hears it


def problem_of(error: StoreError) -> ApiError:
    """What a client is told of an error of the store."""
    detail = str(error)
    if isinstance(error, NotFound):
        return ApiError(404, "not-found", "Not found", detail)
    if isinstance(error, Conflict):
        return ApiError(409, "conflict", "Already settled otherwise", detail)
    if isinstance(error, Full | Refused):
        return invalid(detail)
    if isinstance(error, Gone):
        return ApiError(410, "gone", "No longer known", detail, action="stop")
    if isinstance(error, Unavailable):
        return ApiError(503, "unavailable", "The store is not available", detail, action="retry")
    return ApiError(500, "store", "The store failed", detail, action="retry")


def respond(problem: Problem, headers: Mapping[str, str] | None = None) -> Response:
    """A problem as the answer, with `headers` over its own; counted as a refusal."""
    REFUSED.labels(problem.type.rpartition(":")[2]).inc()
    headers = {**({"retry-after": "1"} if problem.action == "retry" else {}), **(headers or {})}
    # As ASCII: what a client sent may come back in the detail, and half a surrogate pair has no other encoding.
    body = json.dumps(problem.model_dump(), ensure_ascii=True)
    return Response(body, status_code=problem.status, headers=headers, media_type="application/problem+json")
