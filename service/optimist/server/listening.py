"""The port that the service listens on, and how its process ends."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

import uvicorn

from optimist.records import CannotStart


@contextmanager
def bound(host: str, port: int) -> Iterator[list[socket.socket]]:
    """Sockets that are bound to all addresses of `host`; they do not listen yet.

    So a port that is in use is noticed before anything else is waited for. Raises CannotStart.
    """

    async def bind() -> list[socket.socket]:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(asyncio.Protocol, host, port, start_serving=False)
        copies = [one.dup() for one in server.sockets]
        server.close()
        return copies

    try:
        sockets = asyncio.run(bind())
    except OSError as error:
        raise _cannot_listen(host, port, error) from None
    try:
        yield sockets
    finally:
        for one in sockets:
            one.close()


def address(host: str, port: int, is_secure: bool) -> str:
    """The URL of a port, for the log."""
    return f"{'https' if is_secure else 'http'}://{f'[{host}]' if ':' in host else host}:{port}"


class Server(uvicorn.Server):
    """uvicorn's server, which calls `started` once it listens."""

    def __init__(self, config: uvicorn.Config, started: Callable[[], None]) -> None:
        super().__init__(config)
        self._listening = started

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start the application, then listen. Raises CannotStart if another process listens by now."""
        port = (sockets or [])[0].getsockname()[1]
        try:
            await super().startup(sockets)
        except OSError as error:
            await self.lifespan.shutdown()
            raise _cannot_listen(self.config.host, port, error) from None
        if self.started:
            self._listening()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """End after the requests in progress; at a second Ctrl-C at once."""
        super().handle_exit(sig, frame)
        if self.force_exit:
            # uvicorn logs a traceback for everything that is cut off now.
            logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)


@contextmanager
def ending_in_order() -> Iterator[None]:
    """End the process with exit code 0 on SIGINT and SIGTERM; further signals do not interrupt its end."""

    def end(number: int, frame: FrameType | None) -> None:
        for each in (signal.SIGINT, signal.SIGTERM):
            signal.signal(each, signal.SIG_IGN)
        raise SystemExit(0)

    earlier = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in earlier.items():
            signal.signal(number, handler)


def _cannot_listen(host: str, port: int, error: OSError) -> CannotStart:
    # asyncio's own text of an error repeats the address; that of a name that is not found has no number of the system.
    reason = os.strerror(error.errno) if error.errno is not None and error.errno > 0 else error
    return CannotStart(f"cannot listen on {host}:{port}: {reason}. Choose another --port or --host")
