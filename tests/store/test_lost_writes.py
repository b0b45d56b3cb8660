"""A Redis that has lost its last writes, as after a failover or a start from an older file: nothing is mixed up."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
from redis.asyncio import Redis

from optimist.records import (
    AskGroup,
    Batch,
    Contents,
    ExperimentState,
    Gone,
    LogGap,
    Refused,
    Settled,
    Superseded,
    chained,
)
from optimist.store import Store, kernels_digest
from tests.support.exchanges import claimed, new_pick, open_picks, opening_for, put_modes, settle

Back = Callable[[], Awaitable[None]]


@pytest.fixture
async def experiment(store: Store) -> Store:
    await store.create_experiment("x", "{}", ["a", "b"], growth=0.0, labels=[""])
    return store


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
    group = AskGroup(f"ask {nonce}", [new_pick(generator, "{}", nonce=nonce, least=least, most=most, key="k")])
    done = await open_picks(store, "x", stored.rounds, [group], 60.0, last=stored.last)
    assert done is not None
    [[number]] = done.numbers.values()
    return number


async def test_a_pick_number_that_is_given_again_takes_no_batch_of_the_pick_that_was_lost(store: Store, redis: Redis):
    await store.create_experiment("x", "{}", ["a", "b"], growth=0.0, labels=[""])
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
    experiment: Store, redis: Redis, ended: str
):
    """Equal digests show nothing: that of a batch of a single 0 or 1 is usually equal to another's."""
    back = await remembered(redis)
    lost = await opened(experiment, 0, "aa")
    await back()
    number = await opened(experiment, 0, "bb")
    assert number == lost
    if ended == "given up":
        await experiment.give_up("x", number, "tired", nonce="bb")
    else:
        await settle(experiment, "x", number, "same" if ended == "told" else "other", 1, b"body", nonce="bb")
    before = await experiment.state("x")
    for nonce in ("aa", ""):
        with pytest.raises(Gone, match="lost the pick"):
            await settle(experiment, "x", number, "same", 1, b"body", nonce=nonce)
    with pytest.raises(Gone, match="lost the pick"):
        await experiment.give_up("x", number, "tired", nonce="aa")
    with pytest.raises(Gone, match="lost the pick"):
        await experiment.put_previews("x", number, [], 2, instance=before.instance, nonce="aa")
    assert await experiment.state("x") == before


async def test_a_repeat_of_a_pick_gets_its_first_answer(experiment: Store):
    number = await opened(experiment, 0, "aa")
    told = await settle(experiment, "x", number, "digest", 5, b"body", nonce="aa")
    again = await settle(experiment, "x", number, "digest", 5, b"body", nonce="aa")
    assert (again.seq, again.duplicate) == (told.seq, True)
    given_up = await opened(experiment, 0, "bb")
    for nonce in ("bb", "bb", ""):
        await experiment.give_up("x", given_up, "tired", nonce=nonce)


async def test_a_tell_brings_the_nonce_of_its_pick(experiment: Store):
    number = await opened(experiment, 0, "aa")
    for nonce in ("", "bb"):
        with pytest.raises(Gone, match="lost the pick"):
            await settle(experiment, "x", number, "digest", 5, b"body", nonce=nonce)
    stored = await experiment.state("x")
    assert [(pick.number, pick.nonce, pick.key) for pick in stored.open_picks] == [(number, "aa", "k")]


@pytest.mark.parametrize(("least", "most", "rows", "taken"), [(1, 5, 6, False), (1, 5, 1, True), (5, 5, 4, False)])
async def test_a_batch_has_as_many_rows_as_its_pick_asks_for(experiment: Store, least, most, rows, taken):
    number = await opened(experiment, 0, "aa", least, most)
    call = settle(experiment, "x", number, "digest", rows, b"body", nonce="aa")
    if taken:
        assert (await call).rows == rows
        return
    with pytest.raises(Refused, match=f"expected .* {most} rows for pick {number}, got {rows}|expected {most} rows"):
        await call
    assert (await experiment.state("x")).told == 0


async def test_what_is_known_of_lost_writes_opens_no_picks(experiment: Store, redis: Redis):
    first, second = await opened(experiment, 0, "aa"), await opened(experiment, 1, "bb")
    back = await remembered(redis)
    known: ExperimentState = await experiment.state("x")
    await settle(experiment, "x", first, "one", 5, b"body", nonce="aa")
    predicted = await experiment.state("x")
    await back()
    # As many batches, picks and versions as before: another batch.
    await settle(experiment, "x", second, "other", 5, b"body", nonce="bb")
    now = await experiment.state("x")
    assert (now.rounds, now.told, now.version) == (predicted.rounds, predicted.told, predicted.version)
    group = AskGroup("next", [new_pick(0, "{}", nonce="cc")])
    assert (await experiment.exchange("x", [], opening_for(predicted, [group]))).opened is None
    assert (await experiment.exchange("x", [], opening_for(known, [group]))).opened is None
    done = await experiment.exchange("x", [], opening_for(now, [group]))
    assert done.opened is not None


async def test_picks_are_not_opened_by_a_state_of_picks_that_are_lost(experiment: Store, redis: Redis):
    back = await remembered(redis)
    await opened(experiment, 0, "aa")
    stored = await experiment.state("x")
    await back()
    await opened(experiment, 1, "bb")
    group = AskGroup("next", [new_pick(0, "{}", nonce="cc")])
    assert await open_picks(experiment, "x", stored.rounds, [group], 60.0, last=stored.last) is None


async def test_the_log_is_chained_and_a_reader_notices_that_its_end_was_lost(experiment: Store, redis: Redis):
    chain = ""
    for number in range(3):
        await experiment.append("x", 0, f"key {number}", Contents(f"digest {number}", 5, b"body"))
        chain = chained(chain, f"digest {number}")
    back = await remembered(redis)
    await experiment.append("x", 0, "lost", Contents("lost", 5, b"body"))
    read = await experiment.read_log("x", 0, 0)
    assert read[2].chain == chain
    assert await experiment.read_log("x", 0, 3, chain=chain) == read[3:]
    await back()
    with pytest.raises(LogGap):
        await experiment.read_log("x", 0, 4, chain=read[3].chain)
    for word in ("true", "true too"):
        await experiment.append("x", 0, word, Contents(word, 5, b"body"))
        with pytest.raises(LogGap):
            await experiment.read_log("x", 0, 4, chain=read[3].chain)
    assert [entry.digest for entry in await experiment.read_log("x", 0, 3, chain=chain)] == ["true", "true too"]


@pytest.mark.parametrize("made", ["estimate", "snapshot", "modes", "kernels", "quarantine"])
async def test_nothing_made_of_lost_batches_is_stored(experiment: Store, redis: Redis, made: str):
    back = await remembered(redis)
    await experiment.append("x", 0, "lost", Contents("lost", 5, b"body"))
    [lost] = await experiment.read_log("x", 0, 0)
    await back()
    await experiment.append("x", 0, "true", Contents("true", 5, b"body"))
    await experiment.append("x", 0, "next", Contents("next", 5, b"body"))
    claim = await claimed(experiment, "x", 0)
    token = claim

    async def put(chain: str) -> object:
        match made:
            case "estimate":
                return await experiment.put_estimate("x", 0, 1, "{}", token, chain=chain, label="")
            case "snapshot":
                return await experiment.put_snapshot("x", 0, 1, b"statistic", token, chain=chain, label="")
            case "modes":
                return await put_modes(experiment, "x", 0, 1, "{}", token, chain=chain)
            case "kernels":
                entry = (await experiment.read_log("x", 0, 0))[0] if chain != lost.chain else lost
                return await experiment.put_fitted("x", 0, b"sigma", token, {0: entry}, label="")
            case _:
                return await experiment.quarantine("x", 0, 1, "torn", token, chain=chain, label="")

    with pytest.raises(Superseded, match="lost"):
        await put(lost.chain)
    await put(chained("", "true"))


async def test_nothing_made_with_kernels_that_were_lost_is_stored(experiment: Store, redis: Redis):
    await experiment.append("x", 0, "key", Contents("digest", 5, b"body"))
    claim = await claimed(experiment, "x", 0)
    await experiment.put_fitted("x", 0, b"true", claim, label="")
    with pytest.raises(Superseded, match="lost"):
        await experiment.put_estimate("x", 0, 1, "{}", claim, kernels=kernels_digest(b"lost"), label="")
    assert await experiment.put_estimate("x", 0, 1, "{}", claim, kernels=kernels_digest(b"true"), label="")


async def test_a_claim_that_was_lost_is_not_taken_for_one_of_the_same_number(experiment: Store, redis: Redis):
    back = await remembered(redis)
    first = await experiment.claim("x", 0, "one scorer", 60.0, label="")
    await back()
    second = await experiment.claim("x", 0, "another scorer", 60.0, label="")
    assert first is not None
    assert second is not None
    assert first.instance == second.instance
    with pytest.raises(Superseded):
        await experiment.put_estimate("x", 0, 1, "{}", first.token, label="")
    assert await experiment.put_estimate("x", 0, 1, "{}", second.token, label="")


async def test_no_decision_by_estimates_that_were_lost(experiment: Store):
    stored = await experiment.state("x")
    claim = await claimed(experiment, "x", 0)
    await experiment.put_estimate("x", 0, 1, "{}", claim, label="")
    assert not await experiment.latch_decision("x", "a is best", stored.basis_digest)
    stored = await experiment.state("x")
    assert stored.decision is None
    assert await experiment.latch_decision("x", "a is best", stored.basis_digest)


async def test_batches_of_one_exchange_are_settled_each_by_its_own_nonce(experiment: Store):
    first, second = await opened(experiment, 0, "aa"), await opened(experiment, 1, "bb")
    batches = [Batch(first, "bb", Contents("one", 5, b"")), Batch(second, "bb", Contents("two", 5, b""))]
    wrong, settled = (await experiment.exchange("x", batches)).settled
    assert isinstance(wrong, Gone)
    assert isinstance(settled, Settled)
    assert settled.generator == 1
