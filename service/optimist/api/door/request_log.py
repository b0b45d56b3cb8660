"""What every request leaves behind: its id in the answer and the log, and its part in the metrics."""

from __future__ import annotations

import logging
import os
import re
import time
from functools import cache

from prometheus_client import Counter, Histogram
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from optimist.insight.logs import REQUEST_ID, REQUESTS
from optimist.insight.metrics import REQUEST_SECONDS
from optimist.insight.metrics import REQUESTS as ANSWERED

HEADER = "x-request-id"
OTHER = "other"
"""The route of requests that met none: what they asked for is any text."""
_ID = re.compile(r"[\x21-\x7e]{1,128}")
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class Watching:
    """ASGI middleware that gives each request an id, the client's own where it sent one, and counts and times it."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass everything on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = Headers(scope=scope).get(HEADER, "")
        request_id = scope["request_id"] = given if _ID.fullmatch(given) else os.urandom(16).hex()
        REQUEST_ID.set(request_id)
        begun, status = time.perf_counter(), 500

        async def answering(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), (HEADER.encode(), request_id.encode())]
            await send(message)

        try:
            await self._app(scope, receive, answering)
        finally:
            _record(scope, status, time.perf_counter() - begun)


@cache
def _answered(method: str, route: str, status: int) -> Counter:
    return ANSWERED.labels(method, route, str(status))


@cache
def _seconds(route: str) -> Histogram:
    return REQUEST_SECONDS.labels(route)


def _record(scope: Scope, status: int, seconds: float) -> None:
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
        REQUESTS.info("%s %s %d", method, scope["path"], status, extra={"fields": fields})
