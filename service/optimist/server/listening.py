"""The port that the service listens on, and how its process ends."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import uvicorn

from optimist.store import CannotStart

_log = logging.getLogger(__name__)


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


class Server(uvicorn.Server):
    """uvicorn's server, which logs one line once it listens. `version` and `where` (the Redis) are for that line."""

    def __init__(self, config: uvicorn.Config, version: str, where: str) -> None:
        super().__init__(config)
        self._version = version
        self._where = where

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start the application, then listen. Raises CannotStart if another process listens by now."""
        host, port = (sockets or [])[0].getsockname()[:2]
        try:
            await super().startup(sockets)
        except OSError as error:
            await self.lifespan.shutdown()
            raise _cannot_listen(self.config.host, port, error) from None
        if self.started:
            scheme = "https" if self.config.is_ssl else "http"
            host = f"[{host}]" if ":" in host else host
            _log.info("Optimist %s on %s://%s:%d (Redis: %s)", self._version, scheme, host, port, self._where)

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
