"""Connections that are slow: no client holds one open for ever by sending, or taking, next to nothing."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from optimist.api.middleware.limits import WHOLE

LONGEST_HEAD = 2**16
"""Bytes of a request's line and headers."""


class PatientProtocol(HttpToolsProtocol):
    """uvicorn's protocol with what it lacks (0.54): limits of a request's head, and of a client that does not read.

    A connection that asks for nothing is closed after `head_timeout` seconds, one between requests by uvicorn, and one
    that takes nothing of an answer that waits for it after `answer_timeout` seconds.
    """

    head_timeout: float
    answer_timeout: float
    _head_timer: asyncio.TimerHandle | None = None
    _stall_timer: asyncio.TimerHandle | None = None
    _in_head = False
    _head = 0
    _size = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a head."""
        super().connection_made(transport)
        self._await_head()

    def data_received(self, data: bytes) -> None:
        """Take what came; wait on where it did not complete a head."""
        scope = self.scope
        super().data_received(data)
        # Of a head that has not ended `on_header` counts the whole headers. Before its beginning there may be a body.
        self._head = self._head + len(data) if self._in_head and self.scope is scope else 0
        if self._head > LONGEST_HEAD:
            self.transport.abort()
        elif self.cycle is not None and not self.cycle.response_complete:
            self._end_head()
        elif self._head_timer is None and not self.transport.is_closing():
            # For what is left of a body that was answered already, too.
            self._await_head()

    def on_message_begin(self) -> None:
        """A head begins."""
        super().on_message_begin()
        self._in_head = True
        self._size = 0

    def on_url(self, url: bytes) -> None:
        """Part of the request's line came."""
        super().on_url(url)
        self._grow(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header came, or a trailer of the body."""
        super().on_header(name, value)
        self._grow(len(name) + len(value) + 4)

    def send_400_response(self, msg: str) -> None:
        """Answer what is no request, or has too large a head: that one is cut off."""
        if self._size > LONGEST_HEAD:
            self.transport.abort()
        else:
            super().send_400_response(msg)

    def on_headers_complete(self) -> None:
        """It has come whole."""
        self._in_head = False
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """The body has come whole, too."""
        super().on_message_complete()
        self.scope.setdefault("state", {})[WHOLE] = True

    def pause_writing(self) -> None:
        """The client does not take what is sent: wait for it, though not for ever."""
        super().pause_writing()
        self._stall_timer = self.loop.call_later(self.answer_timeout, self.transport.abort)

    def resume_writing(self) -> None:
        """It took some."""
        super().resume_writing()
        self._end_stall()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing is waited for any more."""
        self._end_head()
        self._end_stall()
        super().connection_lost(exc)

    def _grow(self, by: int) -> None:
        """Count bytes of a head, which may be one of many parts or come in one. Raises ValueError: the parser stops."""
        self._size += by
        if self._size > LONGEST_HEAD:
            raise ValueError(f"expected a request's line and headers of at most {LONGEST_HEAD} bytes")

    def _await_head(self) -> None:
        self._head_timer = self.loop.call_later(self.head_timeout, self.transport.close)

    def _end_head(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _end_stall(self) -> None:
        if self._stall_timer is not None:
            self._stall_timer.cancel()
            self._stall_timer = None


def patient(head_timeout: float, answer_timeout: float) -> Any:
    """The protocol class with these limits, in seconds, as uvicorn makes one of each connection itself."""
    return type("Patient", (PatientProtocol,), {"head_timeout": head_timeout, "answer_timeout": answer_timeout})
