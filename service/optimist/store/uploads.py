"""Uploads of references in pieces: each is a hash that expires, and becomes the reference by one rename."""

from __future__ import annotations

from optimist.store import keys
from optimist.store.commands import Commands
from optimist.store.index import Index

KEPT_SECONDS = 24 * 3600
"""How long an upload is kept after its newest piece."""
_CREATION_SECONDS = 60
"""How long a place among the unfinished uploads is kept for one that is not begun."""
_CHUNK = "chunk:"


class Uploads:
    """The bodies of references on their way, chunk by chunk in any order; errors as in `Store`.

    An upload is named by its reference and by the digest of what it will hold, so that a client that was killed finds
    it again. Chunks are numbered from 0, and their order is that of the body.
    """

    def __init__(self, commands: Commands) -> None:
        self._commands = commands

    async def begin(self, name: str, digest: str, plan: str, owner: str, most: int) -> str:
        """Begin an upload, or go on with one that is there. Returns the plan that it was begun with.

        owner: the id of the access key that it counts for. Raises Full where that has `most` others unfinished.
        """
        standing = await self.plan(name, digest)
        if standing is None:
            await self._index(owner).reserve(self._full(name, digest), most)
            await self._commands.call("EXPIRE", keys.uploads_key(owner), 2 * KEPT_SECONDS)
        key = self._key(name, digest)
        begun = [("HSETNX", key, "plan", plan), ("EXPIRE", key, KEPT_SECONDS), ("HGET", key, "plan")]
        return (await self._commands.call_many(begun, transaction=True))[-1].decode()

    async def unfinished(self, owner: str) -> list[tuple[str, str]]:
        """Name and digest of each upload that counts for an access key, oldest first."""
        parts = [member.rpartition(":") for member in await self._index(owner).names()]
        return [(name, digest) for name, _, digest in parts]

    async def ended(self, name: str, digest: str, owner: str) -> None:
        """Let an upload that is completed or deleted count no more for the access key, if it did."""
        index, full = self._index(owner), self._full(name, digest)
        await index.remove(full, await index.since(full))

    async def plan(self, name: str, digest: str) -> str | None:
        """The plan of an upload; None if there is none, or it has expired."""
        plan = await self._commands.call("HGET", self._key(name, digest), "plan")
        return None if plan is None else plan.decode()

    async def put(self, name: str, digest: str, number: int, body: bytes) -> None:
        """Store a chunk; again, it changes nothing.

        Raises NotFound if there is no such upload, Conflict if the chunk is there with other bytes.
        """
        key = self._key(name, digest)
        await self._commands.script("put_piece", [key], field=f"{_CHUNK}{number}", body=body, seconds=KEPT_SECONDS)

    async def get(self, name: str, digest: str, number: int) -> bytes | None:
        """A chunk; None if it is not there."""
        return await self._commands.call("HGET", self._key(name, digest), f"{_CHUNK}{number}")

    async def numbers(self, name: str, digest: str) -> set[int]:
        """The chunks that are there."""
        fields = await self._commands.call("HKEYS", self._key(name, digest))
        texts = [field.decode() for field in fields]
        return {int(text.removeprefix(_CHUNK)) for text in texts if text.startswith(_CHUNK)}

    async def drop(self, name: str, digest: str) -> None:
        """Delete an upload."""
        await self._commands.call("UNLINK", self._key(name, digest))

    def _index(self, owner: str) -> Index:
        return Index(self._commands, keys.uploads_key(owner), _key_of, _CREATION_SECONDS)

    def _full(self, name: str, digest: str) -> str:
        return f"{self._commands.full(name)}:{digest}"

    def _key(self, name: str, digest: str) -> str:
        return keys.upload_key(self._commands.full(name), digest)


def _key_of(full: str) -> str:
    name, _, digest = full.rpartition(":")
    return keys.upload_key(name, digest)
