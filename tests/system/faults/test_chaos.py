"""A short run of the chaos harness, with more of everything in `make test-full`, and what its checks tell apart.

The long one is `python -m tests.chaos.driver --seeds 20`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.chaos import checks
from tests.chaos.adversary import KINDS
from tests.chaos.driver import Plan, run
from tests.chaos.herd import bursts
from tests.chaos.processes import RedisServer, ending
from tests.chaos.questions import BATCH, QUESTIONS
from tests.chaos.rollback import KEPT, Past, Rollback
from tests.chaos.survivors import check_logs, find_survivors
from tests.chaos.wire import Refused, Reply
from tests.chaos.workers import Ledger, Picked, Told
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


def pick_of(number: int, generator: str = "a", *, worker: str = "w", nonce: str = "A") -> dict[str, Any]:
    """A pick as the service returns it, with its number as seed."""
    pick = {"number": number, "generator": generator, "size": BATCH, "seed": number, "worker": worker}
    return pick | {"stale": False, "positions": [0, 0, 0], "nonce": nonce}


def handed(
    ledger: Ledger,
    number: int,
    generator: str = "a",
    *,
    nonce: str = "A",
    positions: Sequence[int] = (0, 0, 0),
    sent: float | None = None,
) -> Picked:
    """Record a pick that was asked for at `sent`, or now."""
    pick = pick_of(number, generator, nonce=nonce) | {"positions": list(positions)}
    return ledger.picked(QUESTIONS[0], pick, time.monotonic() if sent is None else sent)


def told(
    ledger: Ledger,
    number: int,
    generator: str = "a",
    *,
    position: int,
    counted_for: str | None = None,
    nonce: str = "A",
    sent: float | None = None,
) -> Picked:
    """Record a pick, and that its batch was acknowledged."""
    pick = handed(ledger, number, generator, nonce=nonce, sent=sent)
    answer = {"pick": number, "generator": counted_for or generator, "position": position}
    reply = Reply(
        answer | {"late": False, "duplicate": False, "uncounted": 0}, time.monotonic() if sent is None else sent, 0.0
    )
    ledger.told(pick, reply)
    return pick


def rolled_back(ledger: Ledger, to: float) -> None:
    """Record that Redis returned to its state of `to` (monotonic seconds) and serves again."""
    now = time.monotonic()
    ledger.rollbacks.append(Rollback(now, to, now))


def report(batches: int, samples: int | None = None, *, rounds: int | None = None, open_picks: int = 0) -> dict:
    """Reports by experiment that count only batches of generator "a"."""
    samples = batches * BATCH if samples is None else samples
    standing = {"generator": "a", "batches": batches, "samples": samples, "warnings": []}
    rounds = batches if rounds is None else rounds
    return {"fid": {"rounds": rounds, "open_picks": open_picks, "scored": True, "standings": [standing]}}


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
    plan = replace(
        SHORT,
        rounds=SHORT.rounds // 2,
        workers=16,
        faults=4,
        kinds=("cut replies to workers",),
        lease=1.0,
        slow=0.3,
        retractions=20,
    )
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

    @pytest.mark.parametrize(
        ("found", "expected"),
        [
            (report(2), ""),
            *((report(*counts, rounds=2), "2 batches of 10 samples were") for counts in ((1, 5), (3, 15), (2, 9))),
            (report(2, open_picks=1), "open for ever"),
        ],
    )
    def test_counts(self, ledger: Ledger, found: dict, expected: str):
        wrong = checks.check_counts(found, find_survivors(found, ledger))
        assert len(wrong) == bool(expected)
        assert all(expected in line for line in wrong)

    def test_a_hole_in_the_log(self, ledger: Ledger):
        told(ledger, 3, position=4)
        found = report(3, rounds=2)
        wrong = "\n".join(checks.check_counts(found, find_survivors(found, ledger)))
        assert "[3] missing" in wrong
        assert "3 rounds were acknowledged, 2 are counted" in wrong

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
        standing = {"generator": "a", "scored_samples": 10, "standard_error": estimate.stopping_error}
        standing |= {"lower": max(estimate.lower, 0.0), "upper": estimate.upper}
        for score, violations in ((estimate.score, 0), (estimate.score * (1 + 1e-11), 1)):
            found = {"fid": {"standings": [standing | {"score": score}]}}
            assert len(checks.check_numbers(found, [question], survivors, growth=0.0)[0]) == violations
        fewer = {"fid": {"standings": [standing | {"score": estimate.score, "scored_samples": 5}]}}
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


@pytest.fixture
async def redis(tmp_path: Path) -> AsyncIterator[RedisServer]:
    async with ending(server := RedisServer(tmp_path / "redis")):
        await until_there(server)
        yield server


async def until(condition: Callable[[], bool]) -> None:
    for _ in range(2000):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise TimeoutError


async def until_there(server: RedisServer) -> None:
    await until(lambda: server.socket.exists() and all(rollback.back is not None for rollback in server.rollbacks))


@pytest.mark.faults
@pytest.mark.parametrize("rewritten", [False, True])
async def test_redis_comes_back_as_it_was(redis: RedisServer, rewritten: bool):
    def call(*command: str) -> Any:
        with redis.client() as client:
            return client.execute_command(*command)

    call("SET", "kept", "1")
    redis.remember()
    call("SET", "lost", "1")
    if rewritten:
        call("BGREWRITEAOF")
        await until(lambda: not call("INFO", "persistence")["aof_rewrite_in_progress"])
    for turn in range(2):
        began = time.monotonic()
        call("SET", f"turn-{turn}", "1")
        redis.roll_back(seconds=60.0)
        await until_there(redis)
        assert (call("GET", "kept"), call("GET", "lost"), call("DBSIZE")) == (b"1", None, 1)
        assert len(redis.rollbacks) == turn + 1
        assert redis.rollbacks[-1].to < began
    assert redis.child.exits == []


def test_the_files_of_redis_7_come_back_as_they_were(tmp_path: Path):
    folder = tmp_path / "appendonlydir"
    folder.mkdir()

    def write(manifest: str, **files: str) -> None:
        (folder / "appendonly.aof.manifest").write_text(manifest)
        for name, content in files.items():
            (folder / name).write_text(content)

    past = Past(tmp_path)
    write("file base1 seq 1 type b\nfile incr1 seq 1 type i\nfile base0 seq 0 type h\n", base1="base", incr1="one ")
    past.note(1.0)
    write("file base2 seq 2 type b\nfile incr2 seq 2 type i\n", base2="base one two ", incr2="three ")
    for name in ("base1", "incr1"):
        (folder / name).unlink()
    past.note(2.0)
    (folder / "incr2").write_text("three four ")
    for at, incremental in (
        (2.0, {"base2": "base one two ", "incr2": "three "}),
        (0.0, {"base1": "base", "incr1": "one "}),
    ):
        past.restore(past.choose(at))
        found = {path.name: path.read_text() for path in folder.iterdir()}
        assert "type h" not in found.pop("appendonly.aof.manifest")
        assert found == incremental
    past.forget()


def test_old_states_are_let_go_of(tmp_path: Path):
    past = Past(tmp_path)
    (tmp_path / "appendonly.aof").write_text("")
    for now in (100.0, 101.0, 101.0 + KEPT):
        past.note(now)
    assert [past.choose(at) for at in (0.0, 101.0, 102.0, 200.0)] == [101.0, 101.0, 101.0, 101.0 + KEPT]
    past.forget()


class TestSurvivors:
    @pytest.fixture
    def ledger(self) -> Ledger:
        """Pick 1 was told, then `middle` came, then picks 2 and 3 were told."""
        ledger = Ledger()
        told(ledger, 1, position=1, nonce="A")
        self.middle = time.monotonic()
        told(ledger, 2, position=2, nonce="A")
        told(ledger, 3, position=3, nonce="A")
        return ledger

    def wrong(self, ledger: Ledger, batches: int) -> list[str]:
        survivors = find_survivors(report(batches), ledger)
        return [*ledger.violations, *survivors.violations, *checks.check_counts(report(batches), survivors)]

    def test_what_a_rollback_took_away_is_counted_apart(self, ledger: Ledger):
        rolled_back(ledger, self.middle)
        told(ledger, 2, "a", position=2, nonce="B")
        assert self.wrong(ledger, 2) == []
        survivors = find_survivors(report(2), ledger)
        assert survivors.lost == 2
        assert [number for number, _ in survivors.logs["fid", "a"].values()] == [1, 2]

    @pytest.mark.parametrize(
        ("is_rolled_back", "again", "batches", "expected"),
        [
            (False, [], 3, ""),
            (False, [], 2, "3 batches of 15 samples were acknowledged"),
            (True, [], 0, "1 batches of 5 samples were acknowledged"),  # the first is older than the state
            (True, [(2, 1, "B")], 1, "was acknowledged for good"),
            (True, [(3, 4, "A")], 4, "counts twice: a at 3, a at 4"),
            (True, [(3, 2, "A")], 2, ""),
            (True, [(2, 2, "B"), (3, 2, "B")], 2, "at 2 in one epoch"),
        ],
    )
    def test_what_may_be_lost(
        self, ledger: Ledger, is_rolled_back: bool, again: list[tuple[int, int, str]], batches: int, expected: str
    ):
        """again: numbers, positions and nonces of picks that are told after it."""
        if is_rolled_back:
            rolled_back(ledger, self.middle)
        for number, position, nonce in again:
            told(ledger, number, position=position, nonce=nonce)
        wrong = self.wrong(ledger, batches)
        assert any(expected in line for line in wrong) if expected else wrong == []

    def test_an_answer_of_unknown_side_gives_way(self, ledger: Ledger):
        sent = time.monotonic()
        rolled_back(ledger, self.middle)
        told(ledger, 4, position=2, nonce="A", sent=sent)
        told(ledger, 2, position=2, nonce="B")
        assert self.wrong(ledger, 2) == []

    def test_a_batch_counted_for_another_generator(self, ledger: Ledger):
        rolled_back(ledger, self.middle)
        told(ledger, 3, "b", position=2, counted_for="a", nonce="B")
        (wrong,) = ledger.violations
        assert wrong.startswith("generators mixed")

    def test_an_estimate_may_go_back_with_redis_only(self, ledger: Ledger):
        handed(ledger, 4, positions=(3, 0, 0), nonce="A")
        rolled_back(ledger, self.middle)
        handed(ledger, 5, positions=(2, 0, 0), nonce="B")
        assert checks.check_picks(ledger) == []
        handed(ledger, 6, positions=(1, 0, 0), nonce="B")
        assert len(checks.check_picks(ledger)) == 1


def test_a_refused_pick_is_dropped_only_after_a_rollback():
    ledger = Ledger()
    pick = handed(ledger, 1)
    ledger.unresolved[pick.key] = pick
    refused, busy = (Refused("POST", status, b"") for status in (404, 422))
    assert not ledger.drop(pick, refused)
    rolled_back(ledger, 0.0)
    assert not ledger.drop(pick, busy)
    assert ledger.drop(pick, refused)
    assert (ledger.unresolved, ledger.dropped) == ({}, 1)
    assert not ledger.drop(handed(ledger, 1), refused)


@pytest.mark.faults
async def test_the_logs_hold_what_was_acknowledged(redis: RedisServer):
    ledger, question = Ledger(), QUESTIONS[0]

    def wrong() -> list[str]:
        return check_logs(client, [question], ledger, find_survivors(report(2), ledger))

    def log(g: int, pick: Picked, seq: str = "*") -> None:
        body = question.body(pick.told.generator, pick.told.size, pick.told.seed)
        client.xadd(f"optimist:{{fid}}:log:{g}", {"pick": pick.number, "body": body}, id=seq)

    with redis.client() as client:
        first, second = (told(ledger, number, position=number) for number in (1, 2))
        for pick in (first, second):
            log(0, pick, f"{pick.number}-0")
        other = told(ledger, 3, "b", position=1)
        assert wrong() == []
        log(0, other)
        assert len(wrong()) == 1
        assert "generators mixed" in wrong()[0]
        log(1, other)
        assert any("pick 3 stands in the logs 2 times" in line for line in wrong())
        log(1, replace(other, told=Told("b", 5, 0)))
        assert any("never made for it" in line for line in wrong())
        client.delete("optimist:{fid}:log:0", "optimist:{fid}:log:1")
        log(0, second, "1-0")
        (moved,) = wrong()
        assert "where pick 1 was acknowledged" in moved
