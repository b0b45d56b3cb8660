"""A TCP proxy that can cut a connection after the reply has arrived, before it is passed on."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Upstream = Callable[[], Awaitable[Streams]]


class Proxy:
    """Forwards connections to its upstreams in turn, to the next one if one refuses; listens on `port`.

    While `cuts` is positive, each reply decreases it: the reply and its connection are dropped. The upstream has
    executed the request, but the caller does not know.
    """

    def __init__(self, upstreams: Sequence[Upstream]) -> None:
        self.cuts = 0
        self.port = 0
        self._upstreams = upstreams
        self._turn = itertools.count()
        self._serving = set[asyncio.Task[None] | None]()
        """The tasks of connections: asyncio forgets one whose caller left, and it might be collected while it runs."""

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[Proxy]:
        """Serve on a free port of 127.0.0.1 until the context ends."""
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        self._serving.add(task)
        try:
            await self._forward(reader, writer)
        finally:
            self._serving.discard(task)

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        upstream = await self._connect()
        if upstream is None:
            writer.transport.abort()
            return
        both = (writer, upstream[1])
        requests = asyncio.create_task(_pass_on(reader, upstream[1], lambda: False))
        try:
            await _pass_on(upstream[0], writer, self._cut)
        except asyncio.CancelledError:
            pass  # the loop is closing; start_server would log a cancelled handler as an error
        finally:
            requests.cancel()
            for side in both:
                side.transport.abort()

    async def _connect(self) -> Streams | None:
        first = next(self._turn)
        for offset in range(len(self._upstreams)):
            with contextlib.suppress(OSError):
                return await self._upstreams[(first + offset) % len(self._upstreams)]()
        return None

    def _cut(self) -> bool:
        if self.cuts <= 0:
            return False
        self.cuts -= 1
        return True


async def _pass_on(source: asyncio.StreamReader, target: asyncio.StreamWriter, cut: Callable[[], bool]) -> None:
    with contextlib.suppress(OSError):
        while (data := await source.read(2**18)) and not cut():
            target.write(data)
            await target.drain()
    # The other direction ends with this one: both programs use a connection only in both directions.
    target.transport.abort()
