"""The connections of an API process: how they are kept from being slow for ever, and shares of them.

There is a share for each access key, and one for each address, of those that have shown no key yet.

A proxy's connections come from one address, but each of them soon has a request with some key; from then on it counts
towards that key's share alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from functools import partial
from typing import Any, Protocol

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from optimist.api.middleware.limits import ADMITTED, GONE, WHOLE

LONGEST_HEAD = 2**16
"""Bytes of a request's line and headers."""


class Shareable(Protocol):
    """A connection as it is counted."""

    @property
    def is_idle(self) -> bool:
        """True if nobody waits for an answer on it."""
        ...

    def close(self) -> None:
        """Close it, since it is idle."""


class Connections:
    """The connections of one process. Where there are too many, the one that has been idle for the longest is closed:
    of those without a key in all, else of the same share."""

    def __init__(self, max_connections: int, share: float) -> None:
        """max_connections: how many there may be. share: the part of them that one key, or one address, may have."""
        self._max_connections = max_connections
        self._share = max(1, int(max_connections * share))
        self._shares: dict[str, dict[Shareable, None]] = {}
        """Those of each key and address; whichever was used the longest ago is first."""
        self._without_key: dict[Shareable, None] = {}
        self._share_of: dict[Shareable, str] = {}

    def open(self, connection: Shareable, address: str) -> bool:
        """Count a new connection from this address. False if there is no room for it: its requests are refused."""
        share = f"address {address}"
        has_room = self._has_room(share) and (
            len(self._share_of) < self._max_connections or _close_idle(self._without_key)
        )
        self._enter(connection, share)
        self._without_key[connection] = None
        return has_room

    def admit(self, connection: Shareable, key: str) -> bool:
        """Count a connection towards the share of the key that its present request has; towards none where no keys are
        needed ("").

        False if others use all of this share.
        """
        share = f"key {key}" if key else ""
        if self._share_of.get(connection) != share and not self._has_room(share):
            return False
        if connection in self._share_of:  # not closed meanwhile
            self.close(connection)
            self._enter(connection, share)
        return True

    def close(self, connection: Shareable) -> None:
        """Count a connection no longer."""
        share = self._share_of.pop(connection, None)
        self._without_key.pop(connection, None)
        if share:
            del self._shares[share][connection]
            if not self._shares[share]:
                del self._shares[share]

    def _enter(self, connection: Shareable, share: str) -> None:
        self._share_of[connection] = share
        if share:
            self._shares.setdefault(share, {})[connection] = None

    def _has_room(self, share: str) -> bool:
        connections = self._shares.get(share, {})
        return len(connections) < self._share or _close_idle(connections)


def _close_idle(among: Iterable[Shareable]) -> bool:
    """Close the first idle one; False if there is none."""
    idle = next((connection for connection in among if connection.is_idle), None)
    if idle is not None:
        idle.close()
    return idle is not None


class PatientProtocol(HttpToolsProtocol):
    """uvicorn's protocol with what it lacks (0.54): limits of a request's head, and of a client that does not read; and
    shares of connections.

    A connection that asks for nothing is closed after `head_timeout` seconds, one between requests by uvicorn, and one
    that takes nothing of an answer that waits for it after `answer_timeout` seconds.
    """

    head_timeout: float
    answer_timeout: float
    all_connections: Connections
    _has_room = True
    _head_timer: asyncio.TimerHandle | None = None
    _stall_timer: asyncio.TimerHandle | None = None
    _in_head = False
    _head = 0
    _size = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._has_room = self.all_connections.open(self, self.client[0] if self.client else "")
        self._await_head()

    @property
    def is_idle(self) -> bool:
        """True if nobody waits for an answer on this connection."""
        cycle: RequestResponseCycle | None = getattr(self, "cycle", None)
        return cycle is None or cycle.response_complete

    def close(self) -> None:
        """Close an idle connection."""
        self.all_connections.close(self)
        self.transport.close()

    def data_received(self, data: bytes) -> None:
        """Take what came, and go on waiting where it did not complete a head."""
        scope = self.scope
        super().data_received(data)
        # Of a head that has not ended `on_header` counts the whole headers. Before its beginning there may be a body.
        self._head = self._head + len(data) if self._in_head and self.scope is scope else 0
        if self._head > LONGEST_HEAD:
            self.transport.abort()
        elif (cycle := getattr(self, "cycle", None)) is not None and not cycle.response_complete:
            self._end_head()
        elif self._head_timer is None and not self.transport.is_closing():
            # For what is left of a body that was answered already, too.
            self._await_head()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head = True
        self._size = 0
        self.scope.setdefault("state", {})[ADMITTED] = partial(self.all_connections.admit, self)

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        self._grow(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        """Count a header, or a trailer of the body."""
        super().on_header(name, value)
        self._grow(len(name) + len(value) + 4)

    def send_400_response(self, msg: str) -> None:
        """Answer 400 to what is no request; cut the connection of a head that is too large."""
        if self._size > LONGEST_HEAD:
            self.transport.abort()
        else:
            super().send_400_response(msg)

    def on_headers_complete(self) -> None:
        self._in_head = False
        self.limit_concurrency = None if self._has_room else 0
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self.scope.setdefault("state", {})[WHOLE] = True
        # uvicorn pauses reading while more than 64 KiB of a body wait for the application. If these are the last, it
        # does not resume, and would not notice that the client disconnects. A pipelined request keeps it paused.
        if not self.pipeline:
            self.flow.resume_reading()

    def pause_writing(self) -> None:
        """Begin to wait for a client that does not take what is sent, for `answer_timeout` seconds."""
        super().pause_writing()
        self._stall_timer = self.loop.call_later(self.answer_timeout, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._end_stall()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_head()
        self._end_stall()
        if (scope := getattr(self, "scope", None)) is not None:
            scope.setdefault("state", {})[GONE] = True
        self.all_connections.close(self)
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


def patient(head_timeout: float, answer_timeout: float, connections: Connections) -> Any:
    """The protocol class with these limits, times in seconds, as uvicorn makes one of each connection itself."""
    limits = {"head_timeout": head_timeout, "answer_timeout": answer_timeout, "all_connections": connections}
    return type("Patient", (PatientProtocol,), limits)
