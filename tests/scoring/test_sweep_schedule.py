"""How much a scorer looks at: what it reads of Redis does not depend on how many experiments rest."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from redis.asyncio import Redis

from optimist.records import ExperimentState
from optimist.scoring import fairness
from optimist.scoring.fairness import MOST, OTHERS, RESTING, SweepSchedule, owner_of
from optimist.store import Store
from tests.support.made import scoring, until


async def commands_of_a_sweep(store: Store, redis: Redis, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """What Redis runs, inside scripts, too, from one sweep of a scorer with nothing to do to the next."""
    monkeypatch.setattr(fairness, "ACTIVE", 0.0)
    async with scoring(store) as scorer:
        swept = -1.0

        async def again() -> bool:
            nonlocal swept
            swept, before = scorer._swept, swept
            return before not in (-1.0, swept)

        await until(again)  # all were looked at once
        await until(again)
        await redis.config_resetstat()
        await until(again)
        stats = await redis.info("commandstats")
    counted = Counter({name.removeprefix("cmdstat_"): one["calls"] for name, one in stats.items()})
    return Counter({name: counted[name] for name in ("evalsha", "hgetall", "zrange", "exists", "hget", "get")})


async def test_a_sweep_does_not_depend_on_how_many_experiments_rest(
    make, store: Store, redis: Redis, monkeypatch: pytest.MonkeyPatch
):
    for number in range(2 * RESTING):
        await make(f"resting-{number}", metric="mean")
    few = await commands_of_a_sweep(store, redis, monkeypatch)
    for number in range(2 * RESTING, 8 * RESTING):
        await make(f"resting-{number}", metric="mean")
    many = await commands_of_a_sweep(store, redis, monkeypatch)
    assert few["evalsha"] == RESTING + 1, "those, and that it is there"
    assert many == few


def test_active_ones_come_in_every_sweep_and_the_others_in_turn(monkeypatch: pytest.MonkeyPatch):
    clock = [100.0]
    monkeypatch.setattr(fairness.time, "monotonic", lambda: clock[0])
    names, sweeps, state = [f"x-{number}" for number in range(25)], SweepSchedule(), ExperimentState(0, 0, [])

    def swept(due: str = "", token: str = "") -> list[str]:
        found = sweeps.next(names)
        for name in found:
            sweeps.seen(name, replace(state, state_token=token if name == "x-7" else ""), is_due=name == due)
        return found

    assert sorted(swept()) == sorted(names), "none has been seen yet"
    assert [len(swept()) for _ in range(3)] == [RESTING, RESTING, 5]
    sweeps.notice("x-3")
    turns = [swept(due="x-5") for _ in range(3)]
    assert all("x-3" in turn for turn in turns)
    assert set().union(*turns) == set(names)
    assert {"x-3", "x-5"} <= set(swept())
    clock[0] += 2 * fairness.ACTIVE
    for _ in range(3):
        swept(token="changed")
    assert "x-7" in swept(token="changed"), "it has changed since it was last looked at"
    clock[0] += 2 * fairness.ACTIVE
    assert all(len(swept(token="changed")) <= RESTING for _ in range(3))
    sweeps.forget()
    assert sorted(swept(token="changed")) == sorted(names)


def test_scorers_share_out_the_active_ones(monkeypatch: pytest.MonkeyPatch):
    clock = [100.0]
    monkeypatch.setattr(fairness.time, "monotonic", lambda: clock[0])
    names = [f"x-{number}" for number in range(40)]
    sweeps, state = SweepSchedule(), ExperimentState(0, 0, [])
    mine = {name for name in names if owner_of(name, ("one", "other")) == "one"}

    def swept() -> set[str]:
        found = sweeps.next(names, mine.__contains__)
        for name in found:
            sweeps.seen(name, state, is_due=True)
        clock[0] += 1.0
        return set(found)

    assert swept() == set(names), "none has been seen yet"
    assert [swept() for _ in range(int(OTHERS) - 1)] == [mine] * (int(OTHERS) - 1)
    assert swept() == set(names)


def test_of_very_many_active_ones_those_come_first_that_were_looked_at_longest_ago():
    names = [f"x-{number}" for number in range(2 * MOST + MOST // 2)]
    sweeps, state = SweepSchedule(), ExperimentState(0, 0, [])
    for _ in range(2):
        seen = Counter[str]()
        for _ in range(5):
            found = sweeps.next(names)
            assert len(found) == MOST
            for name in found:
                sweeps.seen(name, state, is_due=True)
            seen.update(found)
        assert set(seen.values()) == {2}


def test_only_what_a_scorer_had_changes_hands_when_it_leaves():
    names, scorers = [f"x-{number}" for number in range(3000)], ("one", "other", "third")
    before = {name: owner_of(name, scorers) for name in names}
    shares = Counter(before.values())
    assert all(900 < shares[scorer] < 1100 for scorer in scorers)
    after = {name: owner_of(name, scorers[:2]) for name in names}
    assert all(after[name] == owner for name, owner in before.items() if owner != "third")


async def test_scorers_that_are_there_are_known_until_they_leave(store: Store, redis: Redis):
    assert await store.present("one", 60.0) == ["one"]
    assert sorted(await store.present("other", 60.0)) == ["one", "other"]
    await store.leave("one")
    assert await store.present("other", 60.0) == ["other"]
    await redis.zadd("optimist:scorers", {"dead": 1.0, "of the future": 1e12})
    assert await store.present("other", 60.0) == ["other"]
