"""What a body may cost: its size, counted as it arrives, its time, and the memory of all bodies together."""

from __future__ import annotations

import asyncio

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from optimist.api import npz
from optimist.insight.metrics import BODY_BYTES
from optimist.settings import Settings
from optimist_client import tensors

SLOWEST = 2**16
"""Bytes a second that a body must come at, beyond the time that each may take."""


class Limits:
    """ASGI middleware that stops reading a body that is too large, whatever its headers claim, or too slow.

    archives: the path whose bodies go to disk; they have a size of their own and do not count as memory.
    Raises what FastAPI passes on while it reads a body: HTTPException 408, 413, or 503 where the bodies of all requests
    together would take more memory than there is for them.
    """

    def __init__(self, app: ASGIApp, *, settings: Settings, archives: str) -> None:
        self._app = app
        self._settings = settings
        self._archives = archives
        self._held = 0
        BODY_BYTES.set_function(lambda: self._held)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on with a `receive` that counts, and in its scope `reserve`, for what a body unpacks to."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        limit, announced = self._limit(scope["path"], headers), _announced(headers)
        in_memory = scope["path"] != self._archives
        loop = asyncio.get_running_loop()
        begun, taken, held, more = loop.time(), 0, 0, True

        def reserve(size: int) -> None:
            nonlocal held
            # One alone may have all there is: it could never come otherwise.
            if self._held > held and self._held + size > self._settings.max_memory:
                raise HTTPException(503, "the bodies of other requests take all the memory there is for them")
            self._held += size
            held += size

        async def counted() -> Message:
            nonlocal taken, more
            if not more:
                return await receive()
            try:
                async with asyncio.timeout_at(begun + self._settings.body_timeout + taken / SLOWEST):
                    message = await receive()
            except TimeoutError:
                raise HTTPException(408, f"the body stopped after {taken} bytes, or came too slowly") from None
            more = message.get("more_body", False)
            size = len(message.get("body", b""))
            if max(taken + size, announced) > limit:
                raise HTTPException(413, f"expected a body of at most {limit} bytes")
            if in_memory:
                reserve(size)
            taken += size
            return message

        scope["reserve"] = reserve
        try:
            await self._app(scope, counted, send)
        finally:
            self._held -= held

    def _limit(self, path: str, headers: Headers) -> int:
        if path == self._archives:
            return self._settings.max_archive
        if headers.get("content-type", "").startswith((tensors.MEDIA_TYPE, npz.MEDIA_TYPE)):
            return self._settings.max_body
        return min(self._settings.max_body, self._settings.max_json)


def _announced(headers: Headers) -> int:
    length = headers.get("content-length", "")
    return int(length) if length.isascii() and length.isdigit() else 0
