"""The command of docs/security.md: its figures are in its table and in its JSON."""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

from tests.chaos.attacks import ATTACKS, record, run, table_of
from tests.chaos.hostile import Scale
from tests.chaos.tenants import Call, Waits
from tests.support.profiles import is_full

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
