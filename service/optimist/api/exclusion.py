"""Work that an API process does for one caller at a time: an import for an access key, or a trial in a namespace."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from weakref import WeakValueDictionary

from optimist.api.problems import ApiError


class Exclusion:
    """Refuses what somebody does already (`doing`), or lets it wait (`lock`)."""

    def __init__(self) -> None:
        self._until: dict[tuple[str, str], float] = {}
        """Until when, in monotonic seconds, an access key may not do something; infinite while it does it."""
        self._locks = WeakValueDictionary[tuple[str, ...], asyncio.Lock]()

    @contextmanager
    def doing(self, what: str, key: str) -> Generator[None]:
        """A context for something that each access key does once at a time. what: such as "archive is imported".

        Raises `ApiError` 429 while another one is open, or is kept out.
        """
        place, now = (what, key), time.monotonic()
        until = self._until.get(place, now)
        if until > now:
            detail = f"another {what} with the same access key, or without one, or was just refused: try later"
            wait = 1 if math.isinf(until) else math.ceil(until - now)
            # The body of an import is not read.
            headers = {"retry-after": f"{wait}", "connection": "close"}
            raise ApiError(429, "one-at-a-time", "One at a time", detail, "retry", headers)
        self._until[place] = math.inf
        try:
            yield
        finally:
            if math.isinf(self._until[place]):
                del self._until[place]

    def keep_out(self, what: str, key: str, seconds: float) -> None:
        """Let `doing` refuse an access key for so long, from within the context: what was refused must not cost others
        their time."""
        self._until[what, key] = time.monotonic() + seconds

    def lock(self, *of: str) -> asyncio.Lock:
        """The lock of this name, which exists while somebody has it or waits for it."""
        return self._locks.setdefault(of, asyncio.Lock())

    @asynccontextmanager
    async def resting_lock(self, what: str, whose: str, rest: float) -> AsyncGenerator[None]:
        """A context that has the lock of this name, which then stays locked for `rest` times as long as it took."""
        lock = self.lock(what, whose)
        await lock.acquire()
        begun = time.monotonic()
        try:
            yield
        finally:
            asyncio.get_running_loop().call_later(rest * (time.monotonic() - begun), lock.release)
