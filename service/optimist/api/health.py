"""Routes that say whether the process lives and can serve, and how it does."""

from __future__ import annotations

import time
from collections.abc import Callable

from fastapi import APIRouter, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from optimist.api.doors import METRICS
from optimist.api.problems import ApiError
from optimist.insight.metrics import REDIS_BYTES, REDIS_LIMIT_BYTES, REDIS_SECONDS
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


@router.get("/healthz")
async def alive() -> dict[str, str]:
    """The process answers."""
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
