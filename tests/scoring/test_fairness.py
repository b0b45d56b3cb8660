"""Who works next: namespaces and experiments take turns, short work never waits behind long work alone; and how much a
scorer looks at, which does not depend on how many experiments rest."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import pytest
from prometheus_client import REGISTRY
from redis.asyncio import Redis

from optimist.records import ExperimentState, GeneratorState, UnitState, codec
from optimist.scoring import fairness
from optimist.scoring.cached import CachedStatistic
from optimist.scoring.fairness import LONG, MAX_ACTIVE, OTHERS, RESTING, SHORT, FairQueue, SweepSchedule, owner_of
from optimist.scoring.tasks import GeneratorTask, ScoringTasks
from optimist.store import Store, namespace_of
from tests.support.logs import KINDS, log_of
from tests.support.made import scoring, until


def queue_of(threads: int, *records: GeneratorTask) -> FairQueue:
    queue = FairQueue(threads)
    for record in records:
        queue.add(record)
    return queue


def waiting(name: str, seconds: float | None, count: int = 1, label: str = "") -> list[GeneratorTask]:
    return [GeneratorTask(name, ordinal, label, seconds=seconds, decides=not label) for ordinal in range(count)]


def in_turn(queue: FairQueue) -> list[tuple[str, int]]:
    """All that wait, when each ends before the next one begins."""
    found = []
    while (record := queue.next()) is not None:
        queue.end(record)
        found.append(record.address)
    return found


def test_namespaces_take_turns_then_experiments_then_the_oldest():
    for seconds in (SHORT / 2, 2 * SHORT):
        busy, other = waiting("noisy/x", seconds, 3), waiting("noisy/y", seconds, 2)
        queue = queue_of(2, *busy, *other, *waiting("quiet/x", seconds), *waiting("default", seconds))
        assert in_turn(queue) == [
            *(("noisy/x", 0), ("quiet/x", 0), ("default", 0)),
            *(("noisy/y", 0), ("noisy/x", 1), ("noisy/y", 1), ("noisy/x", 2)),
        ]


def test_one_thread_is_kept_for_short_work_while_there_is_any():
    small, large = waiting("quiet/x", SHORT / 2), waiting("noisy/x", 2 * SHORT, 3)
    queue = queue_of(2, *large)
    assert [queue.next(), queue.next(), queue.next()] == [large[0], large[1], None]
    queue.add(small[0])
    queue.end(large[0])
    assert [queue.next(), queue.next()] == [small[0], None]
    queue.end(small[0])
    assert queue.next() is None, "one is kept for the next one"
    queue.add(small[0])
    assert queue.next() is small[0]
    queue.end(large[1])
    assert queue.next() is large[2]


def test_a_thread_that_was_kept_works_once_there_was_nothing_short_for_a_while(monkeypatch: pytest.MonkeyPatch):
    small, large = waiting("quiet/x", SHORT / 2), waiting("noisy/x", 2 * SHORT, 2)
    queue = queue_of(2, *small)
    queue.end(small[0]) if queue.next() is small[0] else pytest.fail("it was alone")
    for task in large:
        queue.add(task)
    assert [queue.next(), queue.next()] == [large[0], None]
    monkeypatch.setattr(fairness, "REMEMBERED", 0.0)
    assert queue.next() is large[1]


def test_one_long_turn_at_a_time_beside_others_that_go_by():
    large, middle = waiting("noisy/x", LONG, 2), waiting("noisy/y", 2 * SHORT)
    queue = queue_of(2, *large, *middle)
    assert [queue.next(), queue.next(), queue.next()] == [large[0], middle[0], None]
    queue.end(middle[0])
    assert queue.next() is None
    queue.end(large[0])
    assert queue.next() is large[1]


def test_long_turns_go_side_by_side_where_no_other_experiment_is_expected(monkeypatch: pytest.MonkeyPatch):
    large, middle = waiting("noisy/x", LONG, 5), waiting("noisy/y", 2 * SHORT)
    queue = queue_of(2, *large)
    assert [queue.next(), queue.next(), queue.next()] == [large[0], large[1], None]
    queue.add(middle[0])
    for ended, begins in ((large[0], large[2]), (large[1], middle[0]), (large[2], large[3])):
        queue.end(ended)
        assert [queue.next(), queue.next()] == [begins, None]
    queue.end(middle[0])
    assert queue.next() is None, "the next one of y is expected"
    monkeypatch.setattr(fairness, "EXPECTED", 0.0)
    assert queue.next() is large[4]


def test_a_single_thread_is_for_everybody():
    large, small = waiting("noisy/x", LONG, 3), waiting("quiet/x", SHORT / 2)
    assert in_turn(queue_of(1, *large, *small)) == [
        (name, n) for name, n in (("noisy/x", 0), ("quiet/x", 0), ("noisy/x", 1), ("noisy/x", 2))
    ]


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("seconds", [None, SHORT / 2, 2 * SHORT, LONG])
def test_watched_metrics_go_behind_all_that_decide(threads: int, seconds: float | None):
    """Though they are of another namespace, shorter, and have waited longer."""
    watched, deciding = waiting("quiet/x", SHORT / 2, 2, "rke"), waiting("noisy/x", seconds, 3)
    queue = queue_of(threads, *watched, *deciding)
    assert in_turn(queue) == [("noisy/x", n) for n in range(3)] + [("quiet/x", n) for n in range(2)]


def test_watched_metrics_have_threads_of_their_own():
    """Turns that cannot begin, and those that go on, keep them waiting no longer; and they keep nobody waiting."""
    large, watched, middle = waiting("x", LONG, 2), waiting("x", LONG, 3, "rke"), waiting("y", 2 * SHORT)
    queue = queue_of(2, *middle)
    queue.end(middle[0]) if queue.next() is middle[0] else pytest.fail("it was alone")
    for task in (*large, *watched):
        queue.add(task)
    assert [queue.next(), queue.next(), queue.next()] == [large[0], watched[0], None]
    queue.end(large[0])
    assert [queue.next(), queue.next()] == [large[1], None]
    queue.end(watched[0])
    assert queue.next() is watched[1]


def test_a_watched_metric_begins_between_short_turns_or_once_in_a_while(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(fairness, "PATIENCE", math.inf)
    (short,), watched = waiting("x", SHORT / 2), waiting("y", SHORT / 2, 2, "rke")
    queue = queue_of(2, short, *watched)
    assert [queue.next(), queue.next()] == [short, None]
    queue.end(short)
    assert queue.next() is watched[0]
    queue.end(watched[0])
    queue.add(short)
    assert [queue.next(), queue.next()] == [short, None]
    monkeypatch.setattr(fairness, "PATIENCE", 0.0)
    assert queue.next() is watched[1]


def test_a_thread_is_not_kept_for_short_turns_of_watched_metrics():
    short, large = waiting("x", SHORT / 2, 2, "rke"), waiting("x", 2 * SHORT, 2)
    queue = queue_of(2, *short)
    first = queue.next()
    assert first is short[0]
    queue.end(first)
    for record in large:
        queue.add(record)
    assert [queue.next(), queue.next()] == large


def served(queue: FairQueue, seconds: Mapping[str, float], total: float) -> Counter[str]:
    """The time that each namespace has had in the end, if every turn takes as long as these say, and all wait again."""
    found = Counter[str]()
    while found.total() < total:
        record = queue.next()
        assert record is not None
        namespace = namespace_of(record.name)
        found[namespace] += seconds[namespace]
        queue.end(record, seconds[namespace])
        queue.add(record)
    return found


@pytest.mark.parametrize("label", ["", "rke"])
def test_namespaces_have_equal_shares_of_the_time_however_long_their_turns_and_however_many_they_have(label: str):
    seconds = {"noisy": 0.09, "quiet": 0.01}
    queue = queue_of(1, *waiting("noisy/x", None, 40, label), *waiting("noisy/y", None, 40, label))
    for record in waiting("quiet/x", None, 1, label):
        queue.add(record)
    found = served(queue, seconds, 20.0)
    assert found["quiet"] == pytest.approx(10.0, rel=0.25), "but for what a turn takes beside the threads"


def test_nobody_saves_up_a_share_and_who_wants_little_is_next():
    seconds = {"noisy": 0.05, "quiet": 0.01}
    (noisy,), (quiet,) = waiting("noisy/x", None), waiting("quiet/x", None)
    queue = queue_of(1, noisy)
    served(queue, seconds, 10.0)
    for _ in range(3):  # it comes now and then, each time first
        queue.add(quiet)
        assert queue.next() is quiet
        queue.end(quiet, seconds["quiet"])
        assert queue.next() is noisy
        queue.end(noisy, seconds["noisy"])
        queue.add(noisy)
    for record in [quiet, *waiting("quiet/y", None, 400)]:
        queue.add(record)
    assert served(queue, seconds, 2.0)["noisy"] >= 0.8, "quiet had nothing for ten seconds, and gets no more for that"


def test_due_positions_before_the_newest_are_passed_over_and_change_no_estimate():
    kind = KINDS["fid past rank"]
    bound, log = kind.make(), log_of(kind, 30)
    whole, behind = CachedStatistic(bound, 0.0), CachedStatistic(bound, 0.0)
    every = {step.scored.seq: step.scored for entry in log if (step := whole.apply([entry])).scored}
    pages = [behind.apply(log[start : start + 7], newest=24).scored for start in range(0, 30, 7)]
    made = [scored for scored in pages if scored is not None]
    assert len(every) == 30
    assert [scored.seq for scored in made] == [28, 30]
    for scored in made:
        assert codec.encode(scored.estimate) == codec.encode(every[scored.seq].estimate)


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


@pytest.mark.long
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
    names = [f"x-{number}" for number in range(2 * MAX_ACTIVE + MAX_ACTIVE // 2)]
    sweeps, state = SweepSchedule(), ExperimentState(0, 0, [])
    for _ in range(2):
        seen = Counter[str]()
        for _ in range(5):
            found = sweeps.next(names)
            assert len(found) == MAX_ACTIVE
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


def test_watched_metrics_with_limits_decide():
    tasks = ScoringTasks()
    state = ExperimentState(
        0,
        2,
        [GeneratorState(0, "a", 9, 2, 2, 9, 2, units={label: UnitState() for label in ("fid", "latency", "kid")})],
        labels=("fid", "latency", "kid"),
        limited=("latency",),
    )
    found = [task for task in tasks.look_at("x", state) if isinstance(task, GeneratorTask)]
    assert {task.label: task.decides for task in found} == {"fid": True, "latency": True, "kid": False}


def test_gauges_count_what_is_due_of_the_experiments_that_are_there(monkeypatch: pytest.MonkeyPatch):
    clock, tasks = [100.0], ScoringTasks()
    monkeypatch.setattr(fairness.time, "monotonic", lambda: clock[0])

    def gauges() -> tuple[float | None, ...]:
        tasks.overview.show(1, 0, 0)
        names = ("generators", "estimates_overdue", "watched_overdue", "staleness_seconds")
        return tuple(REGISTRY.get_sample_value(f"optimist_{name}") for name in names)

    units = {label: UnitState() for label in ("fid", "kid")}
    due = ExperimentState(0, 2, [GeneratorState(0, "a", 9, 2, 2, 9, 2, units=units)], labels=("fid", "kid"))
    list(tasks.look_at("x", due))
    clock[0] = 103.0
    list(tasks.look_at("x", due))
    assert gauges() == (1.0, 1.0, 1.0, 3.0), "since it was first seen"
    list(tasks.look_at("x", replace(due, generators=[replace(due.generators[0], due_seq=0)])))
    assert gauges() == (1.0, 0.0, 0.0, 0.0)
    tasks.keep(())
    assert gauges() == (0.0, 0.0, 0.0, 0.0)
