"""One tenant hammers on the service, or on the scorer, and the other one's rounds go on as before; the command of
docs/security.md."""

from __future__ import annotations

import io
import json
import time
from collections.abc import Iterator

import pytest
from rich.console import Console

from tests.chaos import crowding
from tests.chaos.attacks import ATTACKS, record, run, table_of
from tests.chaos.hostile import Scale, hammering
from tests.chaos.tenants import Call, Neighbour, Tenants, Waits, two_tenants
from tests.support.processes import until
from tests.support.profiles import is_full

SMALL = Scale(rows=4000, at_once=2, body=2**25, dimension=256)
"""Two slow bodies take all the memory that the service of the tests has for bodies."""


@pytest.fixture(scope="module")
def tenants() -> Iterator[Tenants]:
    limits = {"OPTIMIST_MAX_BODY": SMALL.body, "OPTIMIST_MAX_MEMORY": 2 * SMALL.body}
    with two_tenants(**{name: str(value) for name, value in limits.items()}) as tenants:
        yield tenants


@pytest.mark.long
@pytest.mark.faults
def test_the_rounds_of_one_tenant_go_on_while_another_one_hammers(tenants: Tenants):
    with hammering(tenants, SMALL) as answers, Neighbour(tenants) as neighbour:
        # All of it is going on, whatever is answered to it.
        until(lambda: {text.split()[0] for text in answers} >= {"ask", "upload", "tell"})
        before = neighbour.rounds()
        until(lambda: neighbour.rounds() >= before + 20)
    assert neighbour.failures == []


@pytest.mark.long
@pytest.mark.faults
def test_picks_of_one_tenant_are_not_stale_while_another_one_keeps_the_scorer_busy(tenants: Tenants):
    """Estimates of `noisy` are always behind its tells; `quiet` waits for none of them, and all of both come."""
    load = crowding.Load(dimension=1024)
    crowding.prepare(tenants, load)
    with Neighbour(tenants, loops=2, pause=0.05) as neighbour, crowding.hammering(tenants, load):
        until(lambda: all(told >= 2 * load.rows for _, told in crowding.standings(tenants).values()))
        begun, before = time.monotonic(), neighbour.rounds()
        until(lambda: neighbour.rounds() >= before + 30)
        ended = time.monotonic()
        until(lambda: all(scored > 0 for scored, _ in crowding.standings(tenants).values()))
    stale, picks = neighbour.stale(begun, ended)
    assert neighbour.failures == []
    # One delay on a busy machine makes a pick of each of both loops stale; without turns most picks would be.
    assert stale <= picks / 4


TINY = Scale(rows=100, at_once=2, body=2**20, hold=2.0)


@pytest.mark.long
@pytest.mark.faults
def test_attacks_come_out_as_a_table():
    names = ("large-batches", "more-rows") if is_full() else ("large-batches",)
    chosen = [attack for attack in ATTACKS if attack.name in names]
    found = json.loads(json.dumps(record(run(chosen, TINY))))
    figures = {name: outcome["figures"] for name, outcome in found.items()}
    assert not [line for lines in figures.values() for line in lines if "could not be tried" in line]
    # At this scale the attack is over before a whole round of the others is.
    assert found["large-batches"]["numbers"]["others"]["ask"]["calls"] > 0
    printed = io.StringIO()
    console = Console(width=10_000, file=printed)
    console.print(table_of({"before": figures, "after": figures}))
    rows = [line for line in printed.getvalue().splitlines() if line.startswith("| ")]
    assert len(rows) == 1 + len(chosen)
    for attack, row in zip(chosen, rows[1:], strict=True):
        assert [cell.strip() for cell in row.split("|")[1:3]] == [attack.description, attack.limit]
        assert row.count("; ".join(figures[attack.name])) == 2


def test_waits_of_calls():
    calls = [Call("ask", 0.0, 0.1 * n, n == 10, n < 10) for n in range(1, 11)]
    assert Waits.of(calls) == Waits(10, p50=0.6000000000000001, p99=1.0, longest=1.0, refused=1, unanswered=1)
    assert str(Waits.of([])) == "none"
