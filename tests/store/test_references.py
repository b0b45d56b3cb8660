import asyncio
import hashlib
import os
from collections.abc import Awaitable, Callable

import pytest
from redis.asyncio import Redis

from optimist.records import Conflict, CorruptData
from optimist.store import Store
from optimist.store.references import CHUNK_BYTES
from tests.support.present import references

META = '{"dimension": 64}'


@pytest.mark.parametrize("size", [0, 1, CHUNK_BYTES, 2 * CHUNK_BYTES + 1])
async def test_a_reference_of_any_size_comes_back_whole(store: Store, redis: Redis, size: int):
    body = os.urandom(size)
    assert await store.references.put("real", META, body)
    assert await store.references.get("real") == (META, body)
    assert await store.references.meta("real") == META
    assert await store.references.digest("real") == hashlib.sha256(body).hexdigest()
    assert await store.references.digest("unreal") is None
    assert await references(store) == {"real": META}
    assert set(await redis.keys("*")) == {b"optimist:reference:real", b"optimist:references"}
    assert await redis.ttl("optimist:reference:real") == -1


async def test_a_reference_is_immutable(store: Store, redis: Redis):
    assert await store.references.put("real", META, b"moments")
    assert not await store.references.put("real", META, b"moments")
    with pytest.raises(Conflict):
        await store.references.put("real", META, b"others")
    assert await store.references.get("real") == (META, b"moments")
    assert len(await redis.keys("*")) == 2, "no upload is left over"


async def test_of_parallel_uploads_one_is_kept(store: Store):
    bodies = [b"one", b"two"] * 4
    results = await asyncio.gather(
        *(store.references.put("real", META, body) for body in bodies), return_exceptions=True
    )
    assert results.count(True) == 1
    kept = bodies[results.index(True)]
    assert await store.references.get("real") == (META, kept)
    assert all(
        result in (True, False) if body == kept else isinstance(result, Conflict)
        for body, result in zip(bodies, results, strict=True)
    )


async def test_an_upload_cut_short_is_not_seen_and_expires(store: Store, redis: Redis, monkeypatch: pytest.MonkeyPatch):
    async def die(*_: object, **__: object) -> None:
        raise asyncio.CancelledError

    with monkeypatch.context() as patch:
        patch.setattr(store.references._commands, "script", die)
        with pytest.raises(asyncio.CancelledError):
            await store.references.put("real", META, b"moments")
    assert await store.references.get("real") is None
    assert await references(store) == {}
    (left,) = await redis.keys("*")
    assert 0 < await redis.ttl(left) <= 3600
    assert await store.references.put("real", META, b"moments")


async def test_damage_is_named(store: Store, redis: Redis):
    await store.references.put("real", META, b"moments")
    await redis.hset("optimist:reference:real", "chunk:0", b"momentz")
    with pytest.raises(CorruptData):
        await store.references.get("real")


def said(reason: str | None) -> Callable[[], Awaitable[str | None]]:
    async def user() -> str | None:
        return reason

    return user


async def test_a_reference_is_deleted_unless_it_is_used(store: Store, redis: Redis):
    for name in ("real", "other"):
        await store.references.put(name, META, b"moments")
    with pytest.raises(Conflict, match="x uses it"):
        await store.references.delete("real", said("x uses it"))
    assert await store.references.staying(["real", "other"]) == [META, META], "it stays, and may be used"
    assert await store.references.delete("real", said(None))
    assert not await store.references.delete("real", said(None))
    assert await references(store) == {"other": META}
    assert set(await redis.keys("*")) == {b"optimist:reference:other", b"optimist:references"}
    assert await store.references.put("real", META, b"others"), "the name is free"


async def test_nothing_new_uses_a_reference_that_is_being_deleted(store: Store, redis: Redis):
    await store.references.put("real", META, b"moments")

    async def user() -> str | None:
        with pytest.raises(Conflict, match="'real' is being deleted"):
            await store.references.staying(["real"])
        with pytest.raises(Conflict, match="somebody else"):
            await store.references.delete("real", said(None))
        raise KeyError

    with pytest.raises(KeyError):
        await store.references.delete("real", user)
    assert await store.references.staying(["real"]) == [META], "who fails deletes nothing"

    async def slow() -> str | None:
        await redis.delete("{optimist:reference:real}:leaving")  # as if its time had run out
        return None

    with pytest.raises(Conflict, match="took too long"):
        await store.references.delete("real", slow)
    assert await store.references.get("real") == (META, b"moments")
