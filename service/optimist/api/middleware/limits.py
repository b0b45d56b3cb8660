"""Limits request bodies: their size as it arrives, their pace, and the memory of all bodies together.

The processes of one service on one machine share in a few bytes what they must know of each other for this.
"""

from __future__ import annotations

import asyncio
import contextlib
import mmap
import re
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from io import BytesIO
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import Message, Receive, Scope

from optimist.api.middleware.access import FRESH, header
from optimist.api.problems import of_http
from optimist.insight.metrics import BODY_BYTES
from optimist.settings import Settings
from optimist.turns import Turns
from optimist_client import tensors

WHOLE = "optimist.whole"
"""Mark in the `state` of the scope of a request that has come to its end."""
GONE = "optimist.gone"
"""Mark in the same place of a request whose client has closed the connection."""
ADMITTED = "optimist.admitted"
"""In the `state` of the scope of a request, if the server counts connections: what counts this one towards the share of
a key, and returns False where others use all of it."""
SMALL = 2**18
"""Bytes of memory that each request may use for its body without being counted."""


_state: ContextVar[Mapping[str, object]] = ContextVar("state", default=MappingProxyType({}))
"""The `state` of the scope of the request that a task, or a thread that it waits for, works for."""


def has_gone() -> bool:
    """True if the client of the request that is worked for has closed the connection, if the server tells."""
    return GONE in _state.get()


class SharedCounters:
    """The bytes of bodies that each API process holds, and when the scorer was last heard of.

    processes: number of API processes. number: of this one, from 0. path: the file that they all map, which is made if
    it is missing; None for one process that shares with none.
    """

    def __init__(self, processes: int = 1, number: int = 0, path: Path | None = None) -> None:
        self.processes = processes
        self._number = number
        size = 8 * (processes + 1)
        if path is None:
            shared = memoryview(mmap.mmap(-1, size))
        else:
            with path.open("a+b") as file:
                file.truncate(size)
                shared = memoryview(mmap.mmap(file.fileno(), size))
        self._held = shared[:-8].cast("q")
        self._heard = shared[-8:].cast("d")
        # A process of this number that was killed before left its bytes here; it holds nothing any more.
        self._held[number] = 0

    @property
    def held(self) -> int:
        """Bytes that all API processes hold for bodies. Two that look at the same moment may both take what is left."""
        return sum(self._held)

    def hold(self, by: int) -> int:
        """Add `by` bytes (negative to release them) to what this process holds; returns how many these are now."""
        self._held[self._number] += by
        return self._held[self._number]

    def hear(self, is_at_work: bool) -> None:
        """Note what the scorer said of itself just now, or that it has ended."""
        self._heard[0] = time.monotonic() if is_at_work else 0.0  # this clock is the same in all processes

    @property
    def scorer_at_work(self) -> bool:
        """True if the scorer of this service was heard of within 30 seconds: it says a word every second."""
        return self._heard[0] > 0.0 and time.monotonic() - self._heard[0] < 30.0


class BodyLimits:
    """The limits of request bodies: their size, whatever their headers claim, their pace, and the memory of all.

    files: the paths whose bodies are written to disk, with their size limits; these use no memory.
    counters: where the API processes of this service count the memory of their bodies together.
    """

    def __init__(self, settings: Settings, files: Mapping[re.Pattern[str], int], counters: SharedCounters) -> None:
        patience = settings.body_timeout
        self._of_files = {path: BodyLimit(max_bytes, 0, patience) for path, max_bytes in files.items()}
        # Two copies while reading, or the body, its arrays and their checks.
        self._of_tensors = BodyLimit(settings.max_body, 3, patience)
        # Python's objects for `{"":0}` take thirty bytes of memory for each of it, and the text up to four.
        self._of_json = BodyLimit(min(settings.max_body, settings.max_json), 40, patience)
        self._memory = Memory(settings.max_memory, settings.memory_share, counters)
        BODY_BYTES.set(0)  # one that was killed may have left more

    def body(self, scope: Scope, receive: Receive, when_slow: Callable[[Scope], Awaitable[None]], turns: Turns) -> Body:
        """The body of a request, also in its scope as "body", and its `BodyShare` of memory, in its scope as "memory".

        when_slow: called with the scope at the end of a body that did not come at once; it raises to refuse it.
        turns: of namespaces at reading bodies.
        """
        _state.set(scope.get("state", {}))
        caller, limit = scope.get("caller"), self._of_json
        if (header(scope, b"content-type") or "").startswith(tensors.MEDIA_TYPE):
            limit = self._of_tensors
        limit = next((limit for path, limit in self._of_files.items() if path.fullmatch(scope["path"])), limit)
        scope["memory"] = BodyShare(self._memory, "" if caller is None else caller.key)
        body = scope["body"] = Body(scope, receive, limit, when_slow, turns)
        return body


class BodyLimit(NamedTuple):
    """Maximum bytes of a body, bytes of memory for each of them, and seconds of its pauses."""

    largest: int
    weight: int
    patience: float


class Body:
    """The body of one request: an ASGI `receive` that stops reading it when it is too large or too slow.

    It raises HTTPException 408, 413, or 503 if the bodies of all requests, or of those with the same key, would use too
    much memory.
    """

    def __init__(
        self,
        scope: Scope,
        receive: Receive,
        limit: BodyLimit,
        when_slow: Callable[[Scope], Awaitable[None]],
        turns: Turns,
    ) -> None:
        """scope: of the request, with its `BodyShare` as "memory". when_slow, turns: as of `BodyLimits.body`."""
        self._scope = scope
        self._receive = receive
        self._limit = limit
        self._when_slow = when_slow
        self._turns = turns
        self._share: BodyShare = scope["memory"]
        self._max_bytes = limit.largest
        self._hint = ""
        length = header(scope, b"content-length") or ""
        self._announced = int(length) if length.isascii() and length.isdigit() else 0
        self._left = limit.patience
        self._came: Mapping[str, object] = scope.get("state", {})
        """Has `WHOLE` as soon as the body need not be waited for, if the server tells."""
        self._made = time.monotonic()
        self._taken = self._pieces = 0
        self._more = True
        self._whole: bytes | None = None

    def expect(self, max_bytes: int, hint: str = "") -> None:
        """From now on take at most `max_bytes` bytes, if that is less than any body may have. hint: what else to send.

        Raises `ApiError` 413 if more is announced, or has come.
        """
        self._max_bytes, self._hint = min(self._limit.largest, max_bytes), hint
        if max(self._taken, self._announced) > self._max_bytes:
            raise of_http(self._too_large())

    async def __call__(self) -> Message:
        """The next message of the request, which may say that the client has gone."""
        if not self._more:
            return await self._receive()
        if not self._taken and self._limit.weight:
            # Refuse the body before it is sent if there is no room for it.
            self._share.expect(min(self._announced, self._max_bytes))
        begun = time.monotonic()
        try:
            # Most bodies have come by now, and a timer takes as long as the other checks of a body together.
            async with contextlib.nullcontext() if WHOLE in self._came else asyncio.timeout(self._left):
                message = await self._receive()
        except TimeoutError:
            raise _refusal(408, f"the body stopped after {self._taken} bytes or arrived too slowly") from None
        if message["type"] != "http.request":
            return message
        now, size = time.monotonic(), len(message.get("body", b""))
        self._more = message.get("more_body", False)
        self._pieces += 1
        # Each 64 KiB gain a second. A fast transfer does not allow a longer pause later: the budget never exceeds
        # `patience`.
        self._left = min(self._limit.patience, self._left - (now - begun) + size / 2**16)
        if max(self._taken + size, self._announced) > self._max_bytes:
            raise self._too_large()
        self._taken += size
        # The body is decoded only when it is complete, so that until then it is counted once.
        weight = self._limit.weight
        self._share.hold(self._taken * (min(weight, 1) if self._more else weight))
        if self._more:
            # Whoever has used the least of the loop's time reads on.
            namespace = self._scope["caller"].namespace if "caller" in self._scope else ""
            # The server has received these bytes, at about 2 ns each, before the request was told of them.
            self._turns.charge(namespace, 2e-9 * size)
            await self._turns.take(namespace)
        elif self._pieces > 1 or now - self._made >= FRESH:
            await self._when_slow(self._scope)
        return message

    async def whole(self) -> bytes:
        """The whole body. Raises ClientDisconnect, and the errors of reading it.

        It is collected in one growing block: many small pieces would leave memory that malloc does not return. Unlike
        a bytearray, a BytesIO hands its block over without copying it, which would hold the loop.
        """
        if self._whole is None:
            whole = await self._piece()
            if self._more:
                block = BytesIO()
                block.write(whole)
                while self._more:
                    block.write(await self._piece())
                whole = block.getvalue()
            self._whole = whole
        return self._whole

    def release(self) -> None:
        """Release the memory of the request, which is answered."""
        self._share.release()

    def _too_large(self) -> HTTPException:
        return _refusal(413, f"expected a body of at most {self._max_bytes} bytes{self._hint}")

    async def _piece(self) -> bytes:
        message = await self()
        if message["type"] != "http.request":
            raise ClientDisconnect
        return message.get("body", b"")


class Memory:
    """Counts the bytes that bodies use, with a limit for all requests and a lower one for the requests of each key.

    Requests that use at most `SMALL` are not counted. What a body announces counts towards its key's limit from the
    beginning: of several large ones, any that would not fit is refused before it is received. Towards the
    limit of all counts only what has come, as announcing costs nothing. The limit holds for all API processes of the
    service together. The share of a key is divided: each process grants its part.
    """

    def __init__(self, max_bytes: int, share: float, counters: SharedCounters) -> None:
        self._max_bytes = max_bytes
        self._share = int(max_bytes * share / counters.processes)
        self._counters = counters
        self._of_keys: defaultdict[str, int] = defaultdict(int)

    def check(self, share: BodyShare, size: int) -> None:
        """Raise HTTPException 413 or 503 if a request may not hold `size` bytes.

        Without access keys there is no separate limit. The only request of a key may exceed the key's limit, because
        otherwise it would never be served.
        """
        if size > self._max_bytes:
            raise _refusal(413, f"expected a body that needs at most {self._max_bytes} bytes of memory, got {size}")
        others = self._of_keys[share.key] - share.counted
        if share.key and others > 0 and others + size > self._share:
            raise _refusal(503, "other requests with this key use its share of the memory for bodies: try again later")
        if self._counters.held - share.held + size > self._max_bytes:
            raise _refusal(503, "other requests use all of the memory for request bodies: try again later")

    def hold(self, by: int) -> None:
        """Add `by` bytes (negative to release them) to what all requests hold."""
        BODY_BYTES.set(self._counters.hold(by))

    def count(self, key: str, by: int) -> None:
        """Add `by` bytes (negative to release them) to what counts towards a key's limit."""
        self._of_keys[key] += by
        if not self._of_keys[key]:
            del self._of_keys[key]


class BodyShare:
    """The memory that one request holds for its body."""

    def __init__(self, memory: Memory, key: str) -> None:
        """key: the caller's, or "" without access keys."""
        self.key = key
        self.held = self.counted = 0
        """Bytes that it holds, and that count towards the limit of its key, some of which may still have to come."""
        self._memory = memory

    def expect(self, size: int) -> None:
        """Count `size` bytes that are about to come towards the key's limit. Raises like `hold`."""
        if size > max(SMALL, self.held):
            self._memory.check(self, size)
        if size > max(SMALL, self.counted):
            self._memory.count(self.key, size - self.counted)
            self.counted = size

    def hold(self, size: int) -> None:
        """Hold `size` bytes in total, unless the request holds more already.

        Raises HTTPException 413 or 503 if there is no room. Up to `SMALL` bytes are always granted, so that small
        batches are accepted whatever others send.
        """
        self.expect(size)
        if size > max(SMALL, self.held):
            self._memory.hold(size - self.held)
            self.held = size

    def hold_more(self, size: int) -> None:
        """Hold `size` bytes in addition to those already held. Raises like `hold`."""
        self.hold(self.held + size)

    def release(self) -> None:
        if self.held:
            self._memory.hold(-self.held)
        if self.counted:
            self._memory.count(self.key, -self.counted)
        self.held = self.counted = 0


def _refusal(status: int, detail: str) -> HTTPException:
    """An error for a body that is not read to its end: the connection is closed instead."""
    return HTTPException(status, detail, headers={"connection": "close"})
