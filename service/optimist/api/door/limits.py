"""Limits request bodies: their size as it arrives, their pace, and the memory of all bodies together."""

from __future__ import annotations

import asyncio
from collections import defaultdict

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from optimist.api.board import Board
from optimist.api.bodies import npz
from optimist.api.door.keys import Caller
from optimist.insight.metrics import BODY_BYTES
from optimist.settings import Settings
from optimist_client import tensors

SLOWEST = 2**16
"""Minimum bytes per second of a body, apart from pauses of up to `body_timeout` seconds in total."""
SMALL = 2**18
"""Bytes of memory that each request may use for its body without being counted."""
JSON_WEIGHT = 40
"""Bytes of memory per byte of JSON: Python's objects for `{"":0}` take thirty, and the text up to four."""
TENSORS_WEIGHT = 3
"""Bytes of memory per byte of safetensors: two copies while reading, or the body, its arrays and their checks."""
NPZ_WEIGHT = 2
"""Bytes of memory per byte of `.npz`: two copies while reading. The unpacked size is added when it is known."""


class Limits:
    """ASGI middleware that stops reading a body that is too large (whatever its headers claim) or too slow.

    archives: the path whose bodies are written to disk; they have a size limit of their own and use no memory.
    board: where the API processes of this service count the memory of their bodies together.
    While the body is read it raises HTTPException 408, 413, or 503 if the bodies of all requests, or of those with the
    same key, would use too much memory. FastAPI passes an HTTPException on as the response.
    """

    def __init__(self, app: ASGIApp, *, settings: Settings, archives: str, board: Board) -> None:
        self._app = app
        self._settings = settings
        self._archives = archives
        self._memory = Memory(settings.max_memory, settings.memory_share, board)
        BODY_BYTES.set(0)  # one that was killed may have left more

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on with a `receive` that counts bytes, and with its `Share` of memory in its scope."""
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
                # Refuse the body before it is sent if there is no room for it.
                share.check(min(announced, limit))
            begun = loop.time()
            try:
                async with asyncio.timeout(left):
                    message = await receive()
            except TimeoutError:
                raise _refusal(408, f"the body stopped after {taken} bytes or arrived too slowly") from None
            if message["type"] != "http.request":
                return message
            more = message.get("more_body", False)
            size = len(message.get("body", b""))
            # A fast transfer does not allow a longer pause later: the budget never exceeds `patience`.
            left = min(patience, left - (loop.time() - begun) + size / SLOWEST)
            if max(taken + size, announced) > limit:
                raise _refusal(413, f"expected a body of at most {limit} bytes")
            taken += size
            # The body is decoded only when it is complete, so that until then it is counted once.
            share.hold(taken * (min(weight, 1) if more else weight))
            return message

        try:
            await self._app(scope, counted, send)
        finally:
            share.release()

    def _of(self, path: str, headers: Headers) -> tuple[int, int]:
        """The maximum size of a body in bytes, and the bytes of memory that each of its bytes takes."""
        settings, kind = self._settings, headers.get("content-type", "")
        if path == self._archives:
            return settings.max_archive, 0
        if kind.startswith(tensors.MEDIA_TYPE):
            return settings.max_body, TENSORS_WEIGHT
        if kind.startswith(npz.MEDIA_TYPE):
            return settings.max_body, NPZ_WEIGHT
        return min(settings.max_body, settings.max_json), JSON_WEIGHT


class Memory:
    """Counts the bytes that bodies use, with a limit for all requests and a lower one for the requests of each key.

    Requests that use at most `SMALL` are not counted. The limit holds for all API processes of the service; of that of
    a key each of them grants its part.
    """

    def __init__(self, most: int, share: float, board: Board) -> None:
        self._most = most
        self._share = int(most * share / board.processes)
        self._board = board
        self._of_keys: defaultdict[str, int] = defaultdict(int)

    def check(self, key: str, before: int, size: int) -> None:
        """Raise HTTPException 413 or 503 if a request that holds `before` bytes may not hold `size`.

        key: the caller's key, or "" without access keys, for which there is no separate limit. The only request of a
        key may exceed the key's limit, because otherwise it would never be served.
        """
        if size > self._most:
            raise _refusal(413, f"expected a body that needs at most {self._most} bytes of memory, got {size}")
        others = self._of_keys[key] - before
        if key and others > 0 and others + size > self._share:
            raise _refusal(503, "other requests with this key use its share of the memory for bodies: try again later")
        if self._board.held - before + size > self._most:
            raise _refusal(503, "other requests use all of the memory for request bodies: try again later")

    def change(self, key: str, by: int) -> None:
        """Add `by` bytes (negative to release them) to what a key holds."""
        BODY_BYTES.set(self._board.hold(by))
        self._of_keys[key] += by
        if not self._of_keys[key]:
            del self._of_keys[key]


class Share:
    """The memory that one request holds for its body."""

    def __init__(self, memory: Memory, key: str) -> None:
        self._memory = memory
        self._key = key
        self._held = 0

    def check(self, size: int) -> None:
        """Raise HTTPException 413 or 503 if there is no room to hold `size` bytes in total.

        Up to `SMALL` bytes are always granted, so that small batches are accepted whatever others send.
        """
        if size > max(SMALL, self._held):
            self._memory.check(self._key, self._held, size)

    def hold(self, size: int) -> None:
        """Hold `size` bytes in total, unless the request holds more already. Raises like `check`."""
        self.check(size)
        if size > max(SMALL, self._held):
            self._memory.change(self._key, size - self._held)
            self._held = size

    def hold_more(self, size: int) -> None:
        """Hold `size` bytes in addition to those already held. Raises like `check`."""
        self.hold(self._held + size)

    def release(self) -> None:
        """Release all memory."""
        if self._held:
            self._memory.change(self._key, -self._held)
            self._held = 0


def _refusal(status: int, detail: str) -> HTTPException:
    """An error for a body that is not read to its end: the connection is closed instead."""
    return HTTPException(status, detail, headers={"connection": "close"})


def _announced(headers: Headers) -> int:
    length = headers.get("content-length", "")
    return int(length) if length.isascii() and length.isdigit() else 0
