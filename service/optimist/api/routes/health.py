"""Routes for liveness, readiness and Prometheus metrics of this process."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import Any, Literal

from fastapi import APIRouter, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from pydantic import BaseModel

from optimist.api.middleware.permissions import MONITOR, PUBLIC, GuardedRoute, permits
from optimist.api.problems import ApiError
from optimist.insight.metrics import REDIS_SECONDS, REDIS_UNSERVED
from optimist.insight.shared import registry
from optimist.store import Store

router = APIRouter(tags=["health"], route_class=GuardedRoute)
logger = logging.getLogger(__name__)

PROBED = 1.0
"""Seconds for which the result of a probe of Redis is reused: anyone may request it, and a probe costs a write."""


class Readiness:
    """Checks whether this service can serve: Redis accepts writes, and its own scorer, if any, is running."""

    def __init__(self, store: Store, scorer_at_work: Callable[[], bool] | None = None) -> None:
        self._scorer_at_work = scorer_at_work
        self._store = store
        self._probed_at = -PROBED
        self._unserved: list[int] = []

    async def check(self) -> list[str]:
        """The ranges of a cluster's slots whose experiments cannot be served, as "0-5460"; a single Redis has none.

        While others are served, this service is ready: no other one could serve more. Raises `Unavailable` or
        `ApiError` 503 if it cannot serve.
        """
        if self._scorer_at_work is not None and not self._scorer_at_work():
            raise ApiError(503, "no-scorer", "Not ready", "the scorer of this service is not running", action="retry")
        if time.monotonic() - self._probed_at >= PROBED:
            before, self._unserved = self._unserved, await self._store.probe()
            self._probed_at = time.monotonic()
            REDIS_UNSERVED.set(len(self._unserved))
            if self._unserved != before:
                slots = ", ".join(_ranges(self._unserved)) or "none any more"
                logger.warning("slots of the Redis Cluster that no node accepts writes for: %s", slots)
        return _ranges(self._unserved)


def _ranges(slots: Sequence[int]) -> list[str]:
    """Ascending slots as ranges."""
    firsts, lasts = (sorted({*slots} - {slot + step for slot in slots}) for step in (1, -1))
    return [f"{first}-{last}" for first, last in zip(firsts, lasts, strict=True)]


@router.get("/openapi.json", include_in_schema=False)
@permits(PUBLIC)
async def openapi(request: Request) -> dict[str, Any]:
    """The description of the HTTP API."""
    return request.app.openapi()


@router.get("/healthz")
@permits(PUBLIC)
async def alive(request: Request) -> dict[str, str]:
    """Liveness: 200 while the process responds.

    503 while its embedded Redis is down, once that has lasted for OPTIMIST_ALIVE_WITHOUT_REDIS (60 seconds).
    """
    request.app.state.shared.redis_health.check_alive()
    return {"status": "alive"}


class Ready(BaseModel):
    """The answer of a service that is ready."""

    status: Literal["ready"] = "ready"
    unserved: list[str]
    """Ranges of the slots of a Redis Cluster whose experiments get 503; none of a single Redis."""


@router.get("/readyz")
@permits(PUBLIC)
async def ready(request: Request) -> Ready:
    """Readiness: 200 while Redis accepts writes and the scorer of this service is running; otherwise 503.

    Of a Redis Cluster one master suffices: `unserved` names the slots of the others that do not accept writes.
    """
    return Ready(unserved=await request.app.state.readiness.check())


@router.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
@permits(MONITOR)
async def metrics(request: Request) -> Response:
    """Prometheus metrics of the processes of this service. Requires a key of the namespace `default`, role viewer."""
    store: Store = request.app.state.shared.store
    begun = time.perf_counter()
    await store.ping()
    REDIS_SECONDS.set(time.perf_counter() - begun)
    return Response(generate_latest(registry()), media_type=CONTENT_TYPE_LATEST)
