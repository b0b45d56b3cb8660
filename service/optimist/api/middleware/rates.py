"""Limits the requests per second of each access key, with one token bucket per key in this process."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from optimist.api.problems import ApiError

BURST_SECONDS = 2.0
"""Size of the largest burst, in seconds of the permitted rate."""


class Rates:
    """Token buckets by key. Only valid keys get one, so there are no more buckets than keys."""

    def __init__(self, rate: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = rate
        self._most = max(1.0, BURST_SECONDS * rate)
        self._clock = clock
        self._buckets: dict[str, tuple[float, float]] = {}

    def take(self, key: str) -> None:
        """Count a request. Raises `ApiError` 429 with the time to wait (Retry-After) if it exceeds the rate."""
        now = self._clock()
        tokens, since = self._buckets.get(key, (self._most, now))
        tokens = min(self._most, tokens + (now - since) * self._rate)
        if tokens < 1.0:
            wait = math.ceil((1.0 - tokens) / self._rate)
            raise ApiError(
                429,
                "too-many-requests",
                "Too many requests",
                f"expected at most {self._rate:g} requests per second with one key",
                action="retry",
                headers={"retry-after": str(wait)},
            )
        self._buckets[key] = (tokens - 1.0, now)
