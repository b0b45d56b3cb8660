"""Subscriptions to announcements of estimates that are due or made. They survive lost connections."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import Any

from redis.asyncio.client import PubSub

from optimist.records import Artefact, Unavailable
from optimist.store.clients import reaching_redis
from optimist.store.scripts import Commands

_QUIET_SECONDS = 5.0
"""Seconds for which the next message is waited for at a time."""


@dataclass(frozen=True, slots=True)
class Announcement:
    """An estimate due (channel `keys.DUE`) or made (`keys.SCORED`) at a position of a generator's log; or what `keys`
    says of another channel."""

    channel: str
    experiment: str
    generator: int
    seq: int
    wanted: Artefact | None = None
    """Artefact that a request waits for; on the channel `keys.WANTED`."""


Announcements = AsyncGenerator[Announcement | None]


@asynccontextmanager
async def announcements(commands: Commands, *channels: str) -> AsyncGenerator[Announcements]:
    """An endless stream of announcements. None means that some may have been missed: read the state.

    None is sent when the subscription begins, and after every lost connection. While Redis is unreachable the stream
    waits; it never ends and never raises.
    """
    async with aclosing(_listen(commands, channels)) as stream:
        yield stream


async def _listen(commands: Commands, channels: tuple[str, ...], shortest: float = 0.05) -> Announcements:
    """shortest: seconds before the first attempt to listen again after Redis was lost."""
    pause = shortest
    while True:
        try:
            async with aclosing(_hear(commands, channels)) as heard:
                async for announcement in heard:
                    pause = shortest
                    yield announcement
        except Unavailable:
            await asyncio.sleep(pause)
            pause = min(2 * pause, 1.0)  # a server that starts is not asked by all processes all the time


async def _hear(commands: Commands, channels: tuple[str, ...]) -> Announcements:
    """One subscription, until its connection is lost: raises Unavailable then."""
    # In a cluster this finds the nodes, one of which is then subscribed to.
    await commands.call("PING")
    with reaching_redis():
        pubsub = commands.pubsub()
    try:
        with reaching_redis():
            await pubsub.subscribe(*channels)
        _heed_cancellation()
        asked = False
        while True:
            with reaching_redis():
                message = await _next(pubsub)
                _heed_cancellation()
                if message is None and asked:
                    # A frozen or disconnected server does not close its connections.
                    raise Unavailable("Redis no longer answers")
                if message is None:
                    await pubsub.ping()
            asked = message is None
            if message is not None and message["type"] == "message":
                experiment, generator, seq, *wanted = message["data"].decode().split(" ")
                artefacts = map(Artefact.from_name, wanted)
                yield Announcement(message["channel"].decode(), experiment, int(generator), int(seq), *artefacts)
            elif message is not None and message["type"] != "pong":  # subscribed
                yield None
    finally:
        await pubsub.aclose()


async def _next(pubsub: PubSub) -> Any:
    """The next message; None after a while without any."""
    return await pubsub.get_message(timeout=_QUIET_SECONDS)


def _heed_cancellation() -> None:
    # redis-py swallows a cancellation while it connects; without this the task would never end.
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError
