"""The one cache of what a process has lately made: nothing in it is needed to make that anew."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


def _one(value: object) -> int:
    return 1


class Cache(Generic[Key, Value]):
    """A mapping that keeps the entries that were put last: as many as weigh at most `max_weight` together, and at least
    one. Several threads may use it."""

    def __init__(self, max_weight: int = 256, weigh: Callable[[Value], int] = _one) -> None:
        """weigh: the weight of a value, which does not change; by default 1."""
        self._max_weight = max_weight
        self._weigh = weigh
        self._weight = 0
        self._entries: dict[Key, Value] = {}
        self._lock = threading.RLock()

    def get(self, key: Key) -> Value | None:
        """The value of a key, None if there is none."""
        return self._entries.get(key)

    def pop(self, key: Key) -> Value | None:
        """Remove a key, and return its value; None if there is none."""
        with self._lock:
            value = self._entries.pop(key, None)
            self._weight -= 0 if value is None else self._weigh(value)
        return value

    def put(self, key: Key, value: Value) -> Value:
        """Set the value of a key, and forget the oldest ones."""
        with self._lock:
            self.pop(key)
            self._entries[key] = value
            self._weight += self._weigh(value)
            while self._weight > self._max_weight and len(self._entries) > 1:
                self.pop(next(iter(self._entries)))
        return value
