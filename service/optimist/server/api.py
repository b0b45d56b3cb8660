"""One API process: uvicorn with the application, on sockets that are bound already."""

from __future__ import annotations

import gc
import socket
import warnings
from collections.abc import Callable

from pydantic.warnings import UnsupportedFieldAttributeWarning
from threadpoolctl import threadpool_limits
from uvicorn import Config

from optimist.api.app import create_app
from optimist.api.board import Board
from optimist.insight.logs import configure
from optimist.memory import give_back_from
from optimist.priority import answer_soon
from optimist.server.connections import patient
from optimist.server.listening import Server
from optimist.settings import Settings

LARGE = 2**20
"""Bytes from which a block goes back to the system as soon as it is freed."""
GRACE = 10
"""Seconds that requests in progress have to end."""


def prepare(settings: Settings) -> None:
    """Set up the log, threads, memory and warnings of a process that answers requests."""
    configure(settings.log_format, settings.log_requests)
    # The check of a reference is the only thing here that more would help, and it would take them from everybody else.
    # Not by variables: a scorer that is started here has threads of its own.
    threadpool_limits(1)
    answer_soon()
    give_back_from(LARGE)  # as what bodies take is counted only until they are freed
    # FastAPI's own (0.165), of its parameters' aliases: nothing that whoever runs the service could mend.
    warnings.simplefilter("ignore", UnsupportedFieldAttributeWarning)


def run_api(
    settings: Settings, redis_url: str, board: Board, sockets: list[socket.socket], started: Callable[[], None]
) -> None:
    """Answer requests until SIGINT or SIGTERM; `started` is called once they are accepted.

    Raises CannotStart if another process listens by now, FixError if a module of OPTIMIST_METRICS is not there.
    """
    app = create_app(settings, redis_url, board)
    # What has been made by now stays: the collector need not go through it again and again.
    gc.freeze()
    # Requests leave no cycles behind: by default it would look for them every 25 rounds.
    gc.set_threshold(10_000)
    config = Config(
        app,
        host=settings.host,
        http=patient(settings.head_timeout, settings.answer_timeout),
        ws="none",
        log_config=None,
        access_log=False,
        # Its part, although connections do not spread quite evenly: see docs/operations.md.
        limit_concurrency=-(-settings.max_connections // board.processes),
        timeout_keep_alive=75,  # a round of sampling takes longer than uvicorn's default of 5 s
        timeout_graceful_shutdown=GRACE,
        ssl_certfile=settings.tls_certificate,
        ssl_keyfile=settings.tls_key,
    )
    Server(config, started).run(sockets)
