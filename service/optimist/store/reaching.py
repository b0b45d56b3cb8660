"""Which errors of redis-py pass, so that the same call may succeed later."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from redis import exceptions as redis_errors

from optimist.records import Unavailable

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


@contextmanager
def reaching_redis() -> Iterator[None]:
    """Raise `Unavailable` in place of what redis-py raises when the same call may well succeed later."""
    try:
        yield
    except _PASSING as error:
        raise Unavailable(f"Redis cannot serve now: {error}") from error
    except redis_errors.ResponseError as error:
        if any(word in str(error) for word in _PASSING_WORDS):
            raise Unavailable(f"Redis cannot serve now: {error}") from error
        raise
