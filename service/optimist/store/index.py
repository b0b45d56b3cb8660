"""The indices of experiments and of references: which names there are, and how many a namespace may have.

In a cluster an index lies in one slot, and what it names in others. So a name gets its place first, is made then, and
gives its place up after it is gone. A crash in between leaves the name of nothing: readers pass over it, and it loses
its place to a new one when it is too old to be one that is just being made.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from optimist.store.commands import Argument, Commands
from optimist.store.errors import Full
from optimist.store.keys import DEFAULT_NAMESPACE, namespace_of


class Index:
    """Full names, each with the time from which it has its place."""

    def __init__(self, commands: Commands, key: str, key_of: Callable[[str], str], patience: int) -> None:
        """key: ends in what the names are of. key_of: the key that stands while what a name means does.

        patience: seconds that making one may take.
        """
        self._commands = commands
        self._key = key
        self._key_of = key_of
        self._patience = patience

    async def reserve(self, full: str, most: int) -> None:
        """Give a name that is about to be made its place, from now on; again is as good as once.

        Raises Full where its namespace has `most` others: exactly, however many come at the same moment.
        """
        if not await self._reserved(full, most):
            await self._sweep()
            if not await self._reserved(full, most):
                raise Full(f"expected at most {most} {self._key.rpartition(':')[2]} in a namespace")

    async def add(self, full: str) -> None:
        """Give a name whose thing stands its place, where it has none."""
        await self._commands.call("ZADD", self._key, "NX", time.time(), full)

    async def names(self) -> list[str]:
        """The names as users know them of those that have a place, oldest first; some may mean nothing."""
        return self._commands.names(await self._commands.call("ZRANGE", self._key, 0, -1))

    async def since(self, full: str) -> Argument | None:
        """From when a name has its place, for `release`."""
        return await self._commands.call("ZSCORE", self._key, full)

    async def release(self, full: str, since: Argument | None) -> None:
        """Take the place of a name that has been removed, unless it was reserved anew meanwhile."""
        if since is not None:
            await self._commands.script("release", [self._key], seconds=0, names=[{"name": full, "since": since}])

    async def _reserved(self, full: str, most: int) -> bool:
        namespace = namespace_of(full)
        prefix = "" if namespace == DEFAULT_NAMESPACE else f"{namespace}/"
        (has_place,) = await self._commands.script("reserve", [self._key], name=full, namespace=prefix, most=most)
        return bool(has_place)

    async def _sweep(self) -> None:
        """Take their places from names of nothing, but from those that may be just being made."""
        names = [self._commands.full(name) for name in await self.names()]
        alive = await self._commands.call_many([("EXISTS", self._key_of(name)) for name in names])
        dead = [name for name, exists in zip(names, alive, strict=True) if not exists]
        times = await self._commands.call_many([("ZSCORE", self._key, name) for name in dead])
        known = [{"name": name, "since": since} for name, since in zip(dead, times, strict=True) if since is not None]
        if known:
            await self._commands.script("release", [self._key], seconds=self._patience, names=known)
