"""Several API processes on one port, each kept alive; see `optimist.server.worker` for one of them."""

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
def workers(
    redis_url: str, settings: Settings, board: Path, groups: Sequence[Sequence[socket.socket]]
) -> Iterator[None]:
    """API processes that all listen, one for each group of sockets, for as long as the context.

    This process keeps the sockets open: what connects to one whose process has died waits for the next. In the end
    requests in progress are answered. Raises CannotStart where one cannot begin.
    """
    started: list[Kept] = []
    try:
        for number, group in enumerate(groups):
            files = [each.fileno() for each in group]
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
        for one in started:
            one.ready.result()
        yield
    finally:
        # Whoever connects from now on is refused, and does not wait for a process that is gone.
        for group in groups:
            for each in group:
                each.close()
        for one in started:
            one.begin_to_stop()
        for one in started:
            one.stop()
