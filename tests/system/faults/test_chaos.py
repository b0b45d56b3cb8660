"""A short run of the chaos harness, with more of everything in `make test-full`.

The long one is `python -m tests.chaos.driver --seeds 20`.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.chaos import checks
from tests.chaos.adversary import KINDS
from tests.chaos.driver import Plan, run
from tests.chaos.herd import bursts
from tests.chaos.questions import QUESTIONS
from tests.chaos.survivors import find_survivors
from tests.chaos.workers import Ledger
from tests.support.ledgers import handed, pick_of, report, told
from tests.support.profiles import is_full

FULL = is_full()
SHORT = Plan(
    rounds=720 if FULL else 240,
    apis=2,
    scorers=2 if FULL else 1,
    workers=12,
    faults=len(KINDS),
    pause=2.0,
    stop=6.0,
    lease=6.0,
    retractions=40,
    sampling=0.1,
    limit=200,
)


@pytest.mark.long
@pytest.mark.faults
async def test_whatever_breaks_every_acknowledged_batch_counts_once():
    outcome = await run(0, SHORT)
    assert outcome.violations == []
    assert outcome.acknowledged - outcome.lost >= SHORT.rounds
    assert len(outcome.faults) == SHORT.faults
    assert outcome.retracted > 0
    assert sum(outcome.told_lost) >= 2
    assert all(fault.next_tell is not None for fault in outcome.faults)


@pytest.mark.long
@pytest.mark.faults
async def test_batches_that_outlast_their_leases_count_each_index_once():
    """16 workers, late and repeated batches: the numbers are those of a serial replay, bit for bit."""
    plan = replace(SHORT, workers=16, faults=4, kinds=("cut replies to workers",), lease=1.0, slow=0.3, retractions=20)
    outcome = await run(1, plan)
    assert outcome.violations == []
    assert outcome.uncounted > 0
    assert outcome.duplicates > outcome.uncounted
    assert set(outcome.differences.values()) == {0.0}


class TestChecks:
    """The checks detect what they are for."""

    @pytest.fixture
    def ledger(self) -> Ledger:
        ledger = Ledger()
        for number in (1, 2):
            told(ledger, number, position=number)
        return ledger

    def wrong_counts(self, found: dict, ledger: Ledger) -> list[str]:
        return checks.check_counts(found, find_survivors(found, ledger))

    def test_nothing_wrong(self, ledger: Ledger):
        assert self.wrong_counts(report(2), ledger) == []

    @pytest.mark.parametrize(("batches", "samples"), [(1, 5), (3, 15), (2, 9)])
    def test_lost_and_double_batches(self, ledger: Ledger, batches: int, samples: int):
        (wrong,) = self.wrong_counts(report(batches, samples, rounds=2), ledger)
        assert "2 batches of 10 samples were acknowledged" in wrong

    def test_a_leaked_pick(self, ledger: Ledger):
        (wrong,) = self.wrong_counts(report(2, open_picks=1), ledger)
        assert "open for ever" in wrong

    def test_a_hole_in_the_log(self, ledger: Ledger):
        told(ledger, 3, position=4)
        wrong = self.wrong_counts(report(3, rounds=2), ledger)
        assert any("[3] missing" in line for line in wrong)
        assert any("3 rounds were acknowledged, 2 are counted" in line for line in wrong)

    def test_two_answers_that_contradict(self, ledger: Ledger):
        told(ledger, 2, position=3)
        assert len(ledger.violations) == 1

    def test_an_estimate_that_goes_back(self, ledger: Ledger):
        for number, positions in ((1, [0, 0, 0]), (3, [2, 1, 0]), (2, [2, 0, 0])):
            handed(ledger, number, positions=positions)
        assert checks.check_picks(ledger) == []
        handed(ledger, 4, positions=[1, 1, 0])
        assert len(checks.check_picks(ledger)) == 1

    def test_a_pick_handed_to_two_workers(self, ledger: Ledger):
        for worker in ("w", "v"):
            ledger.picked(QUESTIONS[0], pick_of(1, worker=worker), 0.0)
        assert len(ledger.violations) == 1

    def test_another_number_than_the_replay(self, ledger: Ledger):
        question = replace(QUESTIONS[0], watch=())
        survivors = find_survivors(report(2), ledger)
        estimate = question.replay(survivors.replayed("fid", 0.0), growth=0.0)[None]["a"]
        assert estimate is not None
        standing = {
            "generator": "a",
            "scored_samples": 10,
            "score": estimate.score,
            "standard_error": estimate.stopping_error,
            "lower": max(estimate.lower, 0.0),
            "upper": estimate.upper,
        }
        for score, violations in ((estimate.score, 0), (estimate.score * (1 + 1e-11), 1)):
            found = {"fid": {"standings": [standing | {"score": score}]}}
            assert len(checks.check_numbers(found, [question], survivors, growth=0.0)[0]) == violations
        fewer = {"fid": {"standings": [standing | {"scored_samples": 5}]}}
        assert "was due at 10" in checks.check_numbers(fewer, [question], survivors, growth=0.0)[0][0]


@pytest.mark.long
@pytest.mark.faults
async def test_a_herd_of_asks_needs_few_attempts_and_spreads_as_if_in_sequence():
    workers = 128 if FULL else 64
    found = [burst async for burst in bursts(workers, apis=2, count=2)]
    for turn, burst in enumerate(found):
        assert sorted(burst.picks) == list(range(workers * turn + 1, workers * (turn + 1) + 1))
        assert burst.picks == burst.serial
        assert min(burst.attempts) >= 1
        assert sum(burst.attempts) <= 2 * len(burst.attempts)
