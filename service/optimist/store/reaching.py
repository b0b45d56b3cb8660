"""Whether Redis can be reached: which of its errors pass, when it went and came back, and which server it is.

After a failover, or a start from an older file, Redis may have lost its last writes. Correctness does not depend on
noticing this, because scripts compare state tokens, nonces and chained digests (architecture.md); a process that
notices it drops at once what it holds in memory.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from redis import exceptions as redis_errors
from redis.exceptions import RedisError, ResponseError

from optimist.records import Unavailable

_log = logging.getLogger(__name__)
_IDS = re.compile(rb"^(?:run_id|master_replid):(\w+)", re.MULTILINE)
_PASSING = (
    redis_errors.ConnectionError,
    redis_errors.TimeoutError,
    redis_errors.OutOfMemoryError,
    redis_errors.ReadOnlyError,
    redis_errors.ClusterError,
    redis_errors.SlotNotCoveredError,
    # Errors of a slot that is being moved to another node, or of a master that has become a replica.
    redis_errors.AskError,
    redis_errors.TryAgainError,
)
# Redis before 7 wraps the error of a command in a script into its own text, so the class is lost.
_PASSING_WORDS = ("OOM command", "MISCONF", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "NOREPLICAS", "BUSY")


class Outage:
    """Watches calls that a process repeats for as long as it lives."""

    def __init__(self) -> None:
        self._since: float | None = None

    @contextmanager
    def noticed(self) -> Generator[None]:
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


class ServerIdentity:
    """The servers that the connections of one client have reached.

    A server has another run id after each start, and another replication id after each promotion to master.
    """

    def __init__(self) -> None:
        self._met: set[tuple[bytes, ...]] = set()
        self.incarnation = 0
        """Increases by one with each new server."""

    async def greet(self, connection: Any) -> None:
        """redis-py's `redis_connect_func`: begin a new connection, and record its server."""
        await connection.on_connect()
        await connection.send_command("INFO")
        try:
            answer = await connection.read_response()
        except ResponseError:  # this user has no permission for INFO
            return
        self._met.add(tuple(_IDS.findall(answer)))
        self.incarnation = len(self._met)


@contextmanager
def reaching_redis() -> Generator[None]:
    """Raise `Unavailable` in place of what redis-py raises when the same call may well succeed later."""
    try:
        yield
    except _PASSING as error:
        raise Unavailable(f"Redis cannot serve now: {error}") from error
    except redis_errors.ResponseError as error:
        if any(word in str(error) for word in _PASSING_WORDS):
            raise Unavailable(f"Redis cannot serve now: {error}") from error
        raise
