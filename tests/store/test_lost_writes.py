"""A Redis that has lost its last writes, as after a failover or a start from an older file: nothing is mixed up."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
from redis.asyncio import Redis

from optimist.records import (
    AskGroup,
    Contents,
    ExperimentState,
    Gone,
    LogGap,
    PickBatch,
    Refused,
    Settled,
    Superseded,
    chained,
)
from optimist.store import Store, kernels_digest
from tests.support.exchanges import claimed, new_pick, open_picks, opening_for, put_modes, settle

Back = Callable[[], Awaitable[None]]


@pytest.fixture(autouse=True)
async def experiment(store: Store) -> None:
    await store.create_experiment("x", "{}", ["a", "b"], growth=0.0, labels=[""])


async def remembered(redis: Redis) -> Back:
    """A function that takes Redis back to what it holds now."""
    kept = {key: await redis.dump(key) for key in await redis.keys("optimist:{x}:*")}

    async def back() -> None:
        for key in await redis.keys("optimist:{x}:*"):
            await redis.unlink(key)
        for key, dump in kept.items():
            await redis.restore(key, 0, dump)

    return back


async def opened(store: Store, generator: int, nonce: str, least: int = 1, most: int = 0) -> int:
    stored = await store.state("x")
    group = AskGroup(f"ask {nonce}", [new_pick(generator, "{}", nonce=nonce, min_rows=least, max_rows=most, key="k")])
    done = await open_picks(store, "x", stored.rounds, [group], 60.0, last=stored.last)
    assert done is not None
    [[number]] = done.numbers.values()
    return number


async def test_a_pick_number_that_is_given_again_takes_no_batch_of_the_pick_that_was_lost(store: Store, redis: Redis):
    back = await remembered(redis)
    first = await opened(store, 0, "aa")
    await back()
    with pytest.raises(Gone, match="lost"):
        await settle(store, "x", first, "of a", 5, b"body", nonce="aa")
    second = await opened(store, 1, "bb")
    assert second == first
    with pytest.raises(Gone, match="lost"):
        await settle(store, "x", first, "of a", 5, b"body", nonce="aa")
    with pytest.raises(Gone, match="lost"):
        await store.give_up("x", first, "tired", nonce="aa")
    settled = await settle(store, "x", second, "of b", 5, b"body", nonce="bb")
    assert (settled.generator, settled.samples) == (1, 5)


@pytest.mark.parametrize("ended", ["told", "told another batch", "given up"])
async def test_the_end_of_a_pick_is_not_taken_for_that_of_another_one_of_its_number(
    store: Store, redis: Redis, ended: str
):
    """Equal digests show nothing: that of a batch of a single 0 or 1 is usually equal to another's."""
    back = await remembered(redis)
    lost = await opened(store, 0, "aa")
    await back()
    number = await opened(store, 0, "bb")
    assert number == lost
    if ended == "given up":
        await store.give_up("x", number, "tired", nonce="bb")
    else:
        await settle(store, "x", number, "same" if ended == "told" else "other", 1, b"body", nonce="bb")
    before = await store.state("x")
    for nonce in ("aa", ""):
        with pytest.raises(Gone, match="Redis has lost it"):
            await settle(store, "x", number, "same", 1, b"body", nonce=nonce)
    with pytest.raises(Gone, match="Redis has lost it"):
        await store.give_up("x", number, "tired", nonce="aa")
    with pytest.raises(Gone, match="Redis has lost it"):
        await store.put_previews("x", number, [], 2, instance=before.instance, nonce="aa")
    assert await store.state("x") == before


@pytest.mark.parametrize(("least", "most", "rows", "taken"), [(1, 5, 6, False), (1, 5, 1, True), (5, 5, 4, False)])
async def test_a_batch_has_as_many_rows_as_its_pick_asks_for(
    store: Store, least: int, most: int, rows: int, taken: bool
):
    number = await opened(store, 0, "aa", least, most)
    call = settle(store, "x", number, "digest", rows, b"body", nonce="aa")
    if taken:
        assert (await call).rows == rows
        return
    with pytest.raises(Refused, match=f"expected .* {most} rows for pick {number}, got {rows}|expected {most} rows"):
        await call
    assert (await store.state("x")).told == 0


async def test_what_is_known_of_lost_writes_opens_no_picks(store: Store, redis: Redis):
    first, second = await opened(store, 0, "aa"), await opened(store, 1, "bb")
    back = await remembered(redis)
    known: ExperimentState = await store.state("x")
    await settle(store, "x", first, "one", 5, b"body", nonce="aa")
    predicted = await store.state("x")
    await back()
    # As many batches, picks and versions as before: another batch.
    await settle(store, "x", second, "other", 5, b"body", nonce="bb")
    now = await store.state("x")
    assert (now.rounds, now.told, now.version) == (predicted.rounds, predicted.told, predicted.version)
    group = AskGroup("next", [new_pick(0, "{}", nonce="cc")])
    assert (await store.exchange("x", [], opening_for(predicted, [group]))).opened is None
    assert (await store.exchange("x", [], opening_for(known, [group]))).opened is None
    done = await store.exchange("x", [], opening_for(now, [group]))
    assert done.opened is not None


async def test_picks_are_not_opened_by_a_state_of_picks_that_are_lost(store: Store, redis: Redis):
    back = await remembered(redis)
    await opened(store, 0, "aa")
    stored = await store.state("x")
    await back()
    await opened(store, 1, "bb")
    group = AskGroup("next", [new_pick(0, "{}", nonce="cc")])
    assert await open_picks(store, "x", stored.rounds, [group], 60.0, last=stored.last) is None


async def test_the_log_is_chained_and_a_reader_notices_that_its_end_was_lost(store: Store, redis: Redis):
    chain = ""
    for number in range(3):
        await store.append("x", 0, f"key {number}", Contents(f"digest {number}", 5, b"body"))
        chain = chained(chain, f"digest {number}")
    back = await remembered(redis)
    await store.append("x", 0, "lost", Contents("lost", 5, b"body"))
    read = await store.read_log("x", 0, 0)
    assert read[2].chain == chain
    assert await store.read_log("x", 0, 3, chain=chain) == read[3:]
    await back()
    with pytest.raises(LogGap):
        await store.read_log("x", 0, 4, chain=read[3].chain)
    for word in ("true", "true too"):
        await store.append("x", 0, word, Contents(word, 5, b"body"))
        with pytest.raises(LogGap):
            await store.read_log("x", 0, 4, chain=read[3].chain)
    assert [entry.digest for entry in await store.read_log("x", 0, 3, chain=chain)] == ["true", "true too"]


@pytest.mark.parametrize("made", ["estimate", "snapshot", "modes", "kernels", "quarantine"])
async def test_nothing_made_of_lost_batches_is_stored(store: Store, redis: Redis, made: str):
    back = await remembered(redis)
    await store.append("x", 0, "lost", Contents("lost", 5, b"body"))
    [lost] = await store.read_log("x", 0, 0)
    await back()
    await store.append("x", 0, "true", Contents("true", 5, b"body"))
    await store.append("x", 0, "next", Contents("next", 5, b"body"))
    token = await claimed(store, "x", 0)

    async def put(chain: str) -> object:
        match made:
            case "estimate":
                return await store.put_estimate("x", 0, 1, "{}", token, chain=chain, label="")
            case "snapshot":
                return await store.put_snapshot("x", 0, 1, b"statistic", token, chain=chain, label="")
            case "modes":
                return await put_modes(store, "x", 0, 1, "{}", token, chain=chain)
            case "kernels":
                entry = (await store.read_log("x", 0, 0))[0] if chain != lost.chain else lost
                return await store.put_fitted("x", 0, b"sigma", token, {0: entry}, label="")
            case _:
                return await store.quarantine("x", 0, 1, "torn", token, chain=chain, label="")

    with pytest.raises(Superseded, match="lost"):
        await put(lost.chain)
    await put(chained("", "true"))


async def test_nothing_made_with_kernels_that_were_lost_is_stored(store: Store, redis: Redis):
    await store.append("x", 0, "key", Contents("digest", 5, b"body"))
    claim = await claimed(store, "x", 0)
    await store.put_fitted("x", 0, b"true", claim, label="")
    with pytest.raises(Superseded, match="lost"):
        await store.put_estimate("x", 0, 1, "{}", claim, kernels=kernels_digest(b"lost"), label="")
    assert await store.put_estimate("x", 0, 1, "{}", claim, kernels=kernels_digest(b"true"), label="")


async def test_a_claim_that_was_lost_is_not_taken_for_one_of_the_same_number(store: Store, redis: Redis):
    back = await remembered(redis)
    first = await store.claim("x", 0, "one scorer", 60.0, label="")
    await back()
    second = await store.claim("x", 0, "another scorer", 60.0, label="")
    assert first is not None
    assert second is not None
    assert first.instance == second.instance
    with pytest.raises(Superseded):
        await store.put_estimate("x", 0, 1, "{}", first.token, label="")
    assert await store.put_estimate("x", 0, 1, "{}", second.token, label="")


async def test_no_decision_by_estimates_that_were_lost(store: Store):
    stored = await store.state("x")
    claim = await claimed(store, "x", 0)
    await store.put_estimate("x", 0, 1, "{}", claim, label="")
    assert not await store.latch_decision("x", "a is best", stored.basis_digest)
    stored = await store.state("x")
    assert stored.decision is None
    assert await store.latch_decision("x", "a is best", stored.basis_digest)


async def test_batches_of_one_exchange_are_settled_each_by_its_own_nonce(store: Store):
    first, second = await opened(store, 0, "aa"), await opened(store, 1, "bb")
    stored = await store.state("x")
    assert [(pick.number, pick.nonce, pick.key) for pick in stored.open_picks] == [
        (first, "aa", "k"),
        (second, "bb", "k"),
    ]
    batches = [PickBatch(first, "bb", Contents("one", 5, b"")), PickBatch(second, "bb", Contents("two", 5, b""))]
    wrong, settled = (await store.exchange("x", batches)).settled
    assert isinstance(wrong, Gone)
    assert isinstance(settled, Settled)
    assert settled.generator == 1
