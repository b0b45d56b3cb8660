"""Logs and counts every request, and adds a request id to each response."""

from __future__ import annotations

import logging
import os
import re
import time
from functools import cache

from prometheus_client import Counter, Histogram
from starlette.types import Message, Scope, Send

from optimist.api.middleware.headers import header
from optimist.insight.logs import REQUEST_ID, REQUESTS
from optimist.insight.metrics import REQUEST_SECONDS
from optimist.insight.metrics import REQUESTS as ANSWERED

HEADER = b"x-request-id"
OTHER = "other"
"""The label for requests that matched no route, and for unusual methods: these may be arbitrary text."""
_ID = re.compile(r"[\x21-\x7e]{1,128}")
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


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
            message["headers"] = [*message.get("headers", ()), (HEADER, self._id.encode())]
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
            REQUESTS.info("%s %s %d", method, scope["path"], status, extra={"fields": fields})


@cache
def _answered(method: str, route: str, status: int) -> Counter:
    return ANSWERED.labels(method, route, str(status))


@cache
def _seconds(route: str) -> Histogram:
    return REQUEST_SECONDS.labels(route)
