"""Runs a scorer as a process: `optimist scorer`, and the child of `optimist serve`."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
from collections.abc import Callable

import torch

from optimist.process import answer_soon, give_back_from
from optimist.scoring.scorer import Scorer
from optimist.store import open_store
from optimist.store.connect import shown, wait_for_server

_log = logging.getLogger(__name__)
LARGE = 4 * 2**20
"""Blocks of memory of this size or more are returned to the system as soon as they are freed."""


def score_for_ever(
    redis_url: str, device: torch.device, warm_bytes: int | None, begun: Callable[[Scorer], None] | None = None
) -> None:
    """Score until SIGINT or SIGTERM, then release all generators; `begun` is called once Redis answers.

    Raises CannotStart if Redis is unsuitable.
    """

    async def run() -> None:
        await wait_for_server(redis_url)
        async with open_store(redis_url) as store:
            scorer = Scorer(store, device=device, warm_bytes=warm_bytes)
            task = asyncio.create_task(scorer.run())
            _log.info("the scorer begins, on %s (Redis: %s)", device, shown(redis_url))
            for number in (signal.SIGINT, signal.SIGTERM):
                asyncio.get_running_loop().add_signal_handler(number, task.cancel)
            if begun is not None:
                begun(scorer)
            with contextlib.suppress(asyncio.CancelledError):
                await task

    # Eigenproblems leave some 400 MiB of freed blocks at d = 2048.
    give_back_from(LARGE)
    answer_soon()
    asyncio.run(run())
