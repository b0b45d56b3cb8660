"""The transport of the blocking client. async_driver.py has the one for asyncio."""

from __future__ import annotations

import inspect
import os
import re
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, BinaryIO

import httpx

from optimist_client.errors import FixError
from optimist_client.operations import run
from optimist_client.transport import Loop, Transport

# Long enough for one round, and less than the 75 s after which the service closes an idle connection.
_LIMITS = httpx.Limits(keepalive_expiry=60.0)
_HOST = re.compile(r"[A-Za-z0-9.-]+(:\d+)?")
"""What messages repeat of a URL: an access key has an underscore."""
PIECE = 1 << 20
"""Number of bytes of a file that are read or written at a time."""


class BlockingTransport(Transport[httpx.Client]):
    """A transport that blocks the calling thread. It is thread-safe."""

    def __init__(self, url: str | Sequence[str], timeout: float, patience: float, api_key: str | None = None) -> None:
        super().__init__(replicas(url), timeout, patience)
        self._http = httpx.Client(**settings(self._urls[0], timeout, api_key))

    async def _request(self, method: str, path: str, **sent: Any) -> httpx.Response:
        return self._http.request(method, self._url(path), **sent)

    async def _stream(self, path: str, file: BinaryIO) -> httpx.Response:
        with self._http.stream("GET", self._url(path), timeout=self._of_files) as reply:
            if not reply.is_success:
                reply.read()
            for piece in reply.iter_bytes() if reply.is_success else ():
                file.write(piece)
            return reply

    def _pieces(self, file: BinaryIO) -> BinaryIO:
        return file

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


def replicas(url: str | Sequence[str]) -> list[str]:
    """The URLs of a service's replicas, without the slash at the end.

    Raises FixError if there is none, or for one that is not of http, has a user, a password or options, or cannot be
    read: with another one every call would be retried in vain. Its message repeats nothing that may be a secret.
    """
    urls = [one.strip().rstrip("/") for one in ([url] if isinstance(url, str) else url)]
    if not urls:
        raise FixError("url: expected at least one")
    for one in urls:
        scheme, _, place = one.rpartition("://")
        shown = place if _HOST.fullmatch(place) else "HOST:PORT"
        if scheme.lower() not in ("http", "https"):
            raise FixError(f"url: expected one that begins with http:// or https://, as http://{shown}")
        if set(place) & {"@", "?", "#"}:
            raise FixError(
                "url: expected one without user, password and options: "
                "the access key is given as api_key, or in OPTIMIST_API_KEY"
            )
        try:
            httpx.URL(one)
        except httpx.InvalidURL:
            raise FixError(f"url: expected one as {scheme}://{shown}, where the port is a number") from None
    return urls


def settings(url: str, timeout: float, api_key: str | None) -> dict[str, Any]:
    """Arguments for an httpx client. Without `api_key` the environment variable OPTIMIST_API_KEY is used.

    White space around the key is removed. Raises FixError for one that cannot be sent.
    """
    key = (api_key or "").strip() or os.environ.get("OPTIMIST_API_KEY", "").strip()
    if unfit := [place for place, character in enumerate(key, 1) if not "!" <= character <= "~"]:
        raise FixError(
            "api_key, or OPTIMIST_API_KEY: expected a key as `optimist keys create` prints it; "
            f"character {unfit[0]} of {len(key)} cannot be sent"
        )
    return {
        "base_url": url,
        "timeout": httpx.Timeout(timeout, connect=5.0),
        "limits": _LIMITS,
        "headers": {"authorization": f"Bearer {key}"} if key else {},
    }


def _join(threads: Sequence[threading.Thread]) -> None:
    for thread in threads:
        while thread.is_alive():
            thread.join(0.2)  # with a timeout, because on Windows Ctrl-C cannot interrupt an unlimited wait


def _name(function: Callable[..., Any]) -> str:
    return getattr(function, "__qualname__", repr(function))
