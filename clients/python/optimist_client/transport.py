"""HTTP requests with retries, shared by the blocking and the asyncio client."""

from __future__ import annotations

import random
import ssl
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Generic, TypeVar

import httpx

from optimist_client.errors import BEING_MADE, BusyError, FixError, OptimistError, UnreachableError, from_problem

_BUSY = frozenset({429, 502, 503, 504, 507})
_ELSEWHERE = frozenset({502, 503, 504})
"""The busy responses that may be those of one replica alone."""
_NOT_TLS = frozenset({"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE"})
"""What OpenSSL says where the first bytes of an answer are none of TLS; newer versions say the second one."""

Http = TypeVar("Http", httpx.Client, httpx.AsyncClient)
Loop = Callable[[], Coroutine[Any, Any, None]]


class Transport(ABC, Generic[Http]):
    """A connection pool to one service, with retries.

    All calls of the API are idempotent (picks are told by their number, asks have a request id). After a lost
    connection or a busy response, a call is therefore retried for up to `patience` seconds, counted anew whenever the
    service says that a scorer is at work on what was asked for. Where a service has several replicas, all calls go to
    one of them, until it cannot be reached or is not available: then to the next one.
    """

    _http: Http

    def __init__(self, urls: Sequence[str], timeout: float, patience: float) -> None:
        self._urls = urls
        self._at = 0
        """The place of the replica that calls go to."""
        # The service reads or writes a whole archive before it responds.
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
        is_long: bool = False,
    ) -> Any:
        """Send a request and return the decoded JSON of a 2xx reply. Raises `OptimistError` otherwise.

        is_long: whether the reply may take as long as that to a file.
        """
        headers = {"content-type": media_type} if media_type else None
        timeout = {"timeout": self._of_files} if is_long else {}

        async def send() -> httpx.Response:
            return await self._request(method, path, json=json, content=body, headers=headers, params=params, **timeout)

        return _answer(await self._reply(send, patience))

    async def read(self, path: str) -> httpx.Response:
        """GET a path and return a 2xx reply as it is. Raises `OptimistError` otherwise."""

        async def send() -> httpx.Response:
            return await self._request("GET", path)

        reply = await self._reply(send)
        if not reply.is_success:
            raise _refusal(reply)
        return reply

    async def attempt(self, method: str, path: str, seconds: float) -> Any:
        """Send a request once, with this timeout, and return the JSON of a 2xx reply. Raises whatever prevents that."""
        return _answer(await self._request(method, path, timeout=seconds))

    async def download(self, path: str, file: Path) -> None:
        """GET a path and write the body of a 2xx reply to a new file. Raises `OptimistError` otherwise."""
        with await self.apply(file.open, "xb") as written:

            async def send() -> httpx.Response:
                written.seek(0)
                written.truncate()
                return await self._stream(path, written)

            reply = await self._reply(send)
        if not reply.is_success:
            raise _refusal(reply)

    async def upload(self, path: str, file: Path, headers: Mapping[str, str], params: Mapping[str, Any]) -> Any:
        """POST the content of a file. Returns and raises like `call`."""
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
        """Send until the service replies and is not busy.

        Raises `UnreachableError` or `BusyError` after `patience` seconds, but not before every replica was tried;
        FixError at once for what no repetition can mend.
        """
        patience = self._patience if patience is None else patience
        deadline = time.monotonic() + patience
        others = len(self._urls) - 1  # replicas to try before it waits
        attempt = 0
        while True:
            at, goes_on = self._at, True
            wait = min(5.0, 0.05 * 2 ** min(attempt, 10)) * random.uniform(0.5, 1.0)
            try:
                reply = await send()
            except httpx.LocalProtocolError as error:
                raise FixError(f"the request cannot be sent: {_masked(str(error), error.request)}") from None
            except httpx.TransportError as error:
                if reason := _lasting(error, self._urls[at]):
                    raise FixError(reason) from None
                kind, failure = UnreachableError, f"{type(error).__name__}: {_masked(str(error), error.request)}"
            except httpx.InvalidURL as error:
                raise FixError(f"the service's URL is not valid: {error}") from None
            except RuntimeError:
                if not self._http.is_closed:
                    raise
                raise FixError("this client has been closed: create a new one") from None
            else:
                if reply.status_code not in _BUSY:
                    return reply
                refused = _refusal(reply)
                kind, failure = BusyError, f"the service answered {reply.status_code}: {refused}"
                wait = max(wait, _seconds(reply.headers.get("retry-after")))
                if patience > 0 and refused.problem is not None and refused.problem.type.endswith(f":{BEING_MADE}"):
                    deadline = time.monotonic() + wait + patience  # the work takes as long as it takes
                goes_on = reply.status_code in _ELSEWHERE
            if goes_on and self._at == at:  # not if another thread has just gone on
                self._at = (at + 1) % len(self._urls)
            if goes_on and others and (attempt == 0 or time.monotonic() < deadline):
                others -= 1
                continue
            if time.monotonic() + wait > deadline:
                raise kind(f"no answer from {' or '.join(self._urls)} within {patience:g} s: {failure}")
            await self.sleep(wait)
            attempt, others = attempt + 1, len(self._urls) - 1

    def _url(self, path: str) -> str:
        """The URL of a path at the replica that calls go to."""
        return self._urls[self._at] + path

    def page(self, path: str) -> str:
        """The address of a page of the dashboard, at the replica that calls go to."""
        return f"{self._urls[self._at]}/#/{path}"

    @abstractmethod
    async def _request(self, method: str, path: str, **sent: Any) -> httpx.Response:
        """Send one request, and read its reply into memory."""

    @abstractmethod
    async def _stream(self, path: str, file: BinaryIO) -> httpx.Response:
        """GET once. The body of a 2xx reply is written to the file, any other is kept in the reply."""

    @abstractmethod
    def _pieces(self, file: BinaryIO) -> Any:
        """The rest of the file in a form that httpx accepts as the content of a request."""

    @abstractmethod
    async def sleep(self, seconds: float) -> None:
        """Wait for `seconds`."""

    @abstractmethod
    async def apply(self, function: Callable[..., Any], *args: Any) -> Any:
        """Call a function of the user, or one that takes long, and return its result."""

    @abstractmethod
    async def together(self, loops: Sequence[Loop], interrupted: Loop) -> None:
        """Run all loops in parallel until they have ended, then raise the first error, if any.

        If this is interrupted, `interrupted` runs before waiting for the loops.
        """

    @abstractmethod
    async def close(self) -> None:
        """Close the connections."""


def _answer(reply: httpx.Response) -> Any:
    if not reply.is_success:
        raise _refusal(reply)
    return reply.json() if reply.content else None


def _refusal(reply: httpx.Response) -> OptimistError:
    from pydantic import ValidationError

    from optimist_client.models.service import Problem

    try:
        problem = Problem.model_validate_json(reply.content)
    except ValidationError:
        detail = _masked(reply.text, reply.request)[:500]
        problem = Problem(
            type="about:blank", title=f"HTTP {reply.status_code}", status=reply.status_code, detail=detail
        )
    return from_problem(problem)


def _masked(text: str, request: httpx.Request) -> str:
    """The text without the access key that was sent: what answers at a wrong URL may send it back."""
    key = request.headers.get("authorization", "").removeprefix("Bearer ")
    return text.replace(key, "…") if key else text


def _lasting(error: BaseException | None, url: str) -> str | None:
    """Why no connection to this URL can be made, if waiting does not help."""
    while error is not None:
        if isinstance(error, ssl.SSLCertVerificationError):
            return (
                f"the certificate of {url} cannot be trusted: {error.verify_message}. If an authority of your own "
                "signed it, set SSL_CERT_FILE to a file (PEM) with the certificate of that authority"
            )
        if isinstance(error, ssl.SSLError) and error.reason in _NOT_TLS:
            return f"the service speaks http there: use http{url[len('https') :]}"
        error = error.__cause__ or error.__context__
    return None


def _seconds(retry_after: str | None) -> float:
    try:
        return min(30.0, float(retry_after or 0.0))
    except ValueError:
        return 0.0
