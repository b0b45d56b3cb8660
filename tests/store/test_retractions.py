"""Retractions in the store: what counts afterwards, what is refused, and that claims are made anew."""

import asyncio
from typing import Any

import pytest
from redis.asyncio import Redis

from optimist.records import (
    AskGroup,
    Conflict,
    Contents,
    ExperimentState,
    Measures,
    NotFound,
    NotRetractable,
    Retracted,
    Size,
    chained,
)
from optimist.store import Store
from tests.support.exchanges import claimed, new_pick, open_one, open_picks, settle

ROWS = 5


@pytest.fixture(autouse=True)
async def experiment(store: Store) -> None:
    await store.create_experiment("x", "{}", ["a", "b"], growth=0.5, labels=[""])


async def tell(store: Store, generator: int) -> int:
    """One pick, opened and told; its number."""
    number = await open_one(store, "x", new_pick(generator))
    assert number is not None
    await settle(store, "x", number, "digest body", ROWS, b"body")
    return number


async def first(store: Store) -> tuple[int, int, int, int, int, int]:
    """Of the first generator: samples, batches, position, due samples and position, retracted samples."""
    g = (await store.state("x")).generators[0]
    return g.samples, g.batches, g.seq, g.due_samples, g.due_seq, g.retracted


async def test_a_batch_is_retracted_by_its_pick_and_the_retraction_is_an_entry_of_the_log(store: Store):
    for _ in range(3):
        await tell(store, 0)
    record, already = await store.retract("x", pick=2, who="key", reason='"wrong"\n checkpoint é')
    assert record is not None
    assert not already
    assert (record.generator, record.position, record.pick, record.samples, record.seq) == (0, 2, 2, ROWS, 4)
    assert (record.who, record.reason, record.told) == ("key", '"wrong"\n checkpoint é', 3)
    assert await first(store) == (2 * ROWS, 2, 4, 2 * ROWS, 4, ROWS)
    state = await store.state("x")
    assert (state.told, state.counted, state.generators[0].retractions) == (3, 2, [record])
    *_, last, entry = await store.read_log("x", 0, 0)
    assert (entry.seq, entry.rows, entry.pick, entry.body) == (4, 0, 0, b"")
    assert entry.is_retraction
    assert entry.chain == chained(last.chain, entry.digest)
    retracted = await store.retracted_log("x", 0)
    assert (retracted.newest, retracted.is_as_read(entry)) == (4, True)
    assert [one.seq for one in await store.read_log("x", 0, 0) if one in retracted] == [2]
    with pytest.raises(Retracted, match="retracted since"):
        await settle(store, "x", 2, "digest body", ROWS, b"body")
    assert issubclass(Retracted, Conflict)
    await tell(store, 0)
    assert (await first(store))[:3] == (3 * ROWS, 3, 5)


async def test_a_repeat_changes_nothing(store: Store):
    await tell(store, 0)
    await tell(store, 0)
    record, _ = await store.retract("x", pick=1, reason="first")
    before = (await store.state("x")).state_token
    repeats: list[dict[str, Any]] = [{"pick": 1}, {"generator": 0, "position": 1}]
    for again in repeats:
        assert await store.retract("x", reason="another", **again) == (record, True)
    assert (await store.state("x")).state_token == before
    with pytest.raises(NotFound, match="is a retraction"):
        await store.retract("x", generator=0, position=3)
    whole, already = await store.retract("x", generator=0)
    assert whole is not None
    assert not already
    assert await store.retract("x", generator=0) == (whole, True)
    assert await store.retract("x", generator=0, position=2) == (whole, True)
    assert await store.retract("x", generator=1) == (None, True)


@pytest.mark.parametrize(
    ("what", "error", "text"),
    [
        ({"pick": 9}, NotFound, "never made"),
        ({"pick": 2}, NotRetractable, "no batch yet"),
        ({"pick": 3}, NotRetractable, "given up"),
        ({"generator": 7}, NotFound, "no such generator"),
        ({"generator": 0, "position": 2}, NotFound, "no batch at position 2"),
        ({"generator": 0, "position": 0}, NotFound, "no batch at position 0"),
    ],
)
async def test_what_cannot_be_retracted(store: Store, what: dict[str, Any], error: type[Exception], text: str):
    await tell(store, 0)
    await open_picks(store, "x", 1, [AskGroup("r", [new_pick(0, "{}"), new_pick(0, "{}")])], 60)
    await store.give_up("x", 3, "")
    before = await store.state("x")
    with pytest.raises(error, match=text):
        await store.retract("x", **what)
    assert await store.state("x") == before


async def token(store: Store, generator: int = 0, owner: str = "me", seconds: float = 60) -> str:
    return await claimed(store, "x", generator, owner, seconds)


async def snapshot_at(store: Store, seq: int) -> None:
    assert await store.put_snapshot("x", 0, seq, b"statistic", await token(store), label="")


async def test_only_the_whole_generator_can_be_retracted_once_its_log_is_trimmed(store: Store, redis: Redis):
    for _ in range(4):
        await tell(store, 0)
    await snapshot_at(store, 3)
    with pytest.raises(NotRetractable, match="from position 4 on, and all batches of the generator"):
        await store.retract("x", pick=2)
    await store.retract("x", pick=4)
    assert (await store.snapshot("x", 0, label="")) is not None, "it does not hold the batch"
    await store.retract("x", generator=0)
    assert await first(store) == (0, 0, 6, 0, 0, 4 * ROWS)
    assert await store.snapshot("x", 0, label="") is None
    assert await redis.xlen("optimist:{x}:log:0") == 1
    assert (await store.retracted_log("x", 0)).restart == 6
    assert [entry.seq for entry in await store.read_log("x", 0, 5)] == [6]
    assert (await store.state("x")).generators[0].primary.log_bytes == 0
    await tell(store, 0)
    assert await first(store) == (ROWS, 1, 7, ROWS, 7, 4 * ROWS)


async def decided(store: Store) -> ExperimentState:
    for generator in (0, 1):
        seq = (await store.state("x")).generators[generator].seq
        await store.put_estimate("x", generator, seq, "{}", await token(store, generator), label="")
    state = await store.state("x")
    assert await store.latch_decision("x", "the answer", state.basis_digest)
    return state


async def test_a_decision_that_rested_on_it_is_dropped(store: Store):
    for generator in (0, 0, 1):
        await tell(store, generator)
    await decided(store)
    late = await store.append("x", 0, "late", Contents("late", ROWS, b"late"))
    record, _ = await store.retract("x", generator=0, position=late.seq)
    assert record is not None
    assert not record.reopened
    assert (await store.state("x")).decision == "the answer"
    record, _ = await store.retract("x", pick=3)
    assert record is not None
    assert record.reopened
    assert (await store.state("x")).decision is None


def measures(content: str, size: float = 1.0) -> Measures:
    return Measures(content * 8, refuse_copies=True, sizes=[Size("features", size, 0, size**2)])


async def test_its_digest_leaves_the_copy_check_and_its_size_the_usual_sizes(store: Store):
    async def append(generator: int, key: str, content: str, size: float = 1.0, rows: int = 30) -> None:
        await store.append("x", generator, key, Contents(key, rows, b"", measures=measures(content, size)))

    await append(1, "absurd", "bb", 1e30)
    await append(0, "normal", "aa")
    await append(1, "normal too", "cc")
    await store.retract("x", generator=1, position=1)
    await append(1, "the same again", "bb")
    assert (await store.state("x")).generators[1].copies == 0
    sizes = await store.usual_sizes("x", 2)
    assert float(sizes["1"].split()[2]) == 1.0
    await store.retract("x", generator=1)
    await append(1, "and again", "cc")
    assert (await store.state("x")).generators[1].copies == 0


async def test_the_record_of_a_lost_reply_is_the_first(store: Store):
    """redis-py sends a script again; only one retraction comes of it."""
    await tell(store, 0)
    answers = await asyncio.gather(*(store.retract("x", pick=1) for _ in range(5)))
    assert [already for _, already in sorted(answers, key=lambda answer: answer[1])] == [False] + [True] * 4
    assert len({record for record, _ in answers}) == 1
    with pytest.raises(NotFound):
        await store.retract("x", pick=1, instance="another")


@pytest.mark.parametrize("is_kept", [False, True])
async def test_the_first_batches_of_a_generator_are_retracted_and_the_later_ones_count(store: Store, is_kept: bool):
    await store.delete_experiment("x")
    await store.create_experiment("x", "{}", ["a", "b"], growth=0.5, keep_log=is_kept, labels=[""])
    for _ in range(5):
        await tell(store, 0)
    await store.retract("x", pick=4)
    record, already = await store.retract("x", generator=0, until=2, who="key", reason="changed")
    assert record is not None
    assert not already
    assert (record.position, record.until, record.samples, record.batches, record.seq) == (0, 2, 2 * ROWS, 2, 7)
    assert await first(store) == (2 * ROWS, 2, 7, 2 * ROWS, 7, 3 * ROWS)
    assert (await store.state("x")).generators[0].restart == 2
    retracted = await store.retracted_log("x", 0)
    entries = await store.read_log("x", 0, 1)
    assert [one.seq for one in entries if one not in retracted] == [3, 5, 6]
    assert all(retracted.is_as_read(entry) for entry in entries)
    for until in (1, 2):
        assert await store.retract("x", generator=0, until=until) == (record, True)
    assert (await store.retract("x", generator=0, position=1))[0] == record
    await tell(store, 0)
    assert (await first(store))[:3] == (3 * ROWS, 3, 8)
    later, _ = await store.retract("x", generator=0, until=5)
    assert later is not None
    assert (later.until, later.samples, await first(store)) == (5, 2 * ROWS, (ROWS, 1, 9, ROWS, 9, 5 * ROWS))
    whole, _ = await store.retract("x", generator=0, until=9)
    assert whole is not None
    assert (whole.until, whole.seq, (await first(store))[:2]) == (10, 10, (0, 0))


async def test_what_follows_first_batches_must_be_in_the_log(store: Store):
    for _ in range(4):
        await tell(store, 0)
    await snapshot_at(store, 3)
    with pytest.raises(NotRetractable, match="everything up to position 4 or a later one"):
        await store.retract("x", generator=0, until=2)
    with pytest.raises(NotFound, match="no batch at position 9"):
        await store.retract("x", generator=0, until=9)
    for wrong in ({"pick": 1}, {"generator": 0, "position": 1}):
        with pytest.raises(ValueError, match="until"):
            await store.retract("x", **wrong, until=1)
    assert (await first(store))[:3] == (4 * ROWS, 4, 4)
    assert (await store.retract("x", generator=0, until=4))[0] is not None
