"""Routes for liveness, readiness and Prometheus metrics of this process."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

from fastapi import APIRouter, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from optimist.api.middleware.permissions import MONITOR, PUBLIC, GuardedRoute, permits
from optimist.api.problems import ApiError
from optimist.api.redis_health import RedisHealth
from optimist.insight.metrics import REDIS_BYTES, REDIS_LIMIT_BYTES, REDIS_SECONDS
from optimist.insight.shared import registry
from optimist.settings import Settings
from optimist.store import Store

router = APIRouter(tags=["health"], route_class=GuardedRoute)

PROBED = 1.0
"""Seconds for which the result of a probe of Redis is reused: anyone may request it, and a probe costs a write."""


class Readiness:
    """Checks whether this service can serve: Redis accepts writes, and its own scorer, if any, is running."""

    def __init__(self, store: Store, scorer_at_work: Callable[[], bool] | None = None) -> None:
        self._scorer_at_work = scorer_at_work
        self._store = store
        self._probed_at = -PROBED

    async def check(self) -> None:
        """Raise `Unavailable` or `ApiError` 503 if the service cannot serve."""
        if self._scorer_at_work is not None and not self._scorer_at_work():
            raise ApiError(503, "no-scorer", "Not ready", "the scorer of this service is not running", action="retry")
        if time.monotonic() - self._probed_at >= PROBED:
            await self._store.probe()
            self._probed_at = time.monotonic()


class Liveness:
    """Checks whether this process should keep running: its embedded Redis must not be down for too long.

    An external Redis is not checked: restarting this process would not help, and it waits for Redis by itself.
    """

    def __init__(self, redis_health: RedisHealth, settings: Settings) -> None:
        self._redis_health = redis_health
        self._patience = settings.alive_without_redis if settings.redis_url is None else math.inf

    def check(self) -> None:
        """Raise `ApiError` 503 if the process should be restarted."""
        if (seconds := self._redis_health.down_for) >= self._patience:
            detail = f"the redis-server of this service has been down for {seconds:.0f} s; see the service's log"
            raise ApiError(503, "redis-down", "Not alive", detail, action="retry")


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
    request.app.state.liveness.check()
    return {"status": "alive"}


@router.get("/readyz")
@permits(PUBLIC)
async def ready(request: Request) -> dict[str, str]:
    """Readiness: 200 while Redis accepts writes and the scorer of this service is running; otherwise 503."""
    await request.app.state.readiness.check()
    return {"status": "ready"}


@router.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
@permits(MONITOR)
async def metrics(request: Request) -> Response:
    """Prometheus metrics of the processes of this service. Requires a key of the namespace `default`, role viewer."""
    health = await request.app.state.context.store.health()
    REDIS_SECONDS.set(health.latency)
    REDIS_BYTES.set(health.used_bytes or 0)
    REDIS_LIMIT_BYTES.set(health.limit_bytes or 0)
    return Response(generate_latest(registry()), media_type=CONTENT_TYPE_LATEST)
