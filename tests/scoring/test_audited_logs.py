"""Logs with answers of people between the batches: the same bits however they are cut, and what is left out."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

import numpy as np
import pytest

from optimist.estimation.question import Question
from optimist.records import LogEntry, RetractedLog, RetractionRecord, codec
from optimist.scoring.cached import CachedStatistic, EstimatorSettings
from optimist_client import tensors
from optimist_client.metrics import Mean

BOUND = Question(Mean(reads="human", proxy="judge"), "influence").bound_for({"values": 1})
SETTINGS: EstimatorSettings = {"paired": True, "reads": {"values": "judge"}}
STEP, N = 10, 200
rng = np.random.default_rng(4)
PEOPLE = rng.standard_normal(N)
JUDGE = PEOPLE + 0.5 * rng.standard_normal(N)


def batch(seq: int, start: int) -> LogEntry:
    arrays = {"judge": JUDGE[start : start + STEP, None]}
    return LogEntry(seq, 0, STEP, tensors.digest(arrays), tensors.encode(arrays), indices=(start, STEP))


def answer(seq: int, index: int, score: float | None, *, due: bool) -> LogEntry:
    body = json.dumps({"audit": index, "weight": 1.0, "score": score, "due": int(due)}).encode()
    return LogEntry(seq, 0, 0, hashlib.sha1(body).hexdigest(), body, is_answer=True)


def log_of_answers() -> list[LogEntry]:
    """Batches, behind each of which six answers come, of samples so far."""
    log: list[LogEntry] = []
    order, given = np.random.default_rng(1).permutation(N), 0
    for start in range(0, N, STEP):
        log.append(batch(len(log) + 1, start))
        for index in [int(at) for at in order if start - 6 <= at < start + STEP][:6]:
            given += 1
            log.append(answer(len(log) + 1, index, float(PEOPLE[index]), due=given % 5 == 0))
    return log


LOG = log_of_answers()


def estimates(log: Sequence[LogEntry], cut: int, *, frozen: bool = False, retracted: RetractedLog | None = None):
    """The estimates by position, of a log that is read in pieces."""
    cached = CachedStatistic(BOUND, 0.0, retracted or RetractedLog(), **SETTINGS)
    made: dict[int, str] = {}
    for at in range(0, len(log), cut):
        step = cached.apply(log[at : at + cut])
        assert not step.unreadable
        if step.scored is not None:
            made[step.scored.seq] = codec.encode(step.scored.estimate)
        if frozen:
            cached = CachedStatistic.thaw(
                cached.freeze(), cached.seq, BOUND, 0.0, cached.chain, retracted or RetractedLog(), **SETTINGS
            )
    return made


@pytest.mark.parametrize(("cut", "frozen"), [(7, False), (1, True), (13, True), (len(LOG), False)])
def test_estimates_are_the_same_however_the_log_is_cut_and_frozen(cut: int, frozen: bool):
    one_by_one = estimates(LOG, 1)
    made = estimates(LOG, cut, frozen=frozen)
    assert made
    assert made.items() <= one_by_one.items()
    due = [entry.seq for entry in LOG if entry.is_answer and json.loads(entry.body)["due"]]
    assert {*due} <= one_by_one.keys()


def test_the_last_answer_to_a_sample_counts():
    again = [*LOG, answer(len(LOG) + 1, 3, 9.0, due=False), answer(len(LOG) + 2, 3, float(PEOPLE[3]), due=True)]
    once = [*LOG, answer(len(LOG) + 1, 3, float(PEOPLE[3]), due=True)]
    made = [estimates(log, 5)[log[-1].seq] for log in (again, once)]
    assert made[0] == made[1]
    taken_back = [*once, answer(len(once) + 1, 3, None, due=True)]
    without = [entry for entry in LOG if not (entry.is_answer and json.loads(entry.body)["audit"] == 3)]
    last = [*without, answer(LOG[-1].seq + 1, 4, float(PEOPLE[4]), due=True)]
    both = [*taken_back, answer(len(taken_back) + 1, 4, float(PEOPLE[4]), due=True)]
    assert [*estimates(both, 5).values()][-1] == [*estimates(last, 5).values()][-1]


def test_answers_to_what_was_retracted_are_left_out():
    gone = LOG[7]
    assert gone.is_batch
    first, end = gone.indices[0], LOG[-1].seq + 1
    retraction = RetractionRecord(0, end, gone.seq, 0, 0, STEP, 1, "", 1.0, "", 1, False, "d")
    log = [*LOG, LogEntry(end, 0, 0, "d", is_retraction=True)]
    made = [*estimates(log, 9, retracted=RetractedLog((retraction,))).values()][-1]
    left = [
        entry
        for entry in LOG
        if entry is not gone and not (entry.is_answer and first <= json.loads(entry.body)["audit"] < first + STEP)
    ]
    cached = CachedStatistic(BOUND, 0.0, **SETTINGS)
    cached.apply(left)
    assert codec.encode(cached.scored().estimate) == made


def test_what_cannot_be_read_is_named_and_left_out():
    for body, digest in ((b"{}", None), (b'{"audit": 1, "weight": 0, "score": 1, "due": 1}', None), (b"x", "other")):
        cached = CachedStatistic(BOUND, 0.0, **SETTINGS)
        cached.apply(LOG[:1])
        entry = LogEntry(2, 0, 0, digest or hashlib.sha1(body).hexdigest(), body, is_answer=True)
        assert cached.apply([entry]).unreadable[0][0] == 2
