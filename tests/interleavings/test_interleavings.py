"""The simulator finds nothing in what is, and every bug that is planted."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.interleavings.planted import BUGS
from tests.interleavings.simulator import Simulation


@pytest.mark.parametrize("seed", range(20))
def test_nothing_breaks_a_promise(seed: int):
    Simulation(seed).run(2000)


@pytest.mark.long
@pytest.mark.parametrize("first", range(100, 300, 20))
def test_nothing_breaks_a_promise_in_long_runs(first: int):
    for seed in range(first, first + 20):
        Simulation(seed).run(4000)


def test_a_seed_is_one_run():
    one, other = Simulation(7), Simulation(7)
    for simulation in (one, other):
        simulation.run(500)
    assert list(one.trace) == list(other.trace)
    assert one.store.contents == other.store.contents


@pytest.mark.long
@pytest.mark.parametrize("plant", BUGS)
def test_planted_bugs_are_found(plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch):
    plant(monkeypatch)
    with pytest.raises(Exception) as found:  # a broken rule, or an error of what rests on it
        run_until_found()
    assert found.value.__notes__, "the last steps are shown"


def run_until_found() -> None:
    for seed in range(100):
        Simulation(seed).run(2500)
