"""The limit that `rounds.py` compares with: a bare FastAPI route that adds the body to a Redis stream."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import uvicorn
from fastapi import FastAPI, Request

from optimist.store import connect, start_embedded


def app(redis_url: str) -> FastAPI:
    """An application with one route, which sends one Redis command."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        app.state.redis = connect(redis_url)
        yield
        await app.state.redis.aclose()

    echo = FastAPI(lifespan=lifespan)

    @echo.post("/echo")
    async def add(request: Request) -> dict[str, int]:
        body = await request.body()
        await echo.state.redis.xadd("echo", {"body": body})
        return {"bytes": len(body)}

    return echo


if __name__ == "__main__":
    port, directory = int(sys.argv[1]), Path(sys.argv[2])
    with start_embedded(directory) as redis:
        uvicorn.run(app(redis.url), host="127.0.0.1", port=port, log_level="warning", timeout_keep_alive=300)
