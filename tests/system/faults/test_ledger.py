"""A short play of the independent ledger, and what its checks tell apart; the long one is
`python -m tests.chaos.ledger --seeds 4`."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from optimist_client import Optimist, tensors
from tests.chaos.accounts import Accounts, Log, Logged, read_log, totals
from tests.chaos.ledger import (
    BATCH,
    GROWN,
    KINDS,
    NUMBERS,
    QUESTIONS,
    Plan,
    check_formulas,
    check_numbers,
    run,
    standings_in,
)
from tests.support.processes import scored
from tests.support.profiles import is_full

FINAL = 3 * sum(1 + len(question.watch) for question in QUESTIONS)
"""Estimates in the last reports."""
SHORT = Plan(rounds=1200 if is_full() else 400, faults=len(KINDS), lease=3.0, limit=300)


@pytest.mark.long
@pytest.mark.faults
async def test_every_acknowledged_batch_is_in_the_log_once_and_every_number_is_made_again():
    outcome = await run(0, SHORT)
    assert outcome.violations == []
    assert outcome.figures["acknowledged"] >= SHORT.rounds
    assert outcome.figures["faults"] == SHORT.faults
    # Slow workers get fewer samples than `GROWN`: a pick takes a quarter of the lease at most.
    assert BATCH < outcome.figures["largest"] <= GROWN, "picks grow"
    assert outcome.figures["estimates"] > 2 * FINAL


class TestChecks:
    """Faults that are planted into what the ledger sees of a sound log."""

    @pytest.fixture
    def accounts(self) -> Accounts:
        return Accounts()

    @pytest.fixture
    def log(self, accounts: Accounts) -> Log:
        """Three batches of each of two generators, at the indices 0 to 14."""
        log: dict[str, list[Logged]] = {"a": [], "b": []}
        for number, generator in enumerate("aaabbb"):
            rows, start = np.random.default_rng(number).standard_normal((5, 2)), 5 * (number % 3)
            digest = accounts.send(("x", generator), rows, start)
            position = number % 3 + 1
            accounts.acknowledge(digest, generator, position, 0)
            body = tensors.encode({"features": rows})
            log[generator].append(Logged(position, body, None, tuple(range(start, start + 5))))
        return log

    def test_a_sound_log(self, accounts: Accounts, log: Log):
        assert accounts.check("x", log) == []
        assert accounts.violations == []
        assert totals(log) == {"a": (3, 15), "b": (3, 15)}

    @pytest.mark.parametrize(
        ("plant", "expected"),
        [
            (lambda a: a[:2], "lost: Sent(arm=('x', 'a')"),
            (lambda a: [*a, replace(a[2], position=4)], "a batch stands 2 times"),
            (lambda a: [*a, replace(a[2], position=4)], "index 10 counts 2 times"),
            (lambda a: [*a[:2], replace(a[2], body=a[2].body[:-1] + bytes([a[2].body[-1] ^ 1]))], "was never sent"),
            (lambda a: [replace(a[0], position=2), replace(a[1], position=1)], "positions are not 1 to"),
            (lambda a: [replace(a[1], position=1), replace(a[0], position=2), a[2]], "and stands at 1"),
            (lambda a: [replace(a[0], indices=(0, 1, 2, 3, 5)), *a[1:]], "has the indices"),
            (lambda a: [replace(a[0], counted=(0, 1), indices=(0, 1)), *a[1:]], "was acknowledged by"),
        ],
    )
    def test_a_planted_fault(
        self, accounts: Accounts, log: Log, plant: Callable[[list[Logged]], list[Logged]], expected: str
    ):
        wrong = accounts.check("x", {**log, "a": plant([*log["a"]])})
        assert any(expected in line for line in wrong), wrong

    def test_a_batch_of_another_generator(self, accounts: Accounts, log: Log):
        assert any("a batch of ('x', 'b')" in line for line in accounts.check("x", {**log, "a": log["b"]}))

    def test_a_batch_that_was_sent_without_an_answer(self, accounts: Accounts, log: Log):
        """It may be there once, and need not be."""
        rows = np.ones((5, 2))
        accounts.send(("x", "a"), rows, 15)
        assert accounts.check("x", log) == []
        there = Logged(4, tensors.encode({"features": rows}), None, tuple(range(15, 20)))
        assert accounts.check("x", {**log, "a": [*log["a"], there]}) == []
        assert accounts.check("x", {**log, "a": [*log["a"], there, replace(there, position=5)]}) != []

    def test_a_batch_that_does_not_count(self, accounts: Accounts, log: Log):
        """Its indices were told by another one: it is in no log."""
        rows = np.full((5, 2), 2.0)
        accounts.acknowledge(accounts.send(("x", "a"), rows, 0), "a", None, 5)
        assert accounts.check("x", log) == []
        accounts.acknowledge(accounts.send(("x", "a"), rows + 1.0, 15), "a", None, 5)
        assert any("its indices are missing" in line for line in accounts.check("x", log))

    def test_an_answer_that_contradicts(self, accounts: Accounts, log: Log):
        digest = next(iter(accounts.sent))
        accounts.acknowledge(digest, "a", 3, 0)
        assert any("was answered differently" in line for line in accounts.check("x", log))
        accounts.acknowledge(digest, "b", 1, 0)
        assert any("was counted for b" in line for line in accounts.violations)


@pytest.mark.long
def test_numbers_that_differ_in_one_bit(client: Optimist, name: str, tmp_path: Path):
    question, archive, accounts = replace(QUESTIONS[2], name=name), tmp_path / "file", Accounts()
    experiment = client.create_experiment(
        name, ["a", "b", "c"], reference=question.reference, watch=question.watch, keep_log=True, stop=False
    )
    for pick in experiment.picks(max_samples=60):
        rows = np.random.default_rng(pick.number).standard_normal((pick.size, question.dimension))
        digest = accounts.send((name, pick.generator), rows, pick.start)
        reply = pick.tell(rows)
        accounts.acknowledge(digest, reply.generator, reply.position, reply.uncounted)
    report = scored(experiment).model_dump(mode="json")
    experiment.export(archive)
    log = read_log(archive)
    assert accounts.check(name, log) == []
    assert {one["generator"]: (one["batches"], one["samples"]) for _, one in standings_in(report)} == totals(log)
    seen = {
        (label, one["generator"], one["scored_samples"]): tuple(one[field] for field in NUMBERS)
        for label, one in standings_in(report)
    }
    assert len(seen) == 6
    assert check_numbers(archive, seen) == []
    assert check_formulas(question, log, report, archive) == []
    for key, numbers in seen.items():
        for place, number in enumerate(numbers):
            other = [*numbers[:place], math.nextafter(number, math.inf), *numbers[place + 1 :]]
            assert len(check_numbers(archive, {key: tuple(other)})) == 1
    first = log["a"][0]
    body = tensors.encode({"features": first.array + 1e-6})
    moved = {**log, "a": [replace(first, body=body), *log["a"][1:]]}
    assert any("by its formula" in line for line in check_formulas(question, moved, report, archive))
