"""The application: FastAPI's, behind the checks that every request passes."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request, Response
from starlette.routing import compile_path
from starlette.types import Receive, Scope, Send

from optimist.api import problems
from optimist.api.middleware.access import Access
from optimist.api.middleware.limits import Limits
from optimist.api.middleware.request_log import Visit
from optimist.turns import Turns

_log = logging.getLogger(__name__)


class Straight:
    """A POST route that is answered without FastAPI, which has one of the same path for the documentation."""

    def __init__(self, path: str, answer: Callable[[Request], Awaitable[Response]]) -> None:
        self.path = path
        self.answer = answer
        self._pattern = compile_path(path)[0]

    def matches(self, scope: Scope) -> bool:
        """Whether a request is for this route, which its scope then names, as FastAPI does."""
        found = self._pattern.match(scope["path"])
        if found is None or scope["method"] != "POST":
            return False
        scope["route"], scope["path_params"] = self, found.groupdict()
        return True


class Service(FastAPI):
    """The application, in which every request gets an id, is checked, limited and counted.

    Namespaces have equal shares of its time (`Turns`).
    Requests for the `straight` routes are answered here: what FastAPI does on the way to a route takes longer than all
    that is done about a batch before it is sent to Redis.
    """

    def __init__(self, access: Access, limits: Limits, straight: Sequence[Straight], **settings: Any) -> None:
        super().__init__(**settings)
        self._access = access
        self._limits = limits
        self._straight_routes = straight
        self._turns = Turns()
        problems.install(self)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request. Its scope has "caller", "body" and "memory" when it comes to a route."""
        if scope["type"] != "http":
            await super().__call__(scope, receive, send)
            return
        scope["app"] = self
        visit = Visit(scope, send)
        try:
            try:
                await self._access.admit(scope)
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
            route = next((route for route in self._straight_routes if route.matches(scope)), None)
            answer = super().__call__ if route is None else await route.answer(Request(scope, receive))
        except Exception as error:
            answer = _refusal(error)
        await answer(scope, receive, visit.send)


def _refusal(error: Exception) -> Response:
    """The answer to a request that failed."""
    answer = problems.answer_to(error)
    if answer.status_code == HTTPStatus.INTERNAL_SERVER_ERROR:
        _log.error("a request failed", exc_info=error)
    return answer
