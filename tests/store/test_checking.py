"""What batches are checked by as they are accepted: values of absurd size, and copies; and the levels that are kept of
them, with batches that were accepted on another scale."""

from __future__ import annotations

import asyncio
import itertools
import math
import random
import time
from dataclasses import replace

import pytest
from redis.asyncio import Redis

from optimist.anomalies.levels import EXTREMES, KEPT, Level, keep
from optimist.records import (
    AskGroup,
    Conflict,
    Contents,
    Copy,
    KeptLevel,
    Measures,
    NotFound,
    Origin,
    Refused,
    Retracted,
    Settled,
    Size,
    Slice,
)
from optimist.store import Store
from tests.support.exchanges import new_pick, open_picks, settle

contents = (f"{number * 2654435761 % 2**64:016x}" for number in itertools.count(1))
PIXELS = round(math.log(255.0), 4)
keys = (f"key {number}" for number in itertools.count())


@pytest.fixture(autouse=True)
async def experiment(store: Store) -> None:
    await store.create_experiment("x", "{}", ["a", "b", "c"], growth=0.04, labels=[""])


def sized(largest: float, scale: float = 1.0, *, reference: float | None = None, limit: float = 1e6) -> Measures:
    """Of samples like no others."""
    return Measures(next(contents), limit=limit, sizes=[Size("features", largest, 3, scale**2, reference)])


def measured(*levels: float | None) -> Measures:
    """By the levels of its arrays; None where one has none."""
    sizes = [Size(f"array {place}", 1.0, 0, 1.0, None, level) for place, level in enumerate(levels)]
    return Measures(next(contents), sizes=sizes)


async def append(store: Store, generator: int, measures: Measures, rows: int = 10) -> Settled:
    key = next(keys)
    return await store.append("x", generator, key, Contents(key, rows, b"body", measures=measures))


async def told(store: Store, generator: int, prompts: str, measures: Measures) -> Settled:
    """A batch for a pick of these prompts."""
    stored = await store.state("x")
    rounds, part = stored.rounds, Slice(stored.generators[generator].handed, 2, prompts=prompts.split(","))
    group = AskGroup(next(keys), [replace(new_pick(generator), part=part)])
    assert await open_picks(store, "x", rounds, [group], lease_seconds=60)
    return await settle(store, "x", rounds + 1, next(keys), 2, b"body", measures=measures)


async def kept(store: Store, generator: int, array: int = 0) -> list[Level]:
    (found,) = await store.levels("x", [generator])
    return [Level(one.position, one.origin.rows, one.value) for one in found if one.array == array]


def oddity(settled: Settled) -> tuple[int, int]:
    """What is odd about a batch: its position, and the one it repeats."""
    assert settled.copy is not None
    return settled.copy.seq, settled.copy.copy_of


async def test_nothing_is_checked_before_a_scale_is_known(store: Store):
    await append(store, 0, sized(1e29), rows=19)
    await append(store, 0, sized(1e30), rows=19)
    # By the first batch that reaches 20 rows it is.
    with pytest.raises(Refused, match=r"features: row 3 .* 1e\+30.*1 generator.*max_magnitude"):
        await append(store, 0, sized(1e30))
    stored = await store.state("x")
    assert (stored.generators[0].samples, stored.told) == (38, 2)


async def test_a_reference_is_a_scale_from_the_start(store: Store):
    with pytest.raises(Refused, match="lower median of the reference"):
        await append(store, 0, sized(1e7, 1e7, reference=2.0))
    assert (await append(store, 0, sized(1e7, 1e7, reference=2.0, limit=1e8))).seq == 1


async def test_of_two_generators_the_larger_one_is_odd_whichever_came_first(store: Store):
    await append(store, 1, sized(1e29, 1e29), rows=30)
    await append(store, 0, sized(2.0), rows=30)
    with pytest.raises(Refused, match="of 2 generators"):
        await append(store, 1, sized(1e29, 1e29))
    assert (await append(store, 0, sized(3.0))).copy is None


async def test_a_large_batch_counts_and_does_not_make_what_is_usual(store: Store):
    await append(store, 0, sized(2.0), rows=40)
    for power in (5, 5, 5):
        await append(store, 0, sized(10.0**power, 10.0**power), rows=100)
    with pytest.raises(Refused):
        await append(store, 0, sized(1e7))
    assert (await store.state("x")).generators[0].samples == 340


async def test_a_repeat_gets_its_answer_though_it_would_be_refused_by_now(store: Store):
    measures = Measures("0" * 16, limit=1e6, refuse_copies=True, sizes=[Size("features", 1e29, 0, 1e58)])
    first = await store.append("x", 1, "key", Contents("digest", 30, b"body", measures=measures))
    await append(store, 0, sized(1.0), rows=30)
    again = await store.append("x", 1, "key", Contents("digest", 30, b"body", measures=measures))
    assert (again.seq, again.duplicate, again.copy) == (first.seq, True, None)


async def test_copies_are_named_in_their_generator_and_counted_between_two(store: Store):
    measures = Measures("ab" * 8)
    first = await append(store, 0, measures)
    copy = await append(store, 0, measures)
    assert (first.copy, oddity(copy)) == (None, (2, 1))
    assert (await append(store, 1, measures)).copy is None
    assert (await append(store, 0, Measures("ab" * 7 + "ac"))).copy is None, "another digest that begins alike"
    a, b, _ = (await store.state("x")).generators
    assert (a.copies, a.named_copies, a.duplicates, b.copies, b.duplicates) == (1, [copy.copy], {1: 1}, 0, {})
    with pytest.raises(Refused, match="position 1"):
        await append(store, 0, Measures("ab" * 8, refuse_copies=True))
    assert (await store.state("x")).told == 4


async def test_equal_answers_to_equal_prompts_are_lawful(store: Store):
    measures = Measures("ab" * 8, prompts="cafecafe")
    await told(store, 0, '"why?","[how]"', measures)
    assert (await told(store, 0, '"why?","[how]"', Measures("ab" * 8, prompts="deadbeef"))).copy is None
    assert (await told(store, 1, '"why?","[how]"', measures)).copy is None
    # Without a pick their embeddings say which prompts they are of.
    assert (await append(store, 0, measures)).copy is None
    assert oddity(await append(store, 0, Measures("ab" * 8, prompts="beefbeef"))) == (4, 1)
    assert oddity(await told(store, 0, '"where?","[how]"', measures)) == (5, 1)
    assert (await store.state("x")).generators[0].duplicates == {}
    await told(store, 2, '"where?","[how]"', measures)
    assert (await store.state("x")).generators[0].duplicates == {2: 1}


async def test_only_the_newest_contents_are_remembered(store: Store, redis: Redis):
    await append(store, 0, Measures("ab" * 8))
    await redis.hset("optimist:{x}:counts", "0:seq", "65536")  # type: ignore[misc]
    assert (await append(store, 0, Measures("ab" * 8))).copy is None
    assert oddity(await append(store, 0, Measures("ab" * 8))) == (65538, 65537)
    assert len(await redis.hget("optimist:{x}:checks", "#abab")) < 30  # type: ignore[misc]


async def test_an_odd_batch_is_one_copy_with_its_origin_however_often_it_is_sent(store: Store):
    measures = Measures("ab" * 8)
    await append(store, 0, measures)
    group = AskGroup(next(keys), [new_pick(0, "{}", worker='a "b"')])
    assert await open_picks(store, "x", 0, [group], lease_seconds=60)
    before = time.time()
    first = await settle(store, "x", 1, "digest", 7, b"body", measures=measures)
    for _ in range(2):
        again = await settle(store, "x", 1, "digest", 7, b"body", measures=measures)
        assert (again.duplicate, again.copy) == (True, None)
    appended = await append(store, 0, measures, rows=3)
    state = (await store.state("x")).generators[0]
    assert state.named_copies == [first.copy, appended.copy]
    origins = [copy.origin for copy in state.named_copies]
    assert [(origin.pick, origin.rows, origin.worker) for origin in origins] == [(1, 7, 'a "b"'), (0, 3, "")]
    assert all(before - 1 < origin.told < time.time() + 1 for origin in origins)
    assert state.copies == 2


def test_a_copy_is_read_as_it_was_stored():
    known = Copy(6, Origin(12, 5, 1763823999.25), 1)
    assert Copy.from_stored(6, known.stored) == known


async def test_copies_are_counted_and_the_first_that_count_are_named(store: Store):
    await append(store, 0, Measures("ab" * 8), rows=1)
    await asyncio.gather(*(append(store, 0, Measures("ab" * 8), rows=1) for _ in range(258)))
    state = (await store.state("x")).generators[0]
    before = state.named_copies
    assert (state.copies, [copy.seq for copy in before]) == (258, list(range(2, 258)))
    await store.retract("x", generator=0, position=7)
    state = (await store.state("x")).generators[0]
    assert (state.copies, state.named_copies) == (257, before), "it stays listed while there is room"
    odd = await append(store, 0, Measures("ab" * 8))
    named = (await store.state("x")).generators[0].named_copies
    assert odd.copy in named
    assert (len(named), [one.seq for one in before if one not in named]) == (256, [7])
    unlisted = await append(store, 0, Measures("ab" * 8))
    assert unlisted.copy not in (await store.state("x")).generators[0].named_copies


async def test_batches_without_terms_leave_nothing(store: Store, redis: Redis):
    await store.append("x", 0, "key", Contents("digest", 30, b"body"))
    assert not await redis.exists("optimist:{x}:checks", "optimist:{x}:named_copies")


@pytest.mark.parametrize("value", [0.0, -12.3456, 4999.9999])
def test_a_level_is_read_as_it_was_stored(value: float):
    known = KeptLevel(3, 7, Origin(12, 5, 1763823999.25), value)
    assert KeptLevel.from_member(*known.stored) == known


async def test_levels_are_kept_by_array_with_the_origin_of_their_batch(store: Store):
    group = AskGroup(next(keys), [new_pick(1, "{}")])
    assert await open_picks(store, "x", 0, [group], lease_seconds=60)
    await settle(store, "x", 1, next(keys), 2, b"body", measures=measured(0.25, None, -3.5))
    await append(store, 1, measured(None, None, 0.5), rows=9)
    nothing, found = await store.levels("x", [0, 1])
    assert nothing == []
    assert [(one.array, one.position, one.value) for one in found] == [(0, 1, 0.25), (2, 1, -3.5), (2, 2, 0.5)]
    assert [(one.origin.pick, one.origin.rows) for one in found] == [(1, 2), (1, 2), (0, 9)]


async def test_what_might_be_anomalous_is_worth_a_look(store: Store):
    assert [(await append(store, 0, measured(level))).doubtful for level in (0.0, 0.1, 0.2, PIXELS, 0.3)] == [
        *(True, True, False, True, False)
    ]
    assert not (await append(store, 1, measured(None))).doubtful


async def test_the_store_keeps_what_an_evaluation_in_memory_keeps(store: Store):
    rng = random.Random(1)
    expected: tuple[list[Level], list[Level]] = [], []
    for position in range(1, KEPT + 120):
        levels = [round(rng.gauss(0.0, 1.0), 4), round(rng.gauss(5.0, 1.0), 4)]
        for array, level in enumerate(levels):
            keep(expected[array], Level(position, 10, level))
        await append(store, 0, measured(*levels))
    for array in (0, 1):
        found = await kept(store, 0, array)
        assert [one.value for one in found] == [one.value for one in expected[array]]
        assert found[:EXTREMES] == expected[array][:EXTREMES]


async def test_a_retraction_takes_levels_along_and_a_deletion_everything(store: Store, redis: Redis):
    for level in (0.1, 0.2, 0.3):
        await append(store, 0, measured(level, 1.0))
    await append(store, 1, measured(0.4))
    await store.retract("x", generator=0, position=2)
    assert [one.position for one in await kept(store, 0)] == [1, 3]
    assert [one.position for one in await kept(store, 0, 1)] == [1, 3]
    await store.retract("x", generator=0)
    assert await kept(store, 0) == []
    assert len(await kept(store, 1)) == 1
    await store.delete_experiment("x")
    assert await redis.keys("*") == []


async def test_a_batch_is_accepted_once_and_on_record(store: Store):
    await append(store, 0, measured(0.0))
    await append(store, 0, measured(PIXELS))
    first, already = await store.accept_batch("x", generator=0, position=2, who="key", reason="they are right")
    assert (first.position, first.until, first.who, first.reason, already) == (2, 2, "key", "they are right", False)
    again, already = await store.accept_batch("x", generator=0, position=2, who="other")
    assert (again, already) == (first, True)
    generator = (await store.state("x")).generators[0]
    assert (generator.acceptances, generator.accepted, generator.accepted_until) == ([first], {2}, 0)
    whole, already = await store.accept_batch("x", generator=0)
    assert (whole.position, whole.until, already) == (0, 2, False)
    assert await store.accept_batch("x", generator=0) == (whole, True)
    await append(store, 0, measured(PIXELS))
    newer, already = await store.accept_batch("x", generator=0)
    assert (newer.until, already) == (3, False)
    assert (await store.state("x")).generators[0].accepted_until == 3


async def test_a_batch_is_accepted_by_its_pick(store: Store):
    group = AskGroup(next(keys), [new_pick(1, "{}")])
    assert await open_picks(store, "x", 0, [group], lease_seconds=60)
    with pytest.raises(Conflict, match="no batch yet"):
        await store.accept_batch("x", pick=1)
    await settle(store, "x", 1, next(keys), 2, b"body", measures=measured(0.25))
    found, _ = await store.accept_batch("x", pick=1)
    assert (found.generator, found.position) == (1, 1)
    with pytest.raises(NotFound):
        await store.accept_batch("x", pick=2)


async def test_what_is_no_batch_or_does_not_count_cannot_be_accepted(store: Store):
    with pytest.raises(NotFound, match="has no batches"):
        await store.accept_batch("x", generator=0)
    for level in (0.0, PIXELS):
        await append(store, 0, measured(level))
    await store.retract("x", generator=0, position=2)
    for position in (0, 4):
        with pytest.raises(NotFound, match=f"no batch at position {position}"):
            await store.accept_batch("x", generator=0, position=position)
    with pytest.raises(NotFound, match=r"position 3 .* is a retraction"):
        await store.accept_batch("x", generator=0, position=3)
    with pytest.raises(Retracted, match="position 2"):
        await store.accept_batch("x", generator=0, position=2)
    with pytest.raises(NotFound):
        await store.accept_batch("x", generator=7, position=1)


async def test_a_generator_that_starts_anew_is_no_longer_accepted(store: Store):
    await append(store, 0, measured(PIXELS))
    await store.accept_batch("x", generator=0)
    await store.retract("x", generator=0)
    assert (await store.state("x")).generators[0].accepted_until == 0
    await append(store, 0, measured(PIXELS))
    found, already = await store.accept_batch("x", generator=0)
    assert (found.until, already) == (3, False)
