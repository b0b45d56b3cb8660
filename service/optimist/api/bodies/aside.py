"""Work on large bodies is done in threads."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

Result = TypeVar("Result")

LARGE = 2**18
"""Bytes up to which a body is checked on the event loop: this takes less time than waking a thread."""


async def aside(size: int, work: Callable[..., Result], *args: Any) -> Result:
    """Return `work(*args)`, computed in a thread if it processes more than `LARGE` bytes."""
    if size <= LARGE:
        return work(*args)
    # The result comes in a list that is emptied here: the loop keeps a future and its result alive until the next one.
    done = (await asyncio.to_thread(_boxed, work, args)).pop()
    if isinstance(done, Exception):
        raise done
    return done


def _boxed(work: Callable[..., Result], args: tuple[Any, ...]) -> list[Result | Exception]:
    """The result of `work(*args)`, or its error without the traceback, whose frames would keep the arrays alive."""
    try:
        return [work(*args)]
    except Exception as error:
        error.__context__ = None
        return [error.with_traceback(None)]
