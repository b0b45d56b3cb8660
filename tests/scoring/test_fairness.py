"""Who works next: namespaces and experiments take turns, and short work never waits behind long work alone."""

from __future__ import annotations

import json

import pytest
from logs import KINDS, log_of

from optimist.scoring.fairness import LONG, SHORT, FairQueue
from optimist.scoring.record import GeneratorRecord
from optimist.scoring.warm import WarmGenerator


def queue_of(threads: int, *records: GeneratorRecord) -> FairQueue:
    queue = FairQueue(threads)
    for record in records:
        queue.add(record)
    return queue


def waiting(name: str, seconds: float | None, count: int = 1, label: str = "") -> list[GeneratorRecord]:
    return [GeneratorRecord(name, ordinal, label, seconds=seconds) for ordinal in range(count)]


def in_turn(queue: FairQueue) -> list[tuple[str, int]]:
    """All that wait, when each ends before the next one begins."""
    found = []
    while (record := queue.next()) is not None:
        queue.end(record)
        found.append(record.place)
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


def test_one_long_turn_at_a_time_and_others_go_by():
    large, middle = waiting("noisy/x", LONG, 2), waiting("noisy/y", 2 * SHORT)
    queue = queue_of(2, *large, *middle)
    assert [queue.next(), queue.next(), queue.next()] == [large[0], middle[0], None]
    queue.end(middle[0])
    assert queue.next() is None
    queue.end(large[0])
    assert queue.next() is large[1]


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


def test_a_watched_metric_takes_its_turn_once_nobody_who_decides_may_begin():
    """A long turn that must wait for another one keeps no watched metric waiting."""
    large, short, middle = waiting("x", LONG, 2), waiting("x", SHORT / 2, 1, "rke"), waiting("x", SHORT, 1, "fid-2")
    queue = queue_of(3, *large, *short, *middle)
    assert [queue.next(), queue.next(), queue.next()] == [large[0], middle[0], short[0]]
    queue.end(middle[0])
    assert queue.next() is None
    queue.end(large[0])
    assert queue.next() is large[1]


def test_watched_metrics_leave_a_thread_to_those_that_decide():
    watched, deciding = waiting("x", LONG, 3, "rke"), waiting("x", 2 * SHORT)
    queue = queue_of(2, *watched, *waiting("x", SHORT / 2, 2, "is"))
    assert queue.next() is watched[0]
    assert queue.next() is None, "the other one is left"
    queue.add(deciding[0])
    assert queue.next() is deciding[0]
    queue.end(watched[0])
    assert queue.next() is watched[1], "as soon as nobody who decides waits"


def test_a_thread_is_not_kept_for_short_turns_of_watched_metrics():
    short, large = waiting("x", SHORT / 2, 2, "rke"), waiting("x", 2 * SHORT, 2)
    queue = queue_of(2, *short)
    first = queue.next()
    assert first is short[0]
    queue.end(first)
    for record in large:
        queue.add(record)
    assert [queue.next(), queue.next()] == large


def test_due_positions_before_the_newest_are_passed_over_and_change_no_estimate():
    kind = KINDS["fid past rank"]
    bound, log = kind.make(), log_of(kind, 30)
    whole, behind = WarmGenerator(bound, 0.0), WarmGenerator(bound, 0.0)
    every = {step.scored.seq: step.scored for entry in log if (step := whole.apply([entry])).scored}
    pages = [behind.apply(log[start : start + 7], newest=24).scored for start in range(0, 30, 7)]
    made = [scored for scored in pages if scored is not None]
    assert len(every) == 30
    assert [scored.seq for scored in made] == [28, 30]
    for scored in made:
        assert json.dumps(scored.estimate.to_dict()) == json.dumps(every[scored.seq].estimate.to_dict())
