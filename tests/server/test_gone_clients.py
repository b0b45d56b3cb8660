"""Nothing is done any more about a large body whose client has gone before a thread was free for it."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from uvicorn import Config
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT

from optimist.api.app import create_app
from optimist.api.bodies import objects
from optimist.server.api import Server, patient
from optimist.server.connections import Connections
from optimist.settings import Settings
from optimist.store import start_embedded
from optimist_client import tensors
from tests.support.made import until

ROWS = np.full((2000, 50), 1 / 50)
BODY = tensors.encode({"probabilities": ROWS})
LAST = 2 * HIGH_WATER_LIMIT
"""Bytes of the last part of the body: uvicorn pauses reading when it comes."""
HEAD = f"""POST /v1/experiments/x/generators/a/batches HTTP/1.1
Host: 127.0.0.1
Content-Type: {tensors.MEDIA_TYPE}
Content-Length: {len(BODY)}
Idempotency-Key: gone

""".replace("\n", "\r\n").encode()


class Threads(ThreadPoolExecutor):
    """One thread, and an event once it has been asked for by a request: the service measures its disk in it, too."""

    def __init__(self) -> None:
        super().__init__(1)
        self.wanted = asyncio.Event()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        if objects._boxed in getattr(fn, "args", ()):
            self.wanted.set()
        return super().submit(fn, *args, **kwargs)


async def holds(condition: bool) -> bool:
    return condition


@pytest.mark.filterwarnings("ignore::pydantic.warnings.UnsupportedFieldAttributeWarning")
async def test_the_body_of_a_client_that_has_gone_is_not_decoded(tmp_path: Path):
    assert len(BODY) > objects.LARGE
    held, listening = threading.Event(), asyncio.Event()
    with start_embedded(tmp_path) as redis, Threads() as threads, socket.create_server(("127.0.0.1", 0)) as bound:
        asyncio.get_running_loop().set_default_executor(threads)
        app = create_app(Settings(), redis.url)
        server = Server(
            Config(app, http=patient(15, 60, Connections(100, 1.0)), ws="none", log_config=None), listening.set
        )
        serving = asyncio.create_task(server.serve([bound]))
        await listening.wait()
        port = bound.getsockname()[1]
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=None) as http:
            config = {"name": "x", "generators": ["a"], "metric": {"name": "is", "dimension": 50}}
            (await http.post("/v1/experiments", json=config)).raise_for_status()
            try:
                threads.submit(held.wait)
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(HEAD + BODY[:-LAST])
                await writer.drain()
                await asyncio.sleep(0.1)  # until the service waits for the last part
                writer.write(BODY[-LAST:])
                await threads.wanted.wait()
                (asking,) = (each for each in server.server_state.connections if not each.is_idle)
                writer.close()
                await until(lambda: holds(asking not in server.server_state.connections))
            finally:
                held.set()
            await until(lambda: holds(not server.server_state.tasks))
            assert (await http.get("/v1/experiments/x/report")).json()["samples"] == 0
        server.should_exit = True
        await serving
