"""One tenant hammers on the service, or on the scorer; the other one's rounds go on as before."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.chaos import crowding
from tests.chaos.hostile import Scale, hammering
from tests.chaos.tenants import Neighbour, Tenants, two_tenants

from tests.support.processes import until  # isort: skip  (found by `tenants`)

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
    assert stale <= 0.05 * picks
