"""The simulator finds nothing in what is, and every bug that is planted."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.interleavings.__main__ import simulated
from tests.interleavings.planted import SCRIPT_BUGS, planted

RARE = 24, 7
"""Seeds that come first: these find the bugs that few seeds find."""


@pytest.mark.parametrize("seed", range(4))
def test_nothing_breaks_a_promise(seed: int, server: Any):
    asyncio.run(simulated(server, seed, 300))


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 110))
def test_nothing_breaks_a_promise_in_long_runs(seed: int, server: Any):
    asyncio.run(simulated(server, seed, 2000))


@pytest.mark.long
@pytest.mark.parametrize("name", SCRIPT_BUGS)
def test_planted_bugs_are_found(name: str, server: Any):
    with planted(SCRIPT_BUGS[name]), pytest.raises(Exception) as found:
        run_until_found(server)
    assert found.value.__notes__, "the last steps are shown"


def run_until_found(server: Any) -> None:
    for seed in (*RARE, *range(60)):
        asyncio.run(simulated(server, seed, 1000))
