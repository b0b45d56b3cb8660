"""The transport of the asyncio client. It is a separate module so that the blocking client does not import asyncio."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any, BinaryIO

import httpx

from optimist_client.transport import PIECE, Loop, Transport


class AsyncTransport(Transport[httpx.AsyncClient]):
    """A transport that never blocks the event loop."""

    _kind = httpx.AsyncClient

    async def _request(self, method: str, path: str, **sent: Any) -> httpx.Response:
        return await self._http.request(method, self._url(path), **sent)

    async def _stream(self, path: str, file: BinaryIO) -> httpx.Response:
        async with self._http.stream("GET", self._url(path), timeout=self._of_files) as reply:
            if not reply.is_success:
                await reply.aread()
                return reply
            async for piece in reply.aiter_bytes(PIECE):
                await asyncio.to_thread(file.write, piece)
            return reply

    async def _content(self, pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
        while piece := await asyncio.to_thread(next, pieces, b""):
            yield piece

    async def sleep(self, seconds: float) -> None:
        """Wait for `seconds`."""
        await asyncio.sleep(seconds)

    async def apply(self, function: Callable[..., Any], *args: Any) -> Any:
        """Call the function and return its result: await it if it is asynchronous, else run it in a thread."""
        if _is_asynchronous(function):
            return await function(*args)
        answer = await asyncio.to_thread(function, *args)
        return await answer if inspect.isawaitable(answer) else answer

    def slots(self, count: int) -> asyncio.Semaphore:
        """A context that so many tasks may be inside at once."""
        return asyncio.Semaphore(count)

    async def together(self, loops: Sequence[Loop], interrupted: Loop) -> None:
        """Run each loop as a task. If this task is cancelled, they are cancelled, too, and clean up themselves."""
        ends = await asyncio.gather(*(loop() for loop in loops), return_exceptions=True)
        for end in ends:
            if isinstance(end, BaseException):
                raise end

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()


def _is_asynchronous(function: Callable[..., Any]) -> bool:
    return any(map(inspect.iscoroutinefunction, (function, type(function).__call__)))
