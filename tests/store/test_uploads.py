"""Uploads of references in pieces, as Redis keeps them."""

from __future__ import annotations

import asyncio
import hashlib

import pytest
from redis.asyncio import Redis

from optimist.records import Conflict, Full, NotFound
from optimist.store import Store
from optimist.store.references import KEPT_SECONDS
from tests.support.present import references

PIECES = [b"head", b"rows", b"rest"]
OWNER = "0123456789ab"
DIGEST = hashlib.sha256(b"".join(PIECES)).hexdigest()


async def send(store: Store, *numbers: int, upload: str = "u") -> None:
    assert await store.references.uploads.begin("real", upload, "plan", OWNER, 9) == "plan"
    for number in numbers:
        await store.references.uploads.put("real", upload, number, PIECES[number])


async def test_an_upload_becomes_the_reference(store: Store, redis: Redis):
    await send(store, 2, 0, 1)
    assert await store.references.meta("real") is None
    assert await references(store) == {}
    (key,) = await redis.keys("*:upload:*")
    assert 0 < await redis.ttl(key) <= KEPT_SECONDS
    assert await store.references.finish("real", "u", "{}", DIGEST, 3)
    assert await store.references.get("real") == ("{}", b"headrowsrest")
    assert set(await redis.keys("*")) == {
        b"optimist:reference:real",
        b"optimist:references",
        b"optimist:uploads:0123456789ab",
    }
    assert await redis.ttl("optimist:reference:real") == -1
    assert await redis.hget("optimist:reference:real", "plan") is None


async def test_an_upload_goes_on_where_it_stopped(store: Store):
    uploads = store.references.uploads
    await send(store, 0)
    assert await uploads.begin("real", "u", "another plan", OWNER, 9) == "plan"
    assert await uploads.numbers("real", "u") == {0}
    await send(store, 0, 1)
    assert await uploads.numbers("real", "u") == {0, 1}
    assert await uploads.get("real", "u", 1) == b"rows"
    assert await uploads.get("real", "u", 2) is None


async def test_a_piece_never_changes(store: Store):
    await send(store, 0, 1)
    with pytest.raises(Conflict):
        await store.references.uploads.put("real", "u", 1, b"swor")
    assert await store.references.uploads.get("real", "u", 1) == b"rows"


async def test_what_has_expired_is_not_begun_by_a_piece(store: Store, redis: Redis):
    with pytest.raises(NotFound):
        await store.references.uploads.put("real", "u", 0, b"head")
    await send(store, 0)
    await store.references.uploads.drop("real", "u")
    with pytest.raises(NotFound):
        await store.references.uploads.put("real", "u", 1, b"rows")
    assert await store.references.uploads.plan("real", "u") is None
    assert await redis.keys("*:upload:*") == []


async def test_of_two_uploads_the_first_is_kept(store: Store, redis: Redis):
    await send(store, 0, 1, 2)
    await send(store, 0, 1, 2, upload="v")
    other = hashlib.sha256(b"headrows").hexdigest()
    results = await asyncio.gather(
        store.references.finish("real", "u", "{}", DIGEST, 3),
        store.references.finish("real", "v", "{}", other, 2),
        return_exceptions=True,
    )
    assert sorted(type(result) for result in results if result is not True) == [Conflict]
    assert set(await redis.keys("*reference*")) == {b"optimist:reference:real", b"optimist:references"}, (
        "the other upload is deleted"
    )


async def test_the_same_twice_is_one(store: Store):
    await send(store, 0, 1, 2)
    assert await store.references.finish("real", "u", "first", DIGEST, 3)
    await send(store, 0, 1, 2)
    assert not await store.references.finish("real", "u", "second", DIGEST, 3)
    assert await store.references.meta("real") == "first"


async def test_the_unfinished_uploads_of_a_key_have_a_limit(store: Store, redis: Redis):
    uploads = store.references.uploads
    begun = [uploads.begin("real", f"{number}", "plan", OWNER, 3) for number in range(8)]
    answers = await asyncio.gather(*begun, return_exceptions=True)
    assert sorted(map(str, answers)).count("plan") == 3
    assert sum(isinstance(answer, Full) for answer in answers) == 5
    unfinished = await uploads.unfinished(OWNER)
    for name, digest in unfinished:
        assert await uploads.begin(name, digest, "plan", OWNER, 3) == "plan", "to go on with one takes no place"
    assert await uploads.begin("real", "other", "plan", "another key", 3) == "plan"
    await uploads.drop(*unfinished[0])
    await uploads.ended(*unfinished[0], OWNER)
    assert await uploads.begin("real", "next", "plan", OWNER, 3) == "plan"
    # One that has expired takes no place, either.
    _, (name, digest), *_ = unfinished
    await uploads.drop(name, digest)
    await redis.zadd(f"optimist:uploads:{OWNER}", {f"{name}:{digest}": 1.0})
    assert await uploads.begin("real", "last", "plan", OWNER, 3) == "plan"
