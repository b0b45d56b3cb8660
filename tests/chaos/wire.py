"""A small HTTP/1.1 client for hundreds of loops in one process, with the retries of the SDK."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from optimist_client.tensors import MEDIA_TYPE

BUSY = frozenset({429, 502, 503, 504, 507})


class Refused(Exception):
    """An answer that is neither success nor "try again"."""

    def __init__(self, request: str, status: int, content: bytes) -> None:
        super().__init__(f"{request}: {status} {content[:500].decode(errors='replace')}")
        self.status = status


class NoAnswer(Exception):
    """There was no answer for as long as the client was willing to wait."""


@dataclass(frozen=True, slots=True)
class Reply:
    """A decoded 2xx answer, and when its request was sent (monotonic seconds)."""

    content: Any
    sent: float
    seconds: float
    """Seconds from the first attempt to the answer."""


@dataclass
class Client:
    """One keep-alive connection to a service at 127.0.0.1:`port`; one call at a time.

    A call is sent again, with the same bytes, until it is answered or `patience` seconds have passed: after a lost
    connection, after `timeout` seconds without a reply, and when the service is busy. `tries` counts the reasons. `key`
    is the access key that it sends, if any.
    """

    port: int
    timeout: float = 30.0
    patience: float = 180.0
    tries: Counter[str] = field(default_factory=Counter)
    key: str | None = None
    _reader: asyncio.StreamReader | None = None
    _writer: asyncio.StreamWriter | None = None

    async def call(self, method: str, path: str, body: Any = b"") -> Reply:
        """The answer to one request. `body`: bytes of safetensors, or a value for JSON.

        Raises Refused for an answer other than 2xx or busy, NoAnswer when `patience` has passed.
        """
        media = MEDIA_TYPE if isinstance(body, bytes) else "application/json"
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        lines = [
            f"{method} {path} HTTP/1.1",
            "host: localhost",
            f"content-type: {media}",
            f"content-length: {len(content)}",
            *([] if self.key is None else [f"authorization: Bearer {self.key}"]),
        ]
        head = "\r\n".join([*lines, "", ""])
        began, wait = time.monotonic(), 0.05
        while True:
            sent = time.monotonic()
            try:
                async with asyncio.timeout(self.timeout):
                    status, answer = await self._exchange(head.encode() + content)
            except (OSError, EOFError, TimeoutError) as error:
                self.abort()
                reason = type(error).__name__
            except BaseException:
                self.abort()
                raise
            else:
                if 200 <= status < 300:
                    return Reply(json.loads(answer) if answer else None, sent, time.monotonic() - began)
                if status not in BUSY:
                    raise Refused(f"{method} {path}", status, answer)
                reason = str(status)
            self.tries[reason] += 1
            if time.monotonic() - began > self.patience:
                raise NoAnswer(f"{method} {path}: {reason}")
            await asyncio.sleep(wait * random.uniform(0.5, 1.0))
            wait = min(1.0, 2 * wait)

    def abort(self) -> None:
        """Drop the connection without notice, as a killed process does."""
        if self._writer is not None:
            self._writer.transport.abort()
        self._reader = self._writer = None

    async def _exchange(self, request: bytes) -> tuple[int, bytes]:
        if self._reader is None or self._writer is None:
            self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self.port)
        self._writer.write(request)
        head = await self._reader.readuntil(b"\r\n\r\n")
        lines = head.lower().split(b"\r\n")
        fields = dict(line.split(b": ", 1) for line in lines[1:] if line)
        answer = await self._reader.readexactly(int(fields.get(b"content-length", b"0")))
        if fields.get(b"connection") == b"close":
            self.abort()
        return int(lines[0].split()[1]), answer
