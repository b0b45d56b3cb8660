"""Access keys as Redis holds them: records by id, opaque here."""

from __future__ import annotations

from optimist.store import keys
from optimist.store.commands import Commands


class AccessKeys:
    """The keys of every namespace, in one hash: a process that checks them reads it whole, now and then."""

    def __init__(self, commands: Commands) -> None:
        self._commands = commands

    async def put(self, id_: str, record: str) -> bool:
        """Store a new key; False if the id is taken."""
        return bool(await self._commands.call("HSETNX", keys.KEYS, id_, record))

    async def get(self, id_: str) -> str | None:
        """The record of one key, None if there is none."""
        record = await self._commands.call("HGET", keys.KEYS, id_)
        return None if record is None else record.decode()

    async def all(self) -> dict[str, str]:
        """Records by id."""
        found = await self._commands.call("HGETALL", keys.KEYS)
        # redis-py gives a dict for RESP's flat list.
        return {id_.decode(): record.decode() for id_, record in found.items()}

    async def remove(self, id_: str) -> bool:
        """Forget a key; False if there was none."""
        return bool(await self._commands.call("HDEL", keys.KEYS, id_))
