"""Routes that say whether the process lives and can serve."""

from __future__ import annotations

from fastapi import APIRouter

from optimist.api.context import StoreDep

router = APIRouter(tags=["health"])


@router.get("/healthz")
async def alive() -> dict[str, str]:
    """The process answers."""
    return {"status": "alive"}


@router.get("/readyz")
async def ready(store: StoreDep) -> dict[str, str]:
    """The store answers too; 503 while it does not."""
    await store.ping()
    return {"status": "ready"}
