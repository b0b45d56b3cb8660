"""Waits for what a scorer makes when somebody asks: modes, mixtures, tables of routes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from optimist.api.problems import ApiError, invalid
from optimist.records import ExperimentState
from optimist_client.errors import BEING_MADE

POLL = 0.05
"""Seconds between checks for the result."""
ASK_AGAIN = 1.0
"""Seconds between requests to the scorers: a scorer may have missed the first one."""
PATIENCE = 10.0
"""Maximum seconds to wait for the result."""
BELIEVED = 1.0
"""Seconds after which a note of a scorer that it cannot be made is the answer."""
NAMED = 5
"""Maximum number of generators that an error names."""

Result = TypeVar("Result")


async def requested(
    look: Callable[[], Awaitable[tuple[Result | None, bool]]],
    want: Callable[[], Awaitable[None]],
    damage: Callable[[], Awaitable[str | None]] | None = None,
    is_at_work: Callable[[], Awaitable[bool]] | None = None,
) -> Result:
    """What a scorer has made, or an earlier one if it has not been made anew in time.

    look: what there is, None for nothing, and whether it is new enough; it raises if it cannot be made. want: tells the
    scorers to make it. damage: why they cannot, None if they can. is_at_work: whether a scorer is at it. Raises
    `ApiError` 422 with the reason of `damage`, 503 if there is nothing in time: `BEING_MADE` while a scorer is at work,
    so that it pays to ask again for as long as that takes, else "no-scorer".
    """
    deadline, ask_at, first = time.monotonic() + PATIENCE, 0.0, 0.0
    while True:
        (made, is_new), now = await look(), time.monotonic()
        if made is not None and (is_new or now >= deadline):
            return made
        # A note of earlier is not believed before a scorer had the time to try again.
        if damage is not None and first and now >= first + BELIEVED and (note := await damage()):
            raise invalid(note)
        if now >= deadline:
            if is_at_work is not None and await is_at_work():
                said = "a scorer is at work on it, and requests change nothing of that: ask again until it is there"
                raise ApiError(503, BEING_MADE, "Being made", said, action="retry")
            raise ApiError(503, "no-scorer", "Not scored yet", "no scorer responded in time", action="retry")
        if now >= ask_at:
            await want()
            first, ask_at = first or now, now + ASK_AGAIN
        await asyncio.sleep(POLL)


def missing(stored: ExperimentState, needed: int) -> str:
    """The active generators with fewer than `needed` samples, as text for an error; "" if there are none."""
    lacking = [generator for generator in stored.active if generator.samples < needed]
    named = [f"{needed - generator.samples} more samples of {generator.name!r}" for generator in lacking[:NAMED]]
    others = [f"of {len(lacking) - NAMED} others"] if len(lacking) > NAMED else []
    return ", ".join(named + others)
