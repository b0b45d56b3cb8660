"""How the SDK's operations wait in the blocking client; async_driver.py has the other one."""

from __future__ import annotations

import inspect
import os
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, BinaryIO

import httpx

from optimist_client.operations import run
from optimist_client.transport import Loop, Transport

# As long as a round may take, and less than the 75 s after which the service closes a connection.
_LIMITS = httpx.Limits(keepalive_expiry=60.0)
PIECE = 1 << 20
"""Bytes of a file that are read or written at once."""


class BlockingTransport(Transport[httpx.Client]):
    """Blocks the thread that calls; threads may share it."""

    def __init__(self, url: str, timeout: float, patience: float, api_key: str | None = None) -> None:
        super().__init__(timeout, patience)
        self._http = httpx.Client(**settings(url, timeout, api_key))

    async def _request(self, method: str, path: str, **sent: Any) -> httpx.Response:
        return self._http.request(method, path, **sent)

    async def _stream(self, path: str, file: BinaryIO) -> httpx.Response:
        with self._http.stream("GET", path, timeout=self._of_files) as reply:
            if not reply.is_success:
                reply.read()
            for piece in reply.iter_bytes() if reply.is_success else ():
                file.write(piece)
            return reply

    def _pieces(self, file: BinaryIO) -> BinaryIO:
        return file

    async def sleep(self, seconds: float) -> None:
        """Do nothing else for so long."""
        time.sleep(seconds)  # noqa: ASYNC251  nothing else runs in this thread

    async def apply(self, function: Callable[..., Any], *args: Any) -> Any:
        """What the function answers. Raises TypeError where that is a coroutine: nobody here can await it."""
        answer = function(*args)
        if inspect.iscoroutine(answer):
            answer.close()
            raise TypeError(f"{_name(function)} is asynchronous: use AsyncOptimist, whose run awaits it")
        return answer

    async def together(self, loops: Sequence[Loop], interrupted: Loop) -> None:
        """One loop runs here, so that Ctrl-C ends what it is in; more of them in a thread each."""
        if len(loops) == 1:
            await loops[0]()
            return
        failures: list[BaseException] = []

        def work(loop: Loop) -> None:
            try:
                run(loop())
            except BaseException as error:  # to be raised by the thread that waits
                failures.append(error)

        # Daemons: a second Ctrl-C ends the program though a generator is in the middle of something.
        threads = [threading.Thread(target=work, args=(loop,), daemon=True) for loop in loops]
        for thread in threads:
            thread.start()
        try:
            _join(threads)
        except BaseException:
            await interrupted()
            _join(threads)
            raise
        if failures:
            raise failures[0]

    async def close(self) -> None:
        """Close the connections."""
        self._http.close()


def settings(url: str, timeout: float, api_key: str | None) -> dict[str, Any]:
    """Arguments of an httpx client; the key is the variable's where none is given."""
    key = api_key or os.environ.get("OPTIMIST_API_KEY")
    return {
        "base_url": url.rstrip("/"),
        "timeout": httpx.Timeout(timeout, connect=5.0),
        "limits": _LIMITS,
        "headers": {"authorization": f"Bearer {key}"} if key else {},
    }


def _join(threads: Sequence[threading.Thread]) -> None:
    for thread in threads:
        while thread.is_alive():
            thread.join(0.2)  # not without end: on Windows no Ctrl-C would end it


def _name(function: Callable[..., Any]) -> str:
    return getattr(function, "__qualname__", repr(function))
