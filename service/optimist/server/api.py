"""One API process: uvicorn with the application, on sockets that are bound already; and how it ends."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import socket
import threading
import warnings
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType

import uvicorn
from pydantic.warnings import UnsupportedFieldAttributeWarning
from pydantic_core import SchemaError
from threadpoolctl import threadpool_limits
from uvicorn import Config

from optimist.api.middleware.limits import SharedCounters
from optimist.process import answer_soon, configure_log, give_back_from
from optimist.records import CannotStart
from optimist.server.connections import Connections, patient
from optimist.settings import Settings

GRACE = 10
"""Seconds that requests in progress have to end."""


@contextmanager
def bound(host: str, port: int) -> Generator[list[socket.socket]]:
    """Sockets that are bound to all addresses of `host`; they do not listen yet.

    So a port that is in use is noticed before anything else is waited for. Raises CannotStart.
    """

    async def bind() -> list[socket.socket]:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(asyncio.Protocol, host, port, start_serving=False)
        copies = [each.dup() for each in server.sockets]
        server.close()
        return copies

    try:
        sockets = asyncio.run(bind())
    except OSError as error:
        raise _cannot_listen(host, port, error) from None
    try:
        yield sockets
    finally:
        for each in sockets:
            each.close()


def address(host: str, port: int, is_secure: bool) -> str:
    """The URL of a port, for the log."""
    return f"{'https' if is_secure else 'http'}://{f'[{host}]' if ':' in host else host}:{port}"


class Server(uvicorn.Server):
    """uvicorn's server, which calls `started` once it listens."""

    def __init__(self, config: uvicorn.Config, started: Callable[[], None]) -> None:
        super().__init__(config)
        self._listening = started
        self._signal: signal.Signals | None = None
        """The first one that ends it."""

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

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Say why, then end after the requests in progress. Not said in `handle_exit`, where the log may be in use."""
        if self._signal is not None:
            logging.getLogger("optimist").info("%s: ends after the requests in progress", self._signal.name)
        await super().shutdown(sockets)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """End after the requests in progress; at a second Ctrl-C at once."""
        self._signal = self._signal or signal.Signals(sig)
        super().handle_exit(sig, frame)
        if self.force_exit:
            # uvicorn logs a traceback for everything that is cut off now.
            logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)


@contextmanager
def ending_in_order() -> Generator[threading.Event]:
    """End the process with exit code 0 on SIGINT and SIGTERM; further signals do not interrupt its end.

    The event is set then. Where the signal meets a callback of compiled code, the exception may be lost: whoever begins
    to wait looks at the event before. While pydantic makes a class, it raises a SchemaError instead.
    """
    told = threading.Event()

    def end(number: int, frame: FrameType | None) -> None:
        told.set()
        for each in (signal.SIGINT, signal.SIGTERM):
            signal.signal(each, signal.SIG_IGN)
        raise SystemExit(0)

    earlier = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield told
    except SchemaError:
        if not told.is_set():
            raise
        raise SystemExit(0) from None
    finally:
        for number, handler in earlier.items():
            signal.signal(number, handler)


def _cannot_listen(host: str, port: int, error: OSError) -> CannotStart:
    # asyncio's own text of an error repeats the address; an error of a name that is not found has no system number.
    reason = os.strerror(error.errno) if error.errno is not None and error.errno > 0 else error
    return CannotStart(f"cannot listen on {host}:{port}: {reason}. Choose another --port or --host")


def prepare(settings: Settings) -> None:
    """Set up the log, threads, memory and warnings of a process that answers requests."""
    configure_log(settings.log_format, settings.log_requests)
    # The check of a reference is the only thing here that more would help, and it would take them from everybody else.
    # Not by variables: a scorer that is started here has threads of its own.
    threadpool_limits(1)
    answer_soon()
    give_back_from(2**20)  # as what bodies take is counted only until they are freed
    # FastAPI's own (0.165), of its parameters' aliases: nothing that whoever runs the service could mend.
    warnings.simplefilter("ignore", UnsupportedFieldAttributeWarning)


def run_api(
    settings: Settings,
    redis_url: str,
    counters: SharedCounters,
    sockets: list[socket.socket],
    started: Callable[[], None],
    told: threading.Event,
) -> None:
    """Answer requests until SIGINT or SIGTERM; `started` is called once they are accepted.

    told: the event of `ending_in_order`.

    Raises CannotStart if another process listens by now, FixError if a module of OPTIMIST_METRICS is not there.
    """
    # Here, so that the scorer, which takes longest to start, has begun before the routes are loaded.
    from optimist.api.app import create_app

    app = create_app(settings, redis_url, counters)
    # What has been made by now stays: the collector need not go through it again and again.
    gc.freeze()
    # Requests leave no cycles behind: by default it would look for them every 25 rounds.
    gc.set_threshold(10_000)
    # Its part, although connections do not spread quite evenly: see docs/deploy.md.
    connections = Connections(-(-settings.max_connections // counters.processes), settings.connection_share)
    config = Config(
        app,
        host=settings.host,
        http=patient(settings.head_timeout, settings.answer_timeout, connections),
        ws="none",
        log_config=None,
        access_log=False,
        timeout_keep_alive=75,  # a round of sampling takes longer than uvicorn's default of 5 s
        timeout_graceful_shutdown=GRACE,
        ssl_certfile=settings.tls_certificate,
        ssl_keyfile=settings.tls_key,
    )
    if not told.is_set():
        Server(config, started).run(sockets)
