"""The version of the data in Redis, so that no service misreads newer data; and the layout of the history."""

from __future__ import annotations

import contextlib

import numpy as np
from redis.asyncio import Redis

from optimist.store import keys
from optimist.store.errors import CannotStart, Unavailable, reaching_redis

FORMAT = 6
"""The newest format that this service reads. A version whose data this one would misread counts on.

2: experiments have `rules`.
3: logs have retractions. It is written with the first retraction; until then older services may start.
4: experiments have watched metrics. It is written with the first such experiment.
5: experiments have mixtures. It is written with the first experiment of the goal "mixture", and the first mixture: an
older service would score and serve the one as if it asked for the best generator, and keep the other over retractions.
6: experiments route prompts. It is written with the first experiment of the goal "route".
"""
USUAL = 2
"""The format of data without retractions, watched metrics, mixtures and routes."""
RETRACTING = 3
WATCHING = 4
MIXING = 5
ROUTING = 6
HISTORY = np.dtype([("generator", "<u2"), ("flags", "u1"), ("rows", "<u4")])
"""One batch of an experiment's history, as accept.lua appends it."""


async def check_format(redis: Redis) -> None:
    """Write the format into a Redis that has none yet, or an older one.

    Raises CannotStart if the data are of a newer service, or if the stored format is not a number; Unavailable if
    Redis cannot be reached now.
    """
    with reaching_redis():
        # Read first: a full Redis refuses writes, but can still be used.
        found = await redis.execute_command("GET", keys.FORMAT)
        if found is None and await redis.set(keys.FORMAT, USUAL, nx=True):
            return
        found = found or await redis.execute_command("GET", keys.FORMAT)
    text = (found or b"").decode(errors="replace")
    if not text.isdecimal():
        raise CannotStart(f"{keys.FORMAT} in Redis is {text!r}, not a number: are these the data of another program?")
    if int(text) > FORMAT:
        raise CannotStart(
            f"Redis holds data of format {text}, and this service knows {FORMAT} and older: it would misread them. "
            "Start the version that wrote them, or a newer one"
        )
    with contextlib.suppress(Unavailable):
        await mark_at_least(redis, USUAL)


async def mark_at_least(redis: Redis, version: int) -> None:
    """Write this format into a Redis that has an older one, or none. Raises Unavailable if that cannot be done now."""
    with reaching_redis():
        if int(await redis.execute_command("GET", keys.FORMAT) or 0) < version:
            await redis.set(keys.FORMAT, version)
