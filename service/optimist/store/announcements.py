"""Hearing of estimates that are due, or made, as it happens, through lost connections."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass

from redis import exceptions as redis_errors
from redis.asyncio.client import PubSub

from optimist.store.commands import Commands

_QUIET_SECONDS = 5.0
_LONGEST_PAUSE = 1.0


@dataclass(frozen=True, slots=True)
class Announcement:
    """An estimate due (channel `keys.DUE`) or made (`keys.SCORED`) at a position of a generator's log."""

    channel: str
    experiment: str
    generator: int
    seq: int


Announcements = AsyncGenerator[Announcement | None]


@asynccontextmanager
async def announcements(commands: Commands, *channels: str) -> AsyncIterator[Announcements]:
    """An endless stream of announcements; None means: look for yourself, something may have been missed.

    None comes once the subscription stands, after every lost connection, and after some seconds of silence, so that
    nobody sleeps on a lost message. While Redis is away the stream waits for it; it never ends and raises nothing.
    """
    pubsub = commands.pubsub()
    try:
        async with aclosing(_listen(pubsub, channels)) as stream:
            yield stream
    finally:
        await pubsub.aclose()


async def _listen(pubsub: PubSub, channels: tuple[str, ...]) -> Announcements:
    pause = 0.05
    while True:
        try:
            if not pubsub.subscribed:
                await pubsub.subscribe(*channels)
                _heed_cancellation()
            message = await pubsub.get_message(timeout=_QUIET_SECONDS)
            _heed_cancellation()
        except (redis_errors.ConnectionError, redis_errors.TimeoutError):
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
            continue
        pause = 0.05
        if message is not None and message["type"] == "message":
            experiment, generator, seq = message["data"].decode().split(" ")
            yield Announcement(message["channel"].decode(), experiment, int(generator), int(seq))
        else:
            yield None


def _heed_cancellation() -> None:
    # redis-py swallows a cancellation that meets a connection being made; the task would listen for ever.
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError
