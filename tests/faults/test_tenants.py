"""One tenant hammers on the service; the other's rounds all succeed, and go on."""

from __future__ import annotations

import pytest

from .hostile import Scale, hammering
from .tenants import Neighbour, two_tenants

from processes import until  # isort: skip  (found by `tenants`)

SMALL = Scale(rows=4000, at_once=2, body=2**23, dimension=256)
"""Two slow bodies take all the memory that the service of the test has for bodies."""


@pytest.mark.faults
def test_the_rounds_of_one_tenant_go_on_while_another_one_hammers():
    limits = {"OPTIMIST_MAX_BODY": SMALL.body, "OPTIMIST_MAX_MEMORY": 2 * SMALL.body}
    with (
        two_tenants(**{name: str(value) for name, value in limits.items()}) as tenants,
        hammering(tenants, SMALL) as answers,
        Neighbour(tenants) as neighbour,
    ):
        # All of it is going on, whatever is answered to it.
        until(lambda: {text.split()[0] for text in answers} >= {"ask", "upload", "zeros"})
        before = neighbour.rounds()
        until(lambda: neighbour.rounds() >= before + 40)
    assert neighbour.failures == []
