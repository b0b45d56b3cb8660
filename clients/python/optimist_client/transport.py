"""HTTP with retries: the only module of the SDK that knows httpx."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from typing import Any, BinaryIO

import httpx
from pydantic import ValidationError

from optimist_client.errors import Fix, OptimistError, Retry, from_problem
from optimist_client.models import Problem

_BUSY = frozenset({429, 502, 503, 504})


class Transport:
    """One keep-alive connection pool to a service.

    Every call of the API may be sent again without harm (picks are told under their number, asks carry a request id),
    so a lost connection or a busy answer is retried until `patience` seconds have passed since the first try.
    """

    def __init__(self, url: str, timeout: float, patience: float, api_key: str | None = None) -> None:
        headers = {} if api_key is None else {"authorization": f"Bearer {api_key}"}
        self._http = httpx.Client(
            base_url=url.rstrip("/"), timeout=httpx.Timeout(timeout, connect=5.0), headers=headers
        )
        # The service reads, or writes, all of an archive before it answers.
        self._of_files = httpx.Timeout(max(timeout, 600.0), connect=5.0)
        self._patience = patience

    def call(
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

        def send() -> httpx.Response:
            return self._http.request(method, path, json=json, content=body, headers=headers, params=params)

        return _answer(self._reply(send, patience))

    def download(self, path: str, file: BinaryIO) -> None:
        """Write the body of a 2xx reply to GET over what the file holds. Raises `OptimistError` otherwise."""

        def send() -> httpx.Response:
            file.seek(0)
            file.truncate()
            with self._http.stream("GET", path, timeout=self._of_files) as reply:
                if not reply.is_success:
                    reply.read()
                for piece in reply.iter_bytes() if reply.is_success else ():
                    file.write(piece)
                return reply

        reply = self._reply(send)
        if not reply.is_success:
            raise _refusal(reply)

    def upload(self, path: str, file: BinaryIO, headers: Mapping[str, str], params: Mapping[str, Any]) -> Any:
        """POST what the file holds; answers as `call`."""

        def send() -> httpx.Response:
            file.seek(0)
            return self._http.post(path, content=file, headers=dict(headers), params=params, timeout=self._of_files)

        return _answer(self._reply(send))

    def _reply(self, send: Callable[[], httpx.Response], patience: float | None = None) -> httpx.Response:
        """The first reply of a service that is there and not busy."""
        deadline = time.monotonic() + (self._patience if patience is None else patience)
        for attempt in range(1_000_000):
            wait = min(5.0, 0.05 * 2 ** min(attempt, 10)) * random.uniform(0.5, 1.0)
            try:
                reply = send()
            except httpx.TransportError as error:
                failure = f"{type(error).__name__}: {error}"
            except httpx.InvalidURL as error:
                raise Fix(f"the service's URL is not valid: {error}") from None
            except RuntimeError:
                raise Fix("this client has been closed") from None
            else:
                if reply.status_code not in _BUSY:
                    return reply
                failure = f"the service answered {reply.status_code}"
                wait = max(wait, _seconds(reply.headers.get("retry-after")))
            if time.monotonic() + wait > deadline:
                raise Retry(f"no answer from {self._http.base_url} within {self._patience:g} s: {failure}")
            time.sleep(wait)
        raise AssertionError("unreachable")

    def close(self) -> None:
        """Close the connections."""
        self._http.close()


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
