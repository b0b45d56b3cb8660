"""The pace of an endpoint: requests at once, requests within a minute, and pauses that it asks for."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Generator
from contextlib import contextmanager

MINUTE = 60.0
"""Seconds, of a limit of requests per minute."""


class Pace:
    """Lets as many requests begin as an endpoint allows. It is thread-safe; models of one endpoint share one."""

    def __init__(self, at_once: int, per_minute: int | None = None) -> None:
        self._at_once, self._per_minute = at_once, per_minute
        self._free = threading.Semaphore(at_once)
        self._lock = threading.Lock()
        self._begun: deque[float] = deque()
        self._paused_until = 0.0

    @contextmanager
    def turn(self) -> Generator[None]:
        """A context for one request, which waits until it may begin."""
        with self._free:
            while (wait := self._wait()) > 0.0:
                time.sleep(wait)
            yield

    def pause(self, seconds: float) -> None:
        """Let no request begin for so long."""
        with self._lock:
            self._paused_until = max(self._paused_until, time.monotonic() + seconds)

    def _wait(self) -> float:
        """Seconds after which to look again; 0 if a request may begin, which then counts as begun."""
        with self._lock:
            now = time.monotonic()
            if now < self._paused_until:
                return self._paused_until - now
            if self._per_minute is not None:
                while self._begun and self._begun[0] <= now - MINUTE:
                    self._begun.popleft()
                if len(self._begun) >= self._per_minute:
                    return self._begun[0] + MINUTE - now
                self._begun.append(now)
            return 0.0
