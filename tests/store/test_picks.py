import asyncio
import itertools
import struct

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from redis.asyncio import Redis

from optimist.records import AskGroup, Conflict, Contents, Gone, LogGap, NotFound
from optimist.store import EmbeddedRedis, Store, connect
from tests.support.exchanges import new_pick, open_picks, settle

asks = itertools.count()


@pytest.fixture(autouse=True)
async def experiment(store: Store) -> None:
    await store.create_experiment("x", "{}", ["a", "b", "c"], growth=0.04, labels=[""])


def ask(*generators: int, request_id: str | None = None) -> AskGroup:
    return AskGroup(request_id or f"ask {next(asks)}", [new_pick(g, f'{{"g": {g}, "tab": "\\t"}}') for g in generators])


async def open_one(store: Store, generator: int = 0, lease_seconds: float = 60) -> int:
    stored = await store.state("x")
    assert await open_picks(store, "x", stored.rounds, [ask(generator)], lease_seconds)
    return stored.rounds + 1


async def test_picks_are_numbered_in_order_and_seen(store: Store):
    opened = await open_picks(store, "x", 0, [ask(1, 2, request_id="é"), ask(0, request_id="s")], lease_seconds=60)
    assert opened is not None
    assert opened.numbers == {"é": [1, 2], "s": [3]}
    assert not opened.repeated
    stored = await store.state("x")
    assert stored.rounds == 3
    assert [(p.number, p.generator, p.request_id) for p in stored.open_picks] == [(1, 1, "é"), (2, 2, "é"), (3, 0, "s")]
    assert stored.open_picks[2].record == '{"g": 0, "tab": "\\t"}'
    assert stored.open_picks[0].deadline > 1.7e9


async def test_of_two_stores_one_opens(store: Store, server: EmbeddedRedis):
    async with connect(server.url) as other_redis:
        stores = [store, Store(other_redis)] * 4
        results = await asyncio.gather(*(open_picks(s, "x", 0, [ask(0)], lease_seconds=60) for s in stores))
    assert sum(result is not None for result in results) == 1
    assert (await store.state("x")).rounds == 1


async def test_a_repeated_ask_opens_nothing_and_gets_its_numbers(store: Store):
    first = await open_picks(store, "x", 0, [ask(0, 1, request_id="r")], lease_seconds=60)
    for rounds in (0, 2):
        again = await open_picks(store, "x", rounds, [ask(2), ask(0, 1, request_id="r")], lease_seconds=60)
        assert again is not None
        assert again.repeated
        assert first is not None
        assert again.numbers == first.numbers
    assert (await store.state("x")).rounds == 2
    await settle(store, "x", 1, "digest", 5, b"body")
    after = await open_picks(store, "x", 2, [ask(0, request_id="r")], lease_seconds=60)
    assert after is not None
    assert (after.repeated, after.numbers) == (False, {"r": [3]})


async def test_asks_that_cannot_be_recognised_or_are_empty_are_refused(store: Store):
    for groups in ([ask(0, request_id="r"), ask(1, request_id="r")], [ask(0, request_id="r\t")], [ask()]):
        with pytest.raises(ValueError):
            await open_picks(store, "x", 0, groups, lease_seconds=60)


async def test_parallel_tells_of_one_pick_count_once(store: Store):
    pick = await open_one(store, generator=1)
    answers = await asyncio.gather(*(settle(store, "x", pick, "digest", 5, b"body") for _ in range(10)))
    assert sorted(answer.duplicate for answer in answers) == [False] + [True] * 9
    assert {(a.pick, a.generator, a.rows, a.samples, a.batches, a.seq, a.late) for a in answers} == {
        (1, 1, 5, 5, 1, 1, False)
    }
    stored = await store.state("x")
    assert (stored.told, stored.open_picks) == (1, [])
    assert (stored.generators[1].samples, stored.generators[1].batches, stored.generators[1].seq) == (5, 1, 1)
    assert [(e.seq, e.pick, e.rows, e.digest, e.body) for e in await store.read_log("x", 1, 0)] == [
        (1, 1, 5, "digest", b"body")
    ]


async def test_refused_tells_change_nothing(store: Store):
    pick = await open_one(store)
    await settle(store, "x", pick, "digest", 5, b"body")
    before = await store.state("x")
    with pytest.raises(Conflict, match="another batch"):
        await settle(store, "x", pick, "other", 5, b"other")
    for number in (-1, 0, 2):
        with pytest.raises(Gone, match="was given, or Redis has lost it"):
            await settle(store, "x", number, "digest", 5, b"body")
    with pytest.raises(ValueError):
        await settle(store, "x", pick, "digest", 0, b"body")
    assert await store.state("x") == before


async def test_giving_up_is_idempotent_and_final(store: Store):
    pick = await open_one(store)
    for _ in range(2):
        await store.give_up("x", pick, "the generator crashed")
    assert (await store.state("x")).open_picks == []
    with pytest.raises(Conflict, match="given up: the generator crashed"):
        await settle(store, "x", pick, "digest", 5, b"body")
    told = await open_one(store)
    await settle(store, "x", told, "digest", 5, b"body")
    with pytest.raises(Conflict, match="told already"):
        await store.give_up("x", told, "too late")
    with pytest.raises(NotFound):
        await store.give_up("x", 99, "never made")


async def test_a_lease_that_ran_out_frees_the_pick_and_a_late_batch_counts(store: Store):
    request = ask(2)
    await open_picks(store, "x", 0, [request, ask(1)], lease_seconds=0.05)
    assert len((await store.state("x")).open_picks) == 2
    await asyncio.sleep(0.1)
    unseen = await settle(store, "x", 2, "digest", 5, b"body")
    assert unseen.late, "late by the clock, though nobody has read the state since"
    assert (await store.state("x")).open_picks == []
    again = await open_picks(store, "x", 2, [request], lease_seconds=60)
    assert again is not None
    assert again.numbers == {request.request_id: [3]}, "the freed pick is no longer the ask's"
    settled = await settle(store, "x", 1, "digest", 4, b"body")
    assert (settled.late, settled.duplicate, settled.samples) == (True, False, 4)
    assert (await settle(store, "x", 1, "digest", 4, b"body")).duplicate
    repeat = await open_picks(store, "x", 3, [request], lease_seconds=60)
    assert repeat is not None
    assert repeat.repeated, "the late batch did not touch the newer ask"


async def test_history_is_seven_bytes_a_batch(store: Store):
    await open_picks(store, "x", 0, [ask(2)], lease_seconds=0.001)
    await asyncio.sleep(0.01)
    await settle(store, "x", 1, "digest", 70_000, b"body")
    await settle(store, "x", await open_one(store, 1), "digest", 3, b"body")
    assert list(struct.iter_unpack("<HBI", await store.history("x"))) == [(2, 1, 70_000), (1, 0, 3)]
    assert await store.history("x", start=7) == struct.pack("<HBI", 1, 0, 3)
    assert await store.history("x", start=14) == b""


async def test_a_lease_is_renewed_unless_it_ran_out(store: Store):
    running, expired = await open_one(store), await open_one(store, lease_seconds=0.02)
    told = await open_one(store)
    await settle(store, "x", told, "digest", 5, b"body")
    await asyncio.sleep(0.05)
    before = (await store.state("x")).open_picks
    assert await store.renew_leases("x", [running, expired, told, 99], 600) == [running]
    after = (await store.state("x")).open_picks
    assert [p.number for p in after] == [running]
    assert after[0].deadline > before[0].deadline + 500
    assert await store.renew_leases("x", [running], 1) == [running]
    assert (await store.state("x")).open_picks == after, "a deadline never comes nearer"


async def test_a_batch_without_a_pick_counts_once(store: Store):
    await settle(store, "x", await open_one(store, 1), "digest", 5, b"body")
    answers = await asyncio.gather(*(store.append("x", 1, "key\n", Contents("digest", 3, b"mine")) for _ in range(5)))
    assert sorted(answer.duplicate for answer in answers) == [False] + [True] * 4
    assert {(a.pick, a.generator, a.rows, a.samples, a.batches, a.seq, a.late) for a in answers} == {
        (0, 1, 3, 8, 2, 2, False)
    }
    with pytest.raises(Conflict, match="another batch"):
        await store.append("x", 1, "key\n", Contents("other", 3, b"other"))
    with pytest.raises(NotFound):
        await store.append("x", 3, "key", Contents("digest", 3, b"body"))
    for key, digest, rows in (("", "digest", 3), ("key", "", 3), ("key", "digest", 0)):
        with pytest.raises(ValueError):
            await store.append("x", 1, key, Contents(digest, rows, b"body"))
    assert (await store.state("x")).told == 2
    assert [(e.seq, e.pick, e.body) for e in await store.read_log("x", 1, 1)] == [(2, 0, b"mine")]
    assert list(struct.iter_unpack("<HBI", await store.history("x"))) == [(1, 0, 5), (1, 2, 3)]


async def test_keys_of_batches_without_a_pick_are_remembered_within_limit_and_time(redis: Redis):
    store = Store(redis, settled_limit=4)
    for n in range(10):
        await store.append("x", 0, f"key {n}", Contents("digest", 3, b"body"))
    assert (await store.append("x", 0, "key 6", Contents("digest", 3, b"body"))).duplicate
    assert not (await store.append("x", 0, "key 5", Contents("digest", 3, b"body"))).duplicate
    for age, key in ((24 * 3600 + 60, "0\tkey 7"), (24 * 3600 - 60, "0\tkey 8")):
        await redis.zincrby("optimist:{x}:appended_at", -age, key)
    await store.append("x", 0, "key 10", Contents("digest", 3, b"body"))
    remembered = {key.decode() for key in await redis.hkeys("optimist:{x}:appended")}
    assert remembered == {f"0\tkey {n}" for n in (5, 8, 9, 10)}


async def test_the_log_is_read_in_pages_within_bounds(store: Store):
    for number in range(1, 24):
        await settle(store, "x", await open_one(store), f"d{number}", number, bytes(1000))
    entries = await store.read_log("x", 0, 0)
    assert [(e.seq, e.rows, e.digest) for e in entries] == [(n, n, f"d{n}") for n in range(1, 24)]
    assert [e.seq for e in await store.read_log("x", 0, 20)] == [21, 22, 23]
    assert await store.read_log("x", 0, 23) == []
    assert [e.seq for e in await store.read_log("x", 0, 3, max_entries=7)] == list(range(4, 11))
    assert [e.seq for e in await store.read_log("x", 0, 3, max_entries=1)] == [4]
    assert len(await store.read_log("x", 0, 0, max_bytes=10_500)) == 10
    assert len(await store.read_log("x", 0, 0, max_bytes=1)) == 4
    with pytest.raises(NotFound):
        await store.read_log("x", 3, 0)
    with pytest.raises(LogGap, match="ends at 23"):
        await store.read_log("x", 0, 24)


@pytest.mark.parametrize("missing", [[1], [3], [5], [1, 2, 3, 4, 5]])
async def test_a_gap_in_the_log_is_refused(store: Store, redis: Redis, missing: list[int]):
    for _ in range(5):
        await settle(store, "x", await open_one(store), "digest", 5, b"body")
    await redis.xdel("optimist:{x}:log:0", *(f"{seq}-0" for seq in missing))
    with pytest.raises(LogGap):
        await store.read_log("x", 0, 0)


async def test_what_a_pick_is_made_for_is_copied_into_the_log_once(store: Store, redis: Redis):
    """Contexts of picks that route prompts; pages of a log end where they are large, and an import has them."""
    first, second = b"\x00\tfirst\n\xff", b"second" * 300
    for contexts in ((first, *5 * [second], b""), (b"another", b"of", b"a repeat")):
        group = AskGroup("r", [new_pick(0, "{}", context=context) for context in contexts])
        assert await open_picks(store, "x", 0, [group], 60)
    kept = "optimist:{x}:contexts"
    assert await redis.hgetall(kept) == {b"1": first, **{b"%d" % number: second for number in range(2, 7)}}
    for number in (2, 2, 7, 1, 1, 3, 4, 5, 6):
        await settle(store, "x", number, f"{number}", 1, b"12345678")
    await store.append("x", 0, "key", Contents("digest", 1, b"12345678"))
    log = await store.read_log("x", 0, 0)
    assert [entry.context for entry in log] == [second, b"", first, *4 * [second], b""]
    known = await store.state("x")
    assert known.generators[0].primary.log_bytes == 8 * 8 + len(first) + 5 * len(second)
    assert await redis.exists(kept) == 0
    assert len(await store.read_log("x", 0, 3, max_bytes=2 * len(second))) == 4, "of five"
    async with store.restoring("y") as restoration:
        await restoration.add_entries(0, log, keep_log=False)
        await restoration.commit("{}", 0.04, known, await store.history("x"), {})
    assert await store.read_log("y", 0, 0) == log
    assert (await store.state("y")).generators[0].primary.log_bytes == known.generators[0].primary.log_bytes


@given(
    growth=st.one_of(st.just(0.0), st.floats(0, 1.5), st.sampled_from([0.04, 0.1, 1 / 3])),
    sizes=st.lists(st.integers(1, 40), min_size=1, max_size=25),
)
@example(growth=0.1, sizes=[50, 5, 1])  # (1 + 0.1) · 50 lies just above 55, 50 + 0.1 · 50 does not
def test_estimates_are_due_where_the_rule_says(server: EmbeddedRedis, growth: float, sizes: list[int]):
    async def positions() -> list[tuple[int, int]]:
        async with connect(server.url) as redis:
            await redis.flushall()
            store, seen = Store(redis), []
            await store.create_experiment("due", "{}", ["a"], growth, labels=[""])
            await open_picks(store, "due", 0, [ask(*[0] * len(sizes))], lease_seconds=60)
            for pick, rows in enumerate(sizes, start=1):
                await settle(store, "due", pick, "digest", rows, b"")
                state = (await store.state("due")).generators[0]
                seen.append((state.due_samples, state.due_seq))
            return seen

    expected, samples, last = [], 0, (0, 0)
    for seq, rows in enumerate(sizes, start=1):
        samples += rows
        if samples >= 2 and (last[0] == 0 or samples >= (1 + growth) * last[0]):
            last = (samples, seq)
        expected.append(last)
    assert asyncio.run(positions()) == expected
