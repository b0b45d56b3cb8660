"""The transport of the blocking client. async_driver.py has the one for asyncio."""

from __future__ import annotations

import inspect
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, BinaryIO

import httpx

from optimist_client.errors import FixError
from optimist_client.operations import run
from optimist_client.transport import Loop, Transport


class BlockingTransport(Transport[httpx.Client]):
    """A transport that blocks the calling thread. It is thread-safe."""

    _kind = httpx.Client

    async def _request(self, method: str, path: str, **sent: Any) -> httpx.Response:
        return self._http.request(method, self._url(path), **sent)

    async def _stream(self, path: str, file: BinaryIO) -> httpx.Response:
        with self._http.stream("GET", self._url(path), timeout=self._of_files) as reply:
            if not reply.is_success:
                reply.read()
            for piece in reply.iter_bytes() if reply.is_success else ():
                file.write(piece)
            return reply

    def _content(self, pieces: Iterator[bytes]) -> Iterator[bytes]:
        return pieces

    async def sleep(self, seconds: float) -> None:
        """Wait for `seconds`."""
        time.sleep(seconds)  # noqa: ASYNC251  nothing else runs in this thread

    async def apply(self, function: Callable[..., Any], *args: Any) -> Any:
        """Call the function and return its result. Raises FixError for a coroutine, which cannot be awaited here."""
        answer = function(*args)
        if inspect.iscoroutine(answer):
            answer.close()
            raise FixError(f"expected a blocking function, {_name(function)} is asynchronous: use AsyncOptimist")
        return answer

    def slots(self, count: int) -> _Slots:
        """A context that so many threads may be inside at once."""
        return _Slots(count)

    async def together(self, loops: Sequence[Loop], interrupted: Loop) -> None:
        """Run a single loop in this thread, so that Ctrl-C interrupts it; run several in one thread each."""
        if len(loops) == 1:
            await loops[0]()
            return
        failures: list[BaseException] = []

        def work(loop: Loop) -> None:
            try:
                run(loop())
            except BaseException as error:  # raised again in the waiting thread
                failures.append(error)

        # Daemon threads: a second Ctrl-C ends the program even while a generator is running.
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


class _Slots:
    """A semaphore of threads, for coroutines that block."""

    def __init__(self, count: int) -> None:
        self._free = threading.Semaphore(count)

    async def __aenter__(self) -> None:
        self._free.acquire()

    async def __aexit__(self, *error: object) -> None:
        self._free.release()


def _join(threads: Sequence[threading.Thread]) -> None:
    for thread in threads:
        while thread.is_alive():
            thread.join(0.2)  # with a timeout, because on Windows Ctrl-C cannot interrupt an unlimited wait


def _name(function: Callable[..., Any]) -> str:
    return getattr(function, "__qualname__", repr(function))
