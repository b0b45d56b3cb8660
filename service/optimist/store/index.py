"""Indices of experiments and of references: existing names, and limits per namespace.

In a cluster an index is in one slot, and the objects that it names are in others. So a name is added to the index
before the object is created, and removed after the object is deleted. A crash in between leaves a name without an
object. Readers skip such a name. It is removed when another name needs its place, once it is too old to be in creation.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

from optimist.records import Full
from optimist.store.keys import DEFAULT_NAMESPACE, namespace_of
from optimist.store.scripts import Argument, Commands


class Indexed(NamedTuple):
    """A name of an index, and when it was added, in Unix seconds: its place in lists, whatever comes and goes."""

    time: float
    name: str


class Index:
    """Full names, each with the time at which it was added."""

    def __init__(self, commands: Commands, key: str, key_of: Callable[[str], str], patience: int = 60) -> None:
        """Make the index under `key`, which ends in the kind of its objects, such as "experiments".

        key_of: from a full name, the key that exists while the named thing does. patience: seconds that the creation of
        one may take.
        """
        self._commands = commands
        self._key = key
        self._key_of = key_of
        self._patience = patience

    async def reserve(self, full: str, limit: int) -> None:
        """Add a name that is about to be created, with the present time; idempotent.

        Raises Full where its namespace has `limit` other names. The limit is exact, also for simultaneous calls.
        """
        if not await self._reserved(full, limit):
            # Only now: names of things that are gone are looked for when their places are needed.
            await self.sweep()
            if not await self._reserved(full, limit):
                raise Full(f"expected at most {limit} {self._key.rpartition(':')[2]} in a namespace")

    async def add(self, full: str) -> None:
        """Add the name of an existing thing, unless the index has it."""
        await self._commands.call("ZADD", self._key, "NX", time.time(), full)

    async def names(self) -> list[str]:
        """The names as users know them, oldest first, including names without an object."""
        return self._commands.names(await self._commands.call("ZRANGE", self._key, 0, -1))

    async def newest(self, after: Indexed | None = None) -> list[Indexed]:
        """The names with their times, newest first, or the entries after `after`, which need not exist."""
        names = await self.names()
        if not names:
            return []
        times = await self._commands.call("ZMSCORE", self._key, *map(self._commands.full, names))
        entries = (Indexed(float(time), name) for name, time in zip(names, times, strict=True) if time is not None)
        return sorted((entry for entry in entries if after is None or entry < after), reverse=True)

    async def since(self, full: str) -> Argument | None:
        """Time at which a name was added, for `remove`."""
        return await self._commands.call("ZSCORE", self._key, full)

    async def remove(self, full: str, since: Argument | None) -> None:
        """Remove the name of a deleted thing, unless it was reserved again since."""
        if since is not None:
            await self._commands.script("remove_names", [self._key], seconds=0, names=[{"name": full, "since": since}])

    async def _reserved(self, full: str, limit: int) -> bool:
        namespace = namespace_of(full)
        prefix = "" if namespace == DEFAULT_NAMESPACE else f"{namespace}/"
        (has_place,) = await self._commands.script("reserve", [self._key], name=full, namespace=prefix, limit=limit)
        return bool(has_place)

    async def sweep(self) -> None:
        """Remove names without an object, except names whose object may be in creation."""
        names = [self._commands.full(name) for name in await self.names()]
        alive = await self._commands.call_many([("EXISTS", self._key_of(name)) for name in names])
        dead = [name for name, exists in zip(names, alive, strict=True) if not exists]
        times = await self._commands.call_many([("ZSCORE", self._key, name) for name in dead])
        dated = [{"name": name, "since": since} for name, since in zip(dead, times, strict=True) if since is not None]
        if dated:
            await self._commands.script("remove_names", [self._key], seconds=self._patience, names=dated)
