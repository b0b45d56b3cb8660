"""HTTP requests with retries, shared by the blocking and the asyncio client."""

from __future__ import annotations

import os
import random
import re
import ssl
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, Generic

import httpx

from optimist_client.connections import Http, OwnClient, proxy_note, retry_after
from optimist_client.errors import BEING_MADE, BusyError, FixError, OptimistError, UnreachableError, from_problem

_BUSY = frozenset({429, 502, 503, 504, 507})
_ELSEWHERE = frozenset({502, 503, 504})
"""The busy responses that may be those of one replica alone."""
_NOT_TLS = frozenset({"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE"})
"""The errors of OpenSSL where the first bytes of an answer are none of TLS; newer versions raise the second one."""

# Long enough for one round, and less than the 75 s after which the service closes an idle connection.
_LIMITS = httpx.Limits(keepalive_expiry=60.0)
_HOST = re.compile(r"[A-Za-z0-9.-]+(:\d+)?")
"""The form of host that messages repeat of a URL: an access key has an underscore."""
_KEY = "OPTIMIST_API_KEY"
URL = "OPTIMIST_URL"
"""The variable that names the service."""
DEFAULT_URL = "http://127.0.0.1:8000"
"""The address at which `optimist serve` listens on this machine."""
PIECE = 1 << 20
"""Number of bytes of a file that are read or written at a time."""
Loop = Callable[[], Coroutine[Any, Any, None]]


def read_pieces(file: Path) -> Iterator[bytes]:
    """The content of a file."""
    with file.open("rb") as read:
        while piece := read.read(PIECE):
            yield piece


class Transport(ABC, Generic[Http]):
    """A connection pool to one service, with retries.

    All calls of the API are idempotent (picks are told by their number, asks have a request id). After a lost
    connection or a busy response, a call is therefore retried for up to `patience` seconds, counted anew whenever the
    service says that a scorer is at work on what was asked for. Where a service has several replicas, all calls go to
    one of them, until it cannot be reached or is not available: then to the next one.

    It can be pickled, and with it experiments and picks. The key is left out: where there was one, the process that
    reads the pickle needs its own in OPTIMIST_API_KEY.
    """

    _kind: ClassVar[Any]
    """The httpx client's class."""

    def __init__(
        self, url: str | Sequence[str] | None, timeout: float, patience: float, api_key: str | None = None
    ) -> None:
        """url: None: OPTIMIST_URL, or this machine. api_key: by default the variable OPTIMIST_API_KEY.

        Raises FixError for a URL not of http.
        """
        self._urls = urls = replicas(os.environ.get(URL) or DEFAULT_URL if url is None else url)
        self._timeout = timeout
        key = _sendable(api_key or "") or _sendable(os.environ.get(_KEY, ""))
        self._has_key = bool(key)
        self._own: OwnClient[Http] = OwnClient(
            self._kind,
            urls,
            base_url=urls[0],
            timeout=httpx.Timeout(timeout, connect=5.0),
            limits=_LIMITS,
            headers={"authorization": f"Bearer {key}"} if key else {},
        )
        self._at = 0
        """The place of the replica that calls go to."""
        # The service reads or writes a whole archive before it responds.
        self._of_files = httpx.Timeout(max(timeout, 600.0), connect=5.0)
        self._patience = patience

    @property
    def _http(self) -> Http:
        return self._own.client

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (type(self), self._urls, self._timeout, self._patience, self._has_key)

    async def call(
        self,
        method: str,
        path: str,
        *,
        json: Any = None,
        body: bytes | None = None,
        media_type: str | None = None,
        params: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        patience: float | None = None,
    ) -> Any:
        """Send a request and return the decoded JSON of a 2xx reply. Raises `OptimistError` otherwise."""
        named = {**(headers or {}), **({"content-type": media_type} if media_type else {})}

        async def send() -> httpx.Response:
            return await self._request(method, path, json=json, content=body, headers=named or None, params=params)

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

    async def upload(
        self,
        method: str,
        path: str,
        params: Mapping[str, Any],
        headers: Mapping[str, str],
        pieces: Callable[[], Iterator[bytes]],
    ) -> Any:
        """Send a body of `pieces`, which are made anew for each attempt. Returns and raises like `call`."""

        async def send() -> httpx.Response:
            content = self._content(pieces())
            return await self._request(
                method, path, content=content, headers=headers, params=params, timeout=self._of_files
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
                failure = f"{type(error).__name__}: {_masked(str(error), error.request)}{proxy_note(self._urls[at])}"
                kind = UnreachableError
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
                wait = max(wait, min(30.0, retry_after(reply.headers) or 0.0))
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
    def _content(self, pieces: Iterator[bytes]) -> Any:
        """The pieces in a form that httpx accepts as the content of a request."""

    @abstractmethod
    async def sleep(self, seconds: float) -> None:
        """Wait for `seconds`."""

    @abstractmethod
    async def apply(self, function: Callable[..., Any], *args: Any) -> Any:
        """Call a function of the user, or one that takes long, and return its result."""

    @abstractmethod
    def slots(self, count: int) -> AbstractAsyncContextManager[Any]:
        """A context that so many loops may be inside at once; others wait."""

    @abstractmethod
    async def together(self, loops: Sequence[Loop], interrupted: Loop) -> None:
        """Run all loops in parallel until they have ended, then raise the first error, if any.

        If this is interrupted, `interrupted` runs before waiting for the loops.
        """

    @abstractmethod
    async def close(self) -> None:
        """Close the connections."""


def replicas(url: str | Sequence[str]) -> list[str]:
    """The URLs of a service's replicas, without the slash at the end.

    Raises FixError if there is none, or for one that is not of http, has a user, a password or options, or cannot be
    read: with another one every call would be retried in vain. Its message repeats nothing that may be a secret.
    """
    urls = [address.strip().rstrip("/") for address in ([url] if isinstance(url, str) else url)]
    if not urls:
        raise FixError("url: expected at least one")
    for address in urls:
        scheme, _, host = address.rpartition("://")
        shown = host if _HOST.fullmatch(host) else "HOST:PORT"
        if scheme.lower() not in ("http", "https"):
            raise FixError(f"url: expected one that begins with http:// or https://, as http://{shown}")
        if set(host) & {"@", "?", "#"}:
            raise FixError(
                "url: expected one without user, password and options: "
                "the access key is given as api_key, or in OPTIMIST_API_KEY"
            )
        try:
            httpx.URL(address)
        except httpx.InvalidURL:
            raise FixError(f"url: expected one as {scheme}://{shown}, where the port is a number") from None
    return urls


def _sendable(key: str) -> str:
    """The key without white space around it. Raises FixError for one that cannot be sent."""
    key = key.strip()
    if unfit := [position for position, character in enumerate(key, 1) if not "!" <= character <= "~"]:
        raise FixError(
            f"api_key, or {_KEY}: expected a key as `optimist keys create` prints it; "
            f"character {unfit[0]} of {len(key)} cannot be sent"
        )
    return key


def _restored(
    kind: type[Transport[Any]], urls: Sequence[str], timeout: float, patience: float, has_key: bool
) -> Transport[Any]:
    """The transport that was pickled, with a connection and the key of this process."""
    if has_key and not os.environ.get(_KEY):
        raise FixError(
            f"{_KEY}: expected the API key for {' or '.join(urls)}, which a pickle does not carry: set it in this "
            f"process, or open the experiment here with Optimist(url, api_key=…)"
        )
    return kind(urls, timeout, patience)


def _answer(reply: httpx.Response) -> Any:
    if not reply.is_success:
        raise _refusal(reply)
    return reply.json() if reply.content else None


def _refusal(reply: httpx.Response) -> OptimistError:
    from pydantic import ValidationError

    from optimist_client.problem import Problem

    try:
        problem = Problem.model_validate_json(reply.content)
    except ValidationError:
        detail = _masked(reply.text, reply.request)[:500]
        problem = Problem(
            type="about:blank",
            title=f"HTTP {reply.status_code}{proxy_note(f'{reply.request.url}')}",
            status=reply.status_code,
            detail=detail,
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
