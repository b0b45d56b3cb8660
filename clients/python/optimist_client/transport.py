"""HTTP with retries: what the blocking and the asyncio client have in common."""

from __future__ import annotations

import random
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Generic, TypeVar

import httpx
from pydantic import ValidationError

from optimist_client.errors import Busy, Fix, OptimistError, Unreachable, from_problem
from optimist_client.models import Problem

_BUSY = frozenset({429, 502, 503, 504, 507})

Http = TypeVar("Http", httpx.Client, httpx.AsyncClient)
Loop = Callable[[], Coroutine[Any, Any, None]]


class Transport(ABC, Generic[Http]):
    """One keep-alive connection pool to a service.

    Every call of the API may be sent again without harm (picks are told under their number, asks carry a request id),
    so a lost connection or a busy answer is retried until `patience` seconds have passed since the first try.
    """

    _http: Http

    def __init__(self, timeout: float, patience: float) -> None:
        # The service reads, or writes, all of an archive before it answers.
        self._of_files = httpx.Timeout(max(timeout, 600.0), connect=5.0)
        self._patience = patience

    async def call(
        self,
        method: str,
        path: str,
        *,
        json: Any = None,
        body: bytes | None = None,
        media_type: str | None = None,
        params: Mapping[str, Any] | None = None,
        patience: float | None = None,
    ) -> Any:
        """The decoded JSON answer of a 2xx reply. Raises `OptimistError` (see errors.py) otherwise."""
        headers = {"content-type": media_type} if media_type else None

        async def send() -> httpx.Response:
            return await self._request(method, path, json=json, content=body, headers=headers, params=params)

        return _answer(await self._reply(send, patience))

    async def download(self, path: str, file: Path) -> None:
        """Write the body of a 2xx reply to GET to a new file. Raises `OptimistError` otherwise."""
        with await self.apply(file.open, "xb") as written:

            async def send() -> httpx.Response:
                written.seek(0)
                written.truncate()
                return await self._stream(path, written)

            reply = await self._reply(send)
        if not reply.is_success:
            raise _refusal(reply)

    async def upload(self, path: str, file: Path, headers: Mapping[str, str], params: Mapping[str, Any]) -> Any:
        """POST what the file holds; answers as `call`."""
        with await self.apply(file.open, "rb") as read:

            async def send() -> httpx.Response:
                read.seek(0)
                content = self._pieces(read)
                return await self._request(
                    "POST", path, content=content, headers=headers, params=params, timeout=self._of_files
                )

            return _answer(await self._reply(send))

    async def _reply(
        self, send: Callable[[], Coroutine[Any, Any, httpx.Response]], patience: float | None = None
    ) -> httpx.Response:
        """The first reply of a service that is there and not busy."""
        patience = self._patience if patience is None else patience
        deadline = time.monotonic() + patience
        for attempt in range(1_000_000):
            wait = min(5.0, 0.05 * 2 ** min(attempt, 10)) * random.uniform(0.5, 1.0)
            try:
                reply = await send()
            except httpx.TransportError as error:
                kind, failure = Unreachable, f"{type(error).__name__}: {error}"
            except httpx.InvalidURL as error:
                raise Fix(f"the service's URL is not valid: {error}") from None
            except RuntimeError:
                if not self._http.is_closed:
                    raise
                raise Fix("this client has been closed") from None
            else:
                if reply.status_code not in _BUSY:
                    return reply
                kind, failure = Busy, f"the service answered {reply.status_code}: {_refusal(reply)}"
                wait = max(wait, _seconds(reply.headers.get("retry-after")))
            if time.monotonic() + wait > deadline:
                raise kind(f"no answer from {self._http.base_url} within {patience:g} s: {failure}")
            await self.sleep(wait)
        raise AssertionError("unreachable")

    @abstractmethod
    async def _request(self, method: str, path: str, **sent: Any) -> httpx.Response:
        """One request, and its reply in memory."""

    @abstractmethod
    async def _stream(self, path: str, file: BinaryIO) -> httpx.Response:
        """GET once; the body goes to the file if the reply is 2xx, else it is in the reply."""

    @abstractmethod
    def _pieces(self, file: BinaryIO) -> Any:
        """What the file holds from here on, as httpx takes it for the content of a request."""

    @abstractmethod
    async def sleep(self, seconds: float) -> None:
        """Do nothing else for so long."""

    @abstractmethod
    async def apply(self, function: Callable[..., Any], *args: Any) -> Any:
        """What a function of the user, or one that computes for long, answers."""

    @abstractmethod
    async def together(self, loops: Sequence[Loop], interrupted: Loop) -> None:
        """Run all loops side by side until each has ended, then raise what the first to fail raised.

        Where it is itself interrupted, `interrupted` comes before the loops are waited for.
        """

    @abstractmethod
    async def close(self) -> None:
        """Close the connections."""


def _answer(reply: httpx.Response) -> Any:
    if not reply.is_success:
        raise _refusal(reply)
    return reply.json() if reply.content else None


def _refusal(reply: httpx.Response) -> OptimistError:
    try:
        problem = Problem.model_validate_json(reply.content)
    except ValidationError:
        problem = Problem(
            type="about:blank", title=f"HTTP {reply.status_code}", status=reply.status_code, detail=reply.text[:500]
        )
    return from_problem(problem)


def _seconds(retry_after: str | None) -> float:
    try:
        return min(30.0, float(retry_after or 0.0))
    except ValueError:
        return 0.0
