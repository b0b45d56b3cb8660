"""Commands to an experiment whose tables Python changes, carried out on the store. The service does not use it yet."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from optimist.dispatch.writer import Command, Pause, Writer
from optimist.records.commits import Load
from optimist.store import Store

PAUSE = 0.002
"""Seconds after which to try again while it is somebody else's turn."""


async def carried_out(store: Store, experiment: str, writer: Writer, commands: Sequence[Command]) -> list[Any]:
    """The replies to these commands, errors of the store among them, as of `Writer.run`; durable when this returns.

    Raises Unavailable; each command may then be given again. A writer carries out one call at a time.
    """
    steps = writer.run(commands)
    try:
        request = next(steps)
        while True:
            if isinstance(request, Pause):
                await asyncio.sleep(PAUSE)
                request = steps.send(None)
            elif isinstance(request, Load):
                request = steps.send(await store.load_tables(experiment))
            else:
                request = steps.send(await store.commit(experiment, request))
    except StopIteration as done:
        return done.value
    finally:
        steps.close()
