"""References: real-data moments or features, immutable, in chunks that any Redis takes."""

from __future__ import annotations

import asyncio
import hashlib
import time
import uuid

from redis.asyncio import Redis

from optimist.store import keys
from optimist.store.errors import Damaged, reaching_redis
from optimist.store.scripts import Scripts

CHUNK_BYTES = 16 * 2**20
"""Largest single value sent to Redis."""
_UPLOAD_SECONDS = 3600


class References:
    """Named, immutable bodies of any size with a JSON description each; errors as in `Store`."""

    def __init__(self, redis: Redis, scripts: Scripts) -> None:
        self._redis = redis
        self._scripts = scripts

    async def put(self, name: str, meta: str, body: bytes) -> bool:
        """Store a reference; False if it stands there already with the same body (its first `meta` stays).

        Chunks go to a temporary key that expires; it becomes the reference in one rename, so none is seen half.
        Raises Conflict if another body has this name.
        """
        digest = await _digest(body)
        upload = keys.upload_key(name, uuid.uuid4().hex)
        starts = range(0, len(body), CHUNK_BYTES)
        with reaching_redis():
            async with self._redis.pipeline(transaction=True) as pipeline:
                pipeline.hset(upload, mapping={"meta": meta, "digest": digest, "chunks": len(starts)})
                pipeline.expire(upload, _UPLOAD_SECONDS)
                await pipeline.execute()
            for number, start in enumerate(starts):
                await self._redis.hset(upload, f"chunk:{number}", body[start : start + CHUNK_BYTES])
        kept = await self._scripts.on_keys("keep_reference", [keys.reference_key(name), upload], digest)
        with reaching_redis():
            await self._redis.zadd(keys.REFERENCES, {name: time.time()}, nx=True)
        return bool(kept[0])

    async def get(self, name: str) -> tuple[str, bytes] | None:
        """Description and body of a reference, None if there is none. Raises Damaged if the body is not what was put."""
        key = keys.reference_key(name)
        with reaching_redis():
            meta, digest, chunks = await self._redis.hmget(key, ["meta", "digest", "chunks"])
            if meta is None:
                return None
            body = b"".join([await self._redis.hget(key, f"chunk:{number}") or b"" for number in range(int(chunks))])
        if await _digest(body) != digest.decode():
            raise Damaged(f"reference {name!r} does not match its digest: upload it under another name")
        return meta.decode(), body

    async def meta(self, name: str) -> str | None:
        """Description of a reference, None if there is none."""
        with reaching_redis():
            meta = await self._redis.hget(keys.reference_key(name), "meta")
        return None if meta is None else meta.decode()

    async def all(self) -> dict[str, str]:
        """Descriptions of all references by name, oldest first."""
        with reaching_redis():
            names = [member.decode() for member in await self._redis.zrange(keys.REFERENCES, 0, -1)]
        described = {name: await self.meta(name) for name in names}
        return {name: meta for name, meta in described.items() if meta is not None}


async def _digest(body: bytes) -> str:
    digest = await asyncio.to_thread(hashlib.sha256, body)
    return digest.hexdigest()
