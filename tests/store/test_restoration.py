"""Experiments that come from elsewhere: nothing of them is seen before all of it, and nothing stays of a failure."""

from __future__ import annotations

from typing import Any

import pytest
from redis.asyncio import Redis

from optimist.records import (
    AcceptanceRecord,
    AskGroup,
    Conflict,
    Copy,
    ExperimentState,
    GeneratorState,
    Gone,
    KeptLevel,
    LogEntry,
    LogGap,
    NotFound,
    Origin,
    Quarantined,
    Returned,
    Snapshot,
    Unavailable,
    UnitState,
)
from optimist.store import Store
from optimist.store.restoration import Restoration
from tests.support.exchanges import claimed, new_pick, open_picks, settle
from tests.support.present import experiments

ENTRIES = [
    LogEntry(4, pick=8, rows=5, digest="digest 4", body=bytes([4]) * 100),
    LogEntry(5, 10, 5, "digest 5", bytes([5]) * 100, indices=(16, 1, 20, 4), counted=(1, 1, 5, 4)),
]
HISTORY = b"sevenby" * 5
STATE = ExperimentState(
    rounds=12,
    told=5,
    generators=[
        GeneratorState(
            ordinal=0,
            name="a",
            samples=25,
            batches=5,
            seq=5,
            due_samples=20,
            due_seq=4,
            units={
                "": UnitState(4, '{"value": 1}', snapshot_seq=3, log_bytes=200),
                "kid": UnitState(5, '{"value": 5}', snapshot_seq=4, log_bytes=100),
            },
            handed=40,
            returned=[Returned(10, 6), Returned(17, 2)],
            told=[(0, 10), (16, 17), (20, 36)],
            quarantined=[Quarantined(2, "torn")],
            quarantined_count=1,
            named_copies=[
                Copy(4, Origin(0, 5, 1763823998.5), 2),
                Copy(5, Origin(9, 5, 1763823999.25), 4),
            ],
            copies=2,
            duplicates={1: 2},
            acceptances=[
                AcceptanceRecord(0, 5, 5, "", 1763824000.5, "right"),
                AcceptanceRecord(0, 0, 5, "key", 1763824001.5, ""),
            ],
        ),
        GeneratorState(1, "b", 0, 0, 0, 0, 0, {"": UnitState(), "kid": UnitState()}, state="paused", is_seedless=True),
    ],
    decision='{"best": "a"}',
    controls={"budget": "99"},
    instance="instance",
    labels=("", "kid"),
)
LEVELS = [[KeptLevel(0, 5, Origin(9, 5, 1763823999.25), -0.5), KeptLevel(1, 5, Origin(9, 5, 1763823999.25), 2.25)], []]
SIZES = {"usual": "1 1.5", "0": "40 40 2.25"}


async def stage(restoration: Restoration) -> None:
    await restoration.add_snapshot(0, Snapshot(3, bytes(range(256)) * 20_000), label="")
    await restoration.add_snapshot(0, Snapshot(4, b"by kid"), label="kid")
    for entry in ENTRIES:
        await restoration.add_entries(0, [entry], keep_log=False)


async def restore(store: Store, stored: ExperimentState = STATE) -> bool:
    async with store.restoring("x") as restoration:
        await stage(restoration)
        await restoration.add_checks(SIZES, LEVELS)
        return await restoration.commit("config", 0.04, stored, HISTORY, {"": b"fitted", "kid": b"by kid"})


async def test_it_is_as_it_was_and_goes_on(store: Store, redis: Redis):
    assert await restore(store)
    assert await store.state("x", told=True, all_metrics=True) == STATE
    assert (await store.config("x"), await experiments(store)) == ("config", ["x"])
    assert await store.snapshot("x", 0, label="") == Snapshot(3, bytes(range(256)) * 20_000)
    assert await store.snapshot("x", 0, label="kid") == Snapshot(4, b"by kid")
    assert await store.read_log("x", 0, 3) == ENTRIES
    assert await store.history("x") == HISTORY
    assert [await store.fitted("x", label) for label in ("", "kid")] == [b"fitted", b"by kid"]
    with pytest.raises(LogGap):
        await store.read_log("x", 0, 2)
    assert await store.usual_sizes("x", 2) == SIZES
    assert await store.levels("x", [0, 1]) == LEVELS
    for key in await redis.keys("optimist:{x}:*"):
        assert await redis.ttl(key) == -1
        assert b"import" not in key

    assert await store.reopen("x", '{"best": "a"}')
    with pytest.raises(Gone):
        await settle(store, "x", 12, "digest", 5, b"body")
    assert await open_picks(store, "x", 12, [AskGroup("ask", [new_pick(0, "{}", 10, 5, again=True, left=1)])], 60)
    told = await settle(store, "x", 13, "digest", 7, b"body")
    assert (told.seq, told.samples, told.batches) == (6, 32, 6)
    await redis.hset("optimist:{x}:counts", "0:handed", 6)  # of indices that were told
    assert await open_picks(store, "x", 13, [AskGroup("told", [new_pick(0, "{}", 6, 3)])], 60)
    overlapping = await settle(store, "x", 14, "digest", 3, b"body")
    assert (overlapping.rows, overlapping.seq, overlapping.duplicate) == (0, 0, True)
    claim = await store.claim("x", 0, "scorer", 60, label="")
    assert claim is not None
    assert claim.instance == "instance"
    await store.quarantine("x", 0, 2, "torn", claim.token, label="")  # counted already
    state = (await store.state("x")).generators[0]
    assert (state.primary.log_bytes, state.due_seq, state.quarantined_count) == (204, 6, 1)
    assert await store.put_snapshot("x", 0, 6, b"newer", claim.token, label="")
    assert len(await redis.keys("optimist:{x}:snapshot:*")) == 2
    assert [entry.seq for entry in await store.read_log("x", 0, 4)] == [5, 6], "the other metric has not read them"
    assert (await store.state("x")).generators[0].primary.log_bytes == 0
    await store.delete_experiment("x")
    assert await redis.keys("*") == []


async def test_a_log_that_was_kept_keeps_its_records_and_is_not_trimmed(store: Store):
    entries = [LogEntry(seq, seq, 5, "digest", b"body", record="{}" if seq > 1 else "") for seq in (1, 2, 3)]
    a = GeneratorState(0, "a", 15, 3, 3, 15, 3, {"": UnitState(snapshot_seq=2)})
    async with store.restoring("x") as restoration:
        await restoration.add_snapshot(0, Snapshot(2, b"statistic"), label="")
        await restoration.add_entries(0, entries, keep_log=True)
        await restoration.commit(
            "config", 0.0, ExperimentState(3, 3, [a], instance="i", keep_log=True, labels=("",)), b"", {}
        )
    assert await store.read_log("x", 0, 0) == entries
    stored = await store.state("x")
    assert (stored.keep_log, stored.generators[0].primary.log_bytes) == (True, 4)
    claim = await claimed(store, "x", 0)
    await store.put_snapshot("x", 0, 3, b"newer", claim, label="")
    assert await store.read_log("x", 0, 0) == entries
    assert (await store.state("x")).generators[0].primary.log_bytes == 0


async def test_nothing_stays_of_one_that_was_not_committed(store: Store, redis: Redis):
    async with store.restoring("x") as restoration:
        await stage(restoration)
        staged = await redis.keys("*")
        assert len(staged) == 4
        for key in staged:
            assert b"optimist:{x}:import:" in key
            assert 0 < await redis.ttl(key) <= 3600
        assert await store.config("x") is None
    assert await redis.keys("*") == []


async def test_a_name_that_is_taken_meanwhile_stays_as_it_is(store: Store, redis: Redis):
    async with store.restoring("x") as restoration:
        await stage(restoration)
        await store.create_experiment("x", "other", ["a"], growth=0.0, labels=[""])
        before = sorted(await redis.keys("optimist:{x}:[^i]*"))
        with pytest.raises(Conflict):
            await restoration.commit("config", 0.04, STATE, HISTORY, {})
    assert await store.config("x") == "other"
    assert sorted(await redis.keys("optimist:{x}:*")) == before


async def test_the_same_instance_again_is_as_good_as_once(store: Store, redis: Redis):
    assert await restore(store)
    await open_picks(store, "x", 12, [AskGroup("ask", [new_pick(0, "{}")])], 60)
    before = sorted(await redis.keys("*"))
    assert not await restore(store)
    assert sorted(await redis.keys("*")) == before


async def test_entries_sent_again_stand_once(store: Store, monkeypatch: pytest.MonkeyPatch):
    script = store._commands.script

    async def twice(name: str, keys: list[str], **arguments: Any) -> object:
        await script(name, keys, **arguments)
        return await script(name, keys, **arguments)

    monkeypatch.setattr(store._commands, "script", twice)
    async with store.restoring("x") as restoration:
        await stage(restoration)
        await restoration.commit("config", 0.04, STATE, HISTORY, {})
    assert await store.read_log("x", 0, 3) == ENTRIES


async def test_parts_that_have_expired_are_missed(store: Store, redis: Redis):
    async with store.restoring("x") as restoration:
        await stage(restoration)
        await redis.delete(*await redis.keys("*log:0"))
        with pytest.raises(NotFound, match="expired"):
            await restoration.commit("config", 0.04, STATE, HISTORY, {})
    assert await redis.keys("*") == []


async def test_a_full_redis_refuses_and_keeps_nothing(store: Store, redis: Redis):
    async with store.restoring("x") as restoration:
        await stage(restoration)
        await redis.config_set("maxmemory", 1)
        try:
            with pytest.raises(Unavailable):
                await restoration.commit("config", 0.04, STATE, HISTORY, {})
        finally:
            await redis.config_set("maxmemory", 0)
    assert await redis.keys("*") == []
