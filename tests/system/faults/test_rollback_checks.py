"""Redis returns to an earlier state, and the checks distinguish batches that may be lost from those that may not."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.chaos import checks
from tests.chaos.processes import RedisServer, ending
from tests.chaos.questions import QUESTIONS
from tests.chaos.rollback import KEPT, Past
from tests.chaos.survivors import check_logs, find_survivors
from tests.chaos.wire import Refused
from tests.chaos.workers import Ledger, Picked, Told
from tests.support.ledgers import handed, report, rolled_back, told


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

    def test_nothing_may_be_lost_without_one(self, ledger: Ledger):
        assert self.wrong(ledger, 3) == []
        assert any("3 batches of 15 samples were acknowledged" in line for line in self.wrong(ledger, 2))

    def test_what_is_older_than_the_state_may_not_be_lost(self, ledger: Ledger):
        rolled_back(ledger, self.middle)
        assert any("1 batches of 5 samples were acknowledged" in line for line in self.wrong(ledger, 0))
        told(ledger, 2, position=1, nonce="B")
        assert any("was acknowledged for good" in line for line in self.wrong(ledger, 1))

    def test_a_batch_that_counts_on_both_sides(self, ledger: Ledger):
        rolled_back(ledger, self.middle)
        told(ledger, 3, position=4, nonce="A")
        assert any("counts twice: a at 3, a at 4" in line for line in self.wrong(ledger, 4))

    def test_a_batch_lost_and_told_again_counts_once(self, ledger: Ledger):
        rolled_back(ledger, self.middle)
        told(ledger, 3, position=2, nonce="A")
        assert self.wrong(ledger, 2) == []

    def test_two_batches_at_one_position(self, ledger: Ledger):
        rolled_back(ledger, self.middle)
        for number in (2, 3):
            told(ledger, number, position=2, nonce="B")
        assert any("at 2 in one epoch" in line for line in self.wrong(ledger, 2))

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
