"""The version of the data in Redis, so that no service misreads newer data; and the layout of the history.

Until the first tag, 1.0, the format stays 1: a change of the data makes the fixture of `tests/compatibility` anew, and
CHANGELOG.md says so. From 1.0 on every later version opens the data that are in Redis: a change that an older service
would misread counts the format on, earlier formats are still read, and the fixture of each stays as it is.
"""

from __future__ import annotations

from redis.asyncio import Redis

from optimist.records import CannotStart
from optimist.store import keys
from optimist.store.reaching import reaching_redis

FORMAT = 1
"""The format that this service writes, and the only one that it reads."""


async def check_format(redis: Redis) -> None:
    """Write the format into a Redis that has none yet.

    Raises CannotStart if the data have another format; Unavailable if Redis cannot be reached now.
    """
    with reaching_redis():
        # Read first: a full Redis refuses writes, but can still be used.
        found = await redis.execute_command("GET", keys.FORMAT)
        if found is None and await redis.set(keys.FORMAT, FORMAT, nx=True):
            return
        found = found or await redis.execute_command("GET", keys.FORMAT)
    text = (found or b"").decode(errors="replace")
    if not text.isdecimal():
        raise CannotStart(f"{keys.FORMAT} in Redis is {text!r}, not a number: are these the data of another program?")
    if int(text) != FORMAT:
        raise CannotStart(
            f"Redis holds data of format {text}, and this service knows format {FORMAT}: it would misread them. "
            "Start the version that wrote them, or a newer one"
        )
