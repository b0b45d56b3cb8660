"""Shares of connections: one for each access key, and one for each address, of those that have shown no key yet.

A proxy's connections come from one address, but each of them soon has a request with some key; from then on it counts
towards that key's share alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol


class Shareable(Protocol):
    """A connection as it is counted."""

    @property
    def is_idle(self) -> bool:
        """Whether nobody waits for an answer on it."""
        ...

    def close(self) -> None:
        """Close it, since it is idle."""


class Connections:
    """The connections of one process. Where there are too many, the one that has been idle for the longest is closed:
    of those without a key in all, else of the same share."""

    def __init__(self, most: int, share: float) -> None:
        """most: how many there may be. share: the part of them that one key, or one address, may have."""
        self._most = most
        self._share = max(1, int(most * share))
        self._shares: dict[str, dict[Shareable, None]] = {}
        """Those of each key and address; whichever was used the longest ago is first."""
        self._without_key: dict[Shareable, None] = {}
        self._share_of: dict[Shareable, str] = {}

    def open(self, one: Shareable, address: str) -> bool:
        """Count a new connection from this address. False if there is no room for it: its requests are refused."""
        share = f"address {address}"
        has_room = self._has_room(share) and (len(self._share_of) < self._most or _close_idle(self._without_key))
        self._enter(one, share)
        self._without_key[one] = None
        return has_room

    def admit(self, one: Shareable, key: str) -> bool:
        """Count a connection towards the share of the key that its present request has; towards none where no keys are
        needed ("").

        False if others use all of this share.
        """
        share = f"key {key}" if key else ""
        if self._share_of.get(one) != share and not self._has_room(share):
            return False
        if one in self._share_of:  # not closed meanwhile
            self.close(one)
            self._enter(one, share)
        return True

    def close(self, one: Shareable) -> None:
        """Count a connection no longer."""
        share = self._share_of.pop(one, None)
        self._without_key.pop(one, None)
        if share:
            del self._shares[share][one]
            if not self._shares[share]:
                del self._shares[share]

    def _enter(self, one: Shareable, share: str) -> None:
        self._share_of[one] = share
        if share:
            self._shares.setdefault(share, {})[one] = None

    def _has_room(self, share: str) -> bool:
        known = self._shares.get(share, {})
        return len(known) < self._share or _close_idle(known)


def _close_idle(among: Iterable[Shareable]) -> bool:
    """Close the first idle one; False if there is none."""
    idle = next((one for one in among if one.is_idle), None)
    if idle is not None:
        idle.close()
    return idle is not None
