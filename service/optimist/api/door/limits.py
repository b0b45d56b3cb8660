"""What a body may cost: its size, counted as it arrives, its pace, and the memory of all bodies together."""

from __future__ import annotations

import asyncio
from collections import defaultdict

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from optimist.api.bodies import npz
from optimist.api.door.keys import Caller
from optimist.insight.metrics import BODY_BYTES
from optimist.settings import Settings
from optimist_client import tensors

SLOWEST = 2**16
"""Bytes a second that a body must come at, but for pauses of `body_timeout` seconds together."""
SMALL = 2**18
"""Bytes of memory that each request may take for its body without being counted."""
JSON_WEIGHT = 40
"""Bytes of memory for each byte of JSON: Python's objects for `{"":0}` take thirty, and the text up to four."""
TENSORS_WEIGHT = 3
"""The same of safetensors: the body twice as it is read, or the body, its arrays and what checks make of them."""
NPZ_WEIGHT = 2
"""The same of `.npz`: the body twice as it is read. What it unpacks to is added when that is known."""


class Limits:
    """ASGI middleware that stops reading a body that is too large, whatever its headers claim, or too slow.

    archives: the path whose bodies go to disk; they have a size of their own and do not count as memory.
    Raises what FastAPI passes on while it reads a body: HTTPException 408, 413, or 503 where the bodies of all requests
    together, or of those with the same key, would take more memory than there is for them.
    """

    def __init__(self, app: ASGIApp, *, settings: Settings, archives: str) -> None:
        self._app = app
        self._settings = settings
        self._archives = archives
        self._memory = Memory(settings.max_memory, settings.memory_share)
        BODY_BYTES.set_function(lambda: self._memory.held)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on with a `receive` that counts, and in its scope the `Share` of memory that it holds."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        caller: Caller | None = scope.get("caller")
        share = scope["memory"] = Share(self._memory, "" if caller is None else caller.key)
        limit, weight = self._of(scope["path"], headers)
        announced, patience = _announced(headers), self._settings.body_timeout
        loop = asyncio.get_running_loop()
        taken, left, more = 0, patience, True

        async def counted() -> Message:
            nonlocal taken, left, more
            if not more:
                return await receive()
            if not taken and weight:
                # What there is no room for now need not come.
                share.check(min(announced, limit))
            begun = loop.time()
            try:
                async with asyncio.timeout(left):
                    message = await receive()
            except TimeoutError:
                raise _refusal(408, f"the body stopped after {taken} bytes, or came too slowly") from None
            if message["type"] != "http.request":
                return message
            more = message.get("more_body", False)
            size = len(message.get("body", b""))
            # What came quickly is no reserve for a long pause: nobody gets more than `patience`.
            left = min(patience, left - (loop.time() - begun) + size / SLOWEST)
            if max(taken + size, announced) > limit:
                raise _refusal(413, f"expected a body of at most {limit} bytes")
            taken += size
            # Nothing is made of it before it has come whole.
            share.hold(taken * (min(weight, 1) if more else weight))
            return message

        try:
            await self._app(scope, counted, send)
        finally:
            share.release()

    def _of(self, path: str, headers: Headers) -> tuple[int, int]:
        """The bytes that a body may have, and the memory that each of them takes."""
        settings, kind = self._settings, headers.get("content-type", "")
        if path == self._archives:
            return settings.max_archive, 0
        if kind.startswith(tensors.MEDIA_TYPE):
            return settings.max_body, TENSORS_WEIGHT
        if kind.startswith(npz.MEDIA_TYPE):
            return settings.max_body, NPZ_WEIGHT
        return min(settings.max_body, settings.max_json), JSON_WEIGHT


class Memory:
    """The bytes that bodies may take: all together, and those of requests with one key a part of that."""

    def __init__(self, most: int, share: float) -> None:
        self._most = most
        self._share = int(most * share)
        self.held = 0
        """Bytes taken now, without those of requests that take no more than `SMALL`."""
        self._of_keys: defaultdict[str, int] = defaultdict(int)

    def check(self, key: str, before: int, size: int) -> None:
        """Raise HTTPException 413 or 503 where a request that holds `before` bytes may not hold `size`.

        key: of the caller, "" where callers need none, who have all there is. The only request of a key may take more
        than its part, or it would never be served.
        """
        if size > self._most:
            raise _refusal(413, f"expected a body that takes at most {self._most} bytes of memory, not {size}")
        others = self._of_keys[key] - before
        if key and others > 0 and others + size > self._share:
            raise _refusal(503, "other requests with this key take its part of the memory for bodies")
        if self.held - before + size > self._most:
            raise _refusal(503, "the bodies of other requests take all the memory there is for them")

    def change(self, key: str, by: int) -> None:
        """Count more or fewer bytes of a key."""
        self.held += by
        self._of_keys[key] += by
        if not self._of_keys[key]:
            del self._of_keys[key]


class Share:
    """The memory that one request takes for its body."""

    def __init__(self, memory: Memory, key: str) -> None:
        self._memory = memory
        self._key = key
        self._held = 0

    def check(self, size: int) -> None:
        """Raise HTTPException 413 or 503 where there is no room to hold `size` bytes in all.

        No more than `SMALL` bytes are always had: a small batch is taken whatever others send.
        """
        if size > max(SMALL, self._held):
            self._memory.check(self._key, self._held, size)

    def hold(self, size: int) -> None:
        """Hold `size` bytes in all, unless it holds more. Raises as `check`."""
        self.check(size)
        if size > max(SMALL, self._held):
            self._memory.change(self._key, size - self._held)
            self._held = size

    def hold_more(self, size: int) -> None:
        """Hold `size` bytes beside those that it holds. Raises as `check`."""
        self.hold(self._held + size)

    def release(self) -> None:
        """Hold nothing any more."""
        if self._held:
            self._memory.change(self._key, -self._held)
            self._held = 0


def _refusal(status: int, detail: str) -> HTTPException:
    """Of a body that need not come, or not on: the connection is closed rather than read to its end."""
    return HTTPException(status, detail, headers={"connection": "close"})


def _announced(headers: Headers) -> int:
    length = headers.get("content-length", "")
    return int(length) if length.isascii() and length.isdigit() else 0
