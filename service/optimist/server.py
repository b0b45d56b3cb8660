"""One process of the service: Redis (embedded or given), the API, the scorer, put together and run."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from types import FrameType

import uvicorn

from optimist.api.app import create_app
from optimist.devices import find_device
from optimist.settings import Settings
from optimist.store import open_store, start_embedded
from optimist.store.deployment import wait_for_server


@contextmanager
def redis_of(settings: Settings) -> Iterator[str]:
    """The URL of the Redis server to use: the one given, else an embedded one that lives as long as this context.

    Raises `DirectoryInUse` when another service holds the data directory, `CannotStart` for a server that is not fit.
    """
    if settings.redis_url is not None:
        asyncio.run(wait_for_server(settings.redis_url))
        yield settings.redis_url
        return
    with start_embedded(settings.data_directory) as embedded:
        asyncio.run(wait_for_server(embedded.url))
        yield embedded.url


def serve(settings: Settings) -> None:
    """Run the API, and the scorer beside it unless told otherwise, until SIGINT or SIGTERM.

    Raises DeviceError where the scorer's device is not here.
    """
    background = None
    if settings.scoring:
        from optimist.scoring import scoring  # torch takes seconds to import: not without need

        background = partial(scoring, device=find_device(settings.device), warm_bytes=settings.warm_bytes)
    # uvicorn shuts down, then raises the signal again: by default that would end the process before Redis is stopped.
    signal.signal(signal.SIGTERM, _exit)
    with redis_of(settings) as url:
        app = create_app(settings, url, background)
        uvicorn.run(
            app,
            host=settings.host,
            port=settings.port,
            log_level="warning",
            timeout_keep_alive=75,  # a round of sampling takes longer than uvicorn's default of 5 s
            timeout_graceful_shutdown=10,
        )


def _exit(number: int, frame: FrameType | None) -> None:
    raise SystemExit(0)


def score_for_ever(redis_url: str, settings: Settings) -> None:
    """Run a scorer alone, until SIGINT or SIGTERM. Raises DeviceError where its device is not here."""
    from optimist.scoring import Scorer

    device = find_device(settings.device)

    async def run() -> None:
        await wait_for_server(redis_url)
        async with open_store(redis_url) as store:
            scorer = Scorer(store, device=device, warm_bytes=settings.warm_bytes)
            task = asyncio.create_task(scorer.run())
            for number in (signal.SIGINT, signal.SIGTERM):
                asyncio.get_running_loop().add_signal_handler(number, task.cancel)
            with contextlib.suppress(asyncio.CancelledError):
                await task

    asyncio.run(run())
