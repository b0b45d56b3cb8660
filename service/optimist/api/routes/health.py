"""Routes that say whether the process lives and can serve, and how it does."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from fastapi import APIRouter, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from optimist.api.door.permissions import METRICS
from optimist.api.problems import ApiError
from optimist.api.vitals import Vitals
from optimist.insight.metrics import REDIS_BYTES, REDIS_LIMIT_BYTES, REDIS_SECONDS
from optimist.settings import Settings
from optimist.store import Store

router = APIRouter(tags=["health"])

PROBED = 1.0
"""Seconds for which an answer about Redis is good: anybody may ask, and it costs a write."""


class Readiness:
    """Whether this service can serve: Redis takes writes, and the scorer, where it has one, is at work."""

    def __init__(self, store: Store, scorer_at_work: Callable[[], bool] | None = None) -> None:
        self._scorer_at_work = scorer_at_work
        self._store = store
        self._probed_at = -PROBED

    async def check(self) -> None:
        """Raises `Unavailable`, or `ApiError` 503, where it cannot."""
        if self._scorer_at_work is not None and not self._scorer_at_work():
            raise ApiError(503, "no-scorer", "Not ready", "the scorer of this service is not at work", action="retry")
        if time.monotonic() - self._probed_at >= PROBED:
            await self._store.probe()
            self._probed_at = time.monotonic()


class Liveness:
    """Whether this process may go on as it is: the Redis that it keeps itself is not away for too long.

    One that runs elsewhere is no reason to restart this process, which waits for it.
    """

    def __init__(self, vitals: Vitals, settings: Settings) -> None:
        self._vitals = vitals
        self._patience = settings.alive_without_redis if settings.redis_url is None else math.inf

    def check(self) -> None:
        """Raises `ApiError` 503 where it may not."""
        if (seconds := self._vitals.down_for) >= self._patience:
            detail = f"the redis-server of this service has been down for {seconds:.0f} s; see the service's log"
            raise ApiError(503, "redis-down", "Not alive", detail, action="retry")


@router.get("/healthz")
async def alive(request: Request) -> dict[str, str]:
    """The process answers; 503 once the Redis that it keeps itself has been down for a minute, until it is back."""
    request.app.state.liveness.check()
    return {"status": "alive"}


@router.get("/readyz")
async def ready(request: Request) -> dict[str, str]:
    """Redis takes writes, and the scorer of this service is at work; 503 while that is not so."""
    await request.app.state.readiness.check()
    return {"status": "ready"}


@router.get(METRICS, response_class=Response, responses={200: {"content": {"text/plain": {}}}})
async def metrics(request: Request) -> Response:
    """The metrics of this process and its scorer, for Prometheus; a viewer's key of the namespace `default` will do."""
    health = await request.app.state.context.store.health()
    REDIS_SECONDS.set(health.latency)
    REDIS_BYTES.set(health.used_bytes or 0)
    REDIS_LIMIT_BYTES.set(health.limit_bytes or 0)
    return Response(generate_latest(), media_type=CONTENT_TYPE_LATEST)
