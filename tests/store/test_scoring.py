"""Claims, and what scorers keep under them: snapshots, trims, entries quarantined."""

import asyncio
import itertools
import os
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from redis.asyncio import Redis

from optimist.records import (
    Conflict,
    Contents,
    CorruptData,
    LogGap,
    NotFound,
    Quarantined,
    Snapshot,
    Superseded,
    Unavailable,
)
from optimist.store import Store
from optimist.store.logs import CHUNK_BYTES
from optimist.store.scores import QUARANTINE_LIMIT
from tests.support.exchanges import claimed, modes_of, new_pick, open_one, put_modes, settle


@pytest.fixture(autouse=True)
async def experiment(store: Store) -> None:
    await store.create_experiment("x", "{}", ["a", "b"], growth=0.0, labels=[""])


async def tell(store: Store, *bodies: bytes, record: str = "{}") -> None:
    for body in bodies:
        number = await open_one(store, "x", new_pick(0, record))
        await settle(store, "x", number or 0, "digest", 5, body)


async def token(store: Store, owner: str = "scorer", seconds: float = 60) -> str:
    return await claimed(store, "x", 0, owner, seconds)


def before_script(store: Store, monkeypatch: pytest.MonkeyPatch, name: str, act: Callable[[], Awaitable[Any]]) -> None:
    """Have something happen just before the next script of this name."""
    run, done = store._commands.experiment_script, []

    async def disturbed(script: str, *arguments: Any, **options: Any) -> object:
        if script == name and not done:
            done.append(True)
            await act()
        return await run(script, *arguments, **options)

    monkeypatch.setattr(store._commands, "experiment_script", disturbed)


async def test_several_claims_at_once_are_those_one_by_one(store: Store):
    first = await store.claim("x", 0, "scorer a", 60, label="")
    assert first is not None
    assert first.deadline > 1.7e9
    units = [(0, ""), (1, ""), (2, ""), (0, "none")]
    kept, made, *unknown = await store.claims("x", units, "scorer a", 120)
    assert (made is None, unknown) == (False, [None, None])
    assert kept is not None
    assert (kept.token, kept.deadline > first.deadline + 50) == (first.token, True)
    assert await store.claims("x", [(1, ""), (0, "")], "scorer b", 120) == [None, None]
    for call in (store.claims("gone", [(0, "")], "scorer a", 60), store.claim("x", 2, "scorer a", 60, label="")):
        with pytest.raises(NotFound):
            await call
    with pytest.raises(ValueError):
        await store.claim("x", 0, "", 60, label="")


async def test_a_claim_that_ran_out_is_good_until_somebody_takes_over(store: Store):
    """Then nothing can be written under it, nor under that of another metric."""
    await store.delete_experiment("x")
    await store.create_experiment("x", "{}", ["a"], growth=0.0, labels=["", "kid"])
    await tell(store, b"body")
    mine = await token(store, "a", seconds=0.01)
    await asyncio.sleep(0.03)
    assert await store.put_estimate("x", 0, 1, "{}", mine, label="")
    assert await token(store, "a", seconds=0.01) == mine
    await asyncio.sleep(0.03)
    other, by_kid = await token(store, "b"), await claimed(store, "x", 0, "b", label="kid")
    assert other != mine
    before = await store.state("x", all_metrics=True)
    for wrong, label in ((mine, ""), ("", ""), (by_kid, ""), (other, "kid")):
        for call in (
            store.put_estimate("x", 0, 2, "{}", wrong, label=label),
            store.put_fitted("x", 0, b"sigma", wrong, label=label),
            put_modes(store, "x", 0, 2, "{}", wrong, label=label),
            store.put_scoring_error("x", 0, "scratched", wrong, label=label),
            store.quarantine("x", 0, 1, "torn", wrong, label=label),
            store.put_snapshot("x", 0, 1, b"statistic", wrong, label=label),
        ):
            with pytest.raises(Superseded):
                await call
        kept = store.fitted("x", label), modes_of(store, "x", 0, label), store.snapshot("x", 0, label)
        assert await asyncio.gather(*kept) == [None] * 3
    assert await store.state("x", all_metrics=True) == before


@pytest.mark.parametrize("size", [0, 1, 2 * CHUNK_BYTES + 1])
async def test_a_snapshot_of_any_size_comes_back_and_trims_the_log(store: Store, redis: Redis, size: int):
    await tell(store, bytes(10), bytes(20), bytes(30))
    assert (await store.state("x")).generators[0].primary.log_bytes == 60
    body, mine = os.urandom(size), await token(store)
    assert await store.snapshot("x", 0, label="") is None
    with pytest.raises(Conflict, match="does not reach"):
        await store.put_snapshot("x", 0, 4, body, mine, label="")
    assert await store.put_snapshot("x", 0, 2, memoryview(body), mine, label="")
    assert await store.snapshot("x", 0, label="") == Snapshot(2, body)
    with pytest.raises(LogGap):
        await store.read_log("x", 0, 1)
    assert [e.seq for e in await store.read_log("x", 0, 2)] == [3]
    state = (await store.state("x")).generators[0]
    assert (state.seq, state.primary.snapshot_seq, state.primary.log_bytes) == (3, 2, 30)
    assert not await store.put_snapshot("x", 0, 2, b"as new", mine, label="")
    assert not await store.put_snapshot("x", 0, 1, b"older", mine, label="")
    assert await store.put_snapshot("x", 0, 3, b"newer", mine, label="")
    assert await store.snapshot("x", 0, label="") == Snapshot(3, b"newer")
    assert len(await redis.keys("optimist:{x}:snapshot:*")) == 1, "none of an older one, or of one that was refused"
    assert await redis.keys("optimist:{x}:uploads") == []
    assert await redis.ttl((await redis.keys("optimist:{x}:snapshot:*"))[0]) == -1
    assert await store.read_log("x", 0, 3) == []
    await tell(store, bytes(5))
    assert [e.seq for e in await store.read_log("x", 0, 3)] == [4]
    assert (await store.state("x")).generators[0].primary.log_bytes == 5


async def test_a_log_that_is_kept_is_not_trimmed_and_has_the_records(store: Store):
    await store.delete_experiment("x")
    await store.create_experiment("x", "{}", ["a"], growth=0.0, keep_log=True, labels=[""])
    await tell(store, b"one", b"two", record='{"seed": "\\t1"}')
    await store.append("x", 0, "key", Contents("digest", 5, b"three"))
    assert await store.put_snapshot("x", 0, 2, b"statistic", await token(store), label="")
    assert [(e.seq, e.pick, e.record) for e in await store.read_log("x", 0, 0)] == [
        (1, 1, '{"seed": "\\t1"}'),
        (2, 2, '{"seed": "\\t1"}'),
        (3, 0, ""),
    ]
    assert (await store.state("x")).generators[0].primary.log_bytes == 5


async def test_a_takeover_during_the_upload_leaves_all_as_it_was(
    store: Store, redis: Redis, monkeypatch: pytest.MonkeyPatch
):
    await tell(store, b"body")
    mine = await token(store, "a")
    theirs: list[str] = []

    async def take_over() -> None:
        await store.end_claim("x", 0, mine, label="")
        theirs.append(await token(store, "b"))

    before_script(store, monkeypatch, "flip_snapshot", take_over)
    with pytest.raises(Superseded):
        await store.put_snapshot("x", 0, 1, b"statistic", mine, label="")
    assert await store.snapshot("x", 0, label="") is None
    assert len(await store.read_log("x", 0, 0)) == 1
    (left,) = await redis.keys("optimist:{x}:snapshot:*")
    assert 0 < await redis.ttl(left) <= 600, "expires by itself"
    assert await store.put_snapshot("x", 0, 1, b"theirs", theirs[0], label="")
    (stands,) = await redis.keys("optimist:{x}:snapshot:*")
    assert stands != left, "or when the next upload begins"


async def test_of_two_uploads_at_once_the_later_one_stands(store: Store, monkeypatch: pytest.MonkeyPatch):
    await tell(store, b"body")
    mine = await token(store)
    before_script(store, monkeypatch, "put_chunk", lambda: store.put_snapshot("x", 0, 1, b"later", mine, label=""))
    with pytest.raises(Superseded, match="another upload"):
        await store.put_snapshot("x", 0, 1, b"earlier", mine, label="")
    assert await store.snapshot("x", 0, label="") == Snapshot(1, b"later")


async def test_chunks_that_expired_or_arrived_otherwise_become_no_snapshot(
    store: Store, redis: Redis, monkeypatch: pytest.MonkeyPatch
):
    await tell(store, b"body")
    mine = await token(store)
    run = store._commands.experiment_script

    async def expire() -> None:
        await redis.delete(*await redis.keys("optimist:{x}:snapshot:*"))

    with monkeypatch.context() as patch:
        before_script(store, patch, "flip_snapshot", expire)
        with pytest.raises(NotFound, match="expired"):
            await store.put_snapshot("x", 0, 1, b"statistic", mine, label="")

    async def garble(name: str, *arguments: Any, **options: Any) -> object:
        if name == "put_chunk":
            options["bytes"] = b"statistik"
        return await run(name, *arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(store._commands, "experiment_script", garble)
        with pytest.raises(Unavailable, match="whole"):
            await store.put_snapshot("x", 0, 1, b"statistic", mine, label="")
    assert await store.snapshot("x", 0, label="") is None
    assert await store.put_snapshot("x", 0, 1, b"statistic", mine, label="")


async def test_a_snapshot_that_does_not_check_out_is_damaged(store: Store, redis: Redis):
    await tell(store, b"one", b"two")
    mine = await token(store)
    await store.put_snapshot("x", 0, 1, b"statistic", mine, label="")
    (chunk,) = await redis.keys("optimist:{x}:snapshot:*")
    await redis.set(chunk, b"statistik")
    with pytest.raises(CorruptData):
        await store.snapshot("x", 0, label="")
    await redis.delete(chunk)
    with pytest.raises(CorruptData):
        await store.snapshot("x", 0, label="")
    await store.put_snapshot("x", 0, 2, b"anew", mine, label="")
    assert await store.snapshot("x", 0, label="") == Snapshot(2, b"anew")


async def test_a_snapshot_replaced_while_it_is_read_is_read_again(store: Store, monkeypatch: pytest.MonkeyPatch):
    await tell(store, b"one", b"two")
    mine = await token(store)
    await store.put_snapshot("x", 0, 1, b"older", mine, label="")
    call, flipped = store._commands.call, []

    async def flip(*command: str | int) -> object:
        if command[0] == "GET" and not flipped:
            flipped.append(await store.put_snapshot("x", 0, 2, b"newer", mine, label=""))
        return await call(*command)

    monkeypatch.setattr(store._commands, "call", flip)
    assert await store.snapshot("x", 0, label="") == Snapshot(2, b"newer")


async def test_quarantined_batches_are_named_counted_once_and_bounded(store: Store, redis: Redis):
    """Whichever metrics cannot read them."""
    await store.delete_experiment("x")
    await store.create_experiment("x", "{}", ["a"], growth=0.0, labels=["", "kid", "fid-dino"])
    await tell(store, b"one", b"two", b"three", b"four")
    # The second time after a takeover, from the snapshot on.
    for label, seqs in (("kid", [1, 2]), ("", [1, 2, 4]), ("fid-dino", [1, 2, 4]), ("kid", [2, 4])):
        mine = await claimed(store, "x", 0, label=label)
        for seq in seqs:
            await store.quarantine("x", 0, seq, f"torn for {label}", mine, label=label)
    state = (await store.state("x")).generators[0]
    named = [Quarantined(1, "torn for kid"), Quarantined(2, "torn for kid"), Quarantined(4, "torn for ")]
    assert (state.quarantined, state.quarantined_count) == (named, 3)
    assert [e.body for e in await store.read_log("x", 0, 0)] == [b"one", b"two", b"three", b"four"]
    mine = await token(store)
    for seq in range(5, QUARANTINE_LIMIT + 10):
        await store.quarantine("x", 0, seq, "torn", mine, label="")
    state = (await store.state("x")).generators[0]
    assert (len(state.quarantined), state.quarantined_count) == (QUARANTINE_LIMIT, QUARANTINE_LIMIT + 8)
    assert await redis.hlen("optimist:{x}:quarantined") == QUARANTINE_LIMIT


async def test_charts_keep_an_estimate_whenever_the_log_has_grown_by_a_32nd(store: Store):
    mine = await token(store)
    for seq in range(1, 161):
        await store.append("x", 0, f"key {seq}", Contents("digest", 1, b"body"))
        for _ in range(2):  # as redis-py does after a lost reply
            await store.put_estimate("x", 0, seq, f"{{}} {seq}", mine, point=f"[{seq}, 0.5]", label="")
    await store.put_estimate("x", 0, 161, "{}", mine, label="")
    kept, of_others = await store.curves("x", [0, 0], label="")
    assert of_others == []
    assert [point.seq for point in kept[:34]] == [*range(1, 34), 35]
    for earlier, later in itertools.pairwise(kept):
        assert later.seq - 1 < earlier.seq * 33 / 32 <= later.seq or later.seq == earlier.seq + 1
    assert len(kept) < 90
    assert all(point.told == point.seq and point.point == f"[{point.seq}, 0.5]" for point in kept)
    assert await store.curves("x", [len(kept) - 1, 0], label="") == [kept[-1:], []]
