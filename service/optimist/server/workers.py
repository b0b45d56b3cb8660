"""Several API processes on one listening socket, each kept alive; see `optimist.server.worker` for one of them."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from optimist.insight.metrics import API_RESTARTS
from optimist.insight.shared import API
from optimist.server.api import GRACE
from optimist.server.kept import Kept
from optimist.settings import Settings


@contextmanager
def workers(redis_url: str, settings: Settings, board: Path, sockets: Sequence[socket.socket]) -> Iterator[None]:
    """API processes, `settings.workers` of them, for as long as the context. All accept from the same sockets.

    A new connection thus waits for none that is dead, hangs or starts. This process keeps the sockets open: what
    connects while all are dead waits for the next one. In the end requests in progress are answered. Raises CannotStart
    where one cannot begin.
    """
    files = [each.fileno() for each in sockets]
    started: list[Kept] = []
    try:
        for number in range(settings.workers):
            order = {
                "redis_url": redis_url,
                "settings": settings.model_dump_json(),
                "board": str(board),
                "number": number,
                "sockets": files,
            }
            name = f"{API}{number + 1}"
            module = "optimist.server.worker"
            one = Kept("API process", name, module, order, grace=GRACE + 4, restarts=API_RESTARTS, files=files)
            started.append(one)
            one.start()
        for one in started:
            one.ready.result()
        yield
    finally:
        # Whoever connects once the processes have stopped accepting is refused, and waits for none that is gone.
        for each in sockets:
            each.close()
        for one in started:
            one.begin_to_stop()
        for one in started:
            one.stop()
