"""Builds the HTTP application. Neither this module nor the modules it imports use torch."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from importlib.metadata import version
from itertools import chain

from fastapi import FastAPI

from optimist.api.app_state import AppState
from optimist.api.exclusion import Exclusion
from optimist.api.messages.messenger import Messenger
from optimist.api.middleware.access import Access, KeyRing
from optimist.api.middleware.limits import BodyLimits, SharedCounters
from optimist.api.middleware.service import Service
from optimist.api.redis_health import RedisHealth
from optimist.api.references import Queue
from optimist.api.routes import (
    archives,
    audits,
    corrections,
    dashboard,
    experiments,
    generators,
    health,
    made,
    picks,
    previews,
    records,
    references,
    sharing,
    webhooks,
)
from optimist.experiments.goals.registry import requests_of_goals
from optimist.settings import Settings, load
from optimist.store import open_store
from optimist_client.wire import build_models


def create_app(settings: Settings, redis_url: str, counters: SharedCounters | None = None) -> Service:
    """Create the application for the Redis server at `redis_url`.

    counters: what the processes of this service share. With them, and `scoring`, `/readyz` answers 503 while the scorer
    is not heard of; without them, nobody started a scorer or another API process. Raises `FixError` if a module of
    `OPTIMIST_METRICS` cannot be imported.
    """
    load(settings.metrics)
    at_work = (lambda: counters.scorer_at_work) if counters is not None and settings.scoring else None

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncGenerator[None]:
        async with open_store(redis_url) as store:
            redis_health = RedisHealth(store, settings)
            shared = app.state.shared = AppState(store, settings, redis_health)
            app.state.references = Queue()
            app.state.exclusion = Exclusion()
            app.state.key_ring = KeyRing(store)
            app.state.readiness = health.Readiness(store, at_work)
            messenger = Messenger(shared, app.state.key_ring, settings)
            async with shared.listening(), redis_health.monitoring(), messenger.running():
                yield

    build_models()  # so that no request has to wait for it
    access = Access(keys=not settings.is_open, local=not settings.insecure, rate=settings.rate_limit)
    limits = BodyLimits(
        settings,
        {archives.IMPORT: settings.max_archive, references.ROWS: settings.max_reference},
        counters or SharedCounters(),
    )
    rooms = (
        *(picks, references, experiments, archives, made, previews, audits),
        *(records, sharing, webhooks, corrections, generators, health),
    )
    # Flat, as FastAPI would nest the routers that it includes: the route that a request is checked for must be the one
    # that answers it.
    routers = [*(room.router for room in rooms), *requests_of_goals()]
    routes = [*picks.raw, *chain.from_iterable(router.routes for router in routers), *dashboard.routes()]
    return Service(access, limits, routes, title="Optimist", version=version("optimist"), lifespan=lifespan)
