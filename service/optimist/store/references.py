"""References: moments or features of real data, immutable, stored in chunks. One on its way is a hash that expires,
and becomes the reference by one rename.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager

from optimist.records import Conflict, CorruptData
from optimist.store import keys
from optimist.store.index import Index, Indexed
from optimist.store.scripts import Commands

CHUNK_BYTES = 2**20
"""Size of a chunk in bytes. Redis serves no other client while it receives a chunk and syncs its file; between two
chunks other clients get equal time."""
_UPLOAD_SECONDS = 3600
"""Seconds for which pieces of a reference wait for the rest."""


@asynccontextmanager
async def giving_way() -> AsyncGenerator[None]:
    """Write a chunk; others then have Redis for as long as that took."""
    begun = time.monotonic()
    yield
    await asyncio.sleep(time.monotonic() - begun)


class References:
    """Named, immutable bodies of any size, each with a description in JSON; errors as in `Store`."""

    def __init__(self, commands: Commands) -> None:
        self._commands = commands
        # An upload cannot take longer than its temporary key lives.
        self._index = Index(commands, keys.REFERENCES, keys.reference_key, 2 * _UPLOAD_SECONDS)

    async def reserve(self, name: str, max_references: int) -> None:
        """Reserve a place for a new reference among the `max_references` of its namespace, as `Index.reserve` does.

        Raises Full where there is none.
        """
        if await self.meta(name) is None:
            await self._index.reserve(self._commands.full(name), max_references)

    async def put(self, name: str, meta: str, body: bytes) -> bool:
        """Store a reference as `put_parts` does."""
        return await self.put_parts(
            name, meta, (body[start : start + CHUNK_BYTES] for start in range(0, len(body), CHUNK_BYTES))
        )

    async def put_parts(self, name: str, meta: str, parts: Iterable[bytes]) -> bool:
        """Store a reference; False if it exists already with the same body (the first `meta` is kept).

        parts: the body, of at most `CHUNK_BYTES` each, which are made in threads. They are written to a temporary key
        that expires. One rename makes it the reference, so that a partial reference is never visible. Raises Conflict
        if another body has this name.
        """
        upload, sha, number = keys.upload_key(self._commands.full(name), uuid.uuid4().hex), hashlib.sha256(), 0
        # In one transaction: an upload without an expiry would stay for ever if this process died in between.
        begun = [("HSET", upload, "meta", meta), ("EXPIRE", upload, _UPLOAD_SECONDS)]
        await self._commands.call_many(begun, transaction=True)
        hashed = _hashed(parts, sha.update)
        while part := await asyncio.to_thread(next, hashed, b""):
            async with giving_way():
                await self._commands.call("HSET", upload, f"chunk:{number}", part)
            number += 1
        await self._commands.call("HSET", upload, "digest", sha.hexdigest(), "chunks", number)
        kept = await self._commands.script("keep_reference", [self._key(name), upload], digest=sha.hexdigest())
        # Its place in the index may have been swept while the body was on its way.
        await self._index.add(self._commands.full(name))
        return bool(kept[0])

    async def get(self, name: str) -> tuple[str, bytes] | None:
        """Description and body of a reference, None if there is none. Raises CorruptData if the digest does not
        match."""
        key = self._key(name)
        meta, digest, chunks = await self._commands.call("HMGET", key, "meta", "digest", "chunks")
        if meta is None:
            return None
        # One by one: Redis serves no other client while it sends a large answer.
        fields = [f"chunk:{number}" for number in range(int(chunks))]
        body = b"".join([await self._commands.call("HGET", key, field) or b"" for field in fields])
        if await _digest(body) != digest.decode():
            raise CorruptData(f"reference {name!r} does not match its digest: upload it under another name")
        return meta.decode(), body

    async def digest(self, name: str) -> str | None:
        """SHA-256 (hex) of a reference's body, whatever its name; None if there is no such reference."""
        return await self._commands.text("HGET", self._key(name), "digest")

    async def is_there(self, name: str) -> bool:
        """True if a reference has this name."""
        return await self.meta(name) is not None

    async def meta(self, name: str) -> str | None:
        """Description of a reference, None if there is none."""
        return await self._commands.text("HGET", self._key(name), "meta")

    async def newest(self, after: Indexed | None = None) -> list[Indexed]:
        """Names of all references, newest first, each with its time, or the names after a given entry.

        Some may still be in transit.
        """
        return await self._index.newest(after)

    async def metas(self, names: Sequence[str]) -> list[str | None]:
        """Description of each of these references; None where there is none."""
        metas = await self._commands.call_many([("HGET", self._key(name), "meta") for name in names])
        return [None if meta is None else meta.decode() for meta in metas]

    async def staying(self, names: Sequence[str]) -> list[str | None]:
        """The `metas` of references; Conflict for a reference that somebody is deleting.

        For an experiment whose name is reserved already: `delete` then sees that it is in creation.
        """
        leaving = [keys.leaving_key(self._commands.full(name)) for name in names]
        for name, is_leaving in zip(
            names, await self._commands.call_many([("EXISTS", key) for key in leaving]), strict=True
        ):
            if is_leaving:
                raise Conflict(f"reference {name!r} is being deleted")
        return await self.metas(names)

    async def delete(self, name: str, user: Callable[[], Awaitable[str | None]]) -> bool:
        """Remove a reference; False if there was none. Raises Conflict with the text of `user`, unless it is None.

        user: why the reference must stay. It is called when no further experiment can begin to use the reference, and
        must name experiments in creation, too: their names are reserved before they check that it is `staying`. So
        deletion and creation at the same time see each other.
        """
        full, token = self._commands.full(name), uuid.uuid4().hex
        leaving, since = keys.leaving_key(full), await self._index.since(full)
        # Until then no experiment is created with it.
        await self._commands.script("leave_reference", [leaving], token=token, seconds=60)
        reason: str | None = ""
        try:
            reason = await user()
        finally:
            (existed,) = await self._commands.script(
                "end_leaving", [self._key(name), leaving], token=token, deletes=int(reason is None)
            )
        if reason is not None:
            raise Conflict(reason)
        await self._index.remove(full, since)
        return bool(existed)

    def _key(self, name: str) -> str:
        return keys.reference_key(self._commands.full(name))


def _hashed(parts: Iterable[bytes], update: Callable[[bytes], None]) -> Iterator[bytes]:
    for part in parts:
        update(part)
        yield part


async def _digest(body: bytes) -> str:
    digest = await asyncio.to_thread(hashlib.sha256, body)
    return digest.hexdigest()
