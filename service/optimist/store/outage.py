"""Logs one line when Redis stops answering, and one when it answers again."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager

from redis.exceptions import RedisError

from optimist.records import Unavailable

_log = logging.getLogger(__name__)


class Outage:
    """Watches calls that a process repeats for as long as it lives."""

    def __init__(self) -> None:
        self._since: float | None = None

    @contextmanager
    def noticed(self) -> Iterator[None]:
        """Take the calls in this context as the sign of whether Redis answers. Their errors are raised on."""
        try:
            yield
        except (Unavailable, RedisError) as error:
            if self._since is None:
                self._since = time.monotonic()
                _log.warning("Redis does not answer: %s", error.__cause__ or error)
            raise
        if self._since is not None:
            _log.info("Redis answers again, after %.0f s", time.monotonic() - self._since)
            self._since = None
