"""The simulator finds nothing in what is, and every bug that is planted."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial

import pytest

from optimist.dispatch.writer import Writer
from optimist.experiments.transitions import controls
from optimist.experiments.transitions.picks import Asked
from tests.interleavings.invariants import tables_of
from tests.interleavings.operations import LABEL, Drawer
from tests.interleavings.planted import BUGS
from tests.interleavings.redis_contents import plain
from tests.interleavings.simulator import Simulation
from tests.support.memory_store import MemoryStore


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


@pytest.mark.parametrize("seed", range(4))
def test_commands_of_one_step_are_as_those_of_several(seed: int):
    r, now = random.Random(seed), 1e9
    together, alone = MemoryStore(lambda: now), MemoryStore(lambda: now)
    writers = {store: Writer(f"{place}", lambda: now) for place, store in enumerate((together, alone))}
    units: dict[str, str] = {}
    drawer = Drawer(r, lambda: units, lambda: writers[alone].tables.root)
    create = partial(controls.create, root=drawer.new_root(), config="{}", names=["g0", "g1", "g2"])
    for step in range(100):
        if tables_of(alone).root is None:
            drawer.picks.clear()
            for store, writer in writers.items():
                store.run(writer.run([create]))
        now += r.choice([0.1, 0.1, 2.0])
        commands = [drawer.draw(r.randrange(4)).command for _ in range(6)]
        if r.random() < 0.1:
            units |= {f"{g}:{LABEL}:{fact}": f"{step}" for g in range(3) for fact in ("made", "seq")}
            for store in writers:
                store.contents.hashes.setdefault("units", {}).update(units)
        replies = together.run(writers[together].run(commands))
        others = [alone.run(writers[alone].run([command]))[0] for command in commands]
        assert list(map(repr, replies)) == list(map(repr, others))
        drawer.picks += (
            (number, writers[alone].tables.picks[number].nonce)
            for reply in others
            if isinstance(reply, Asked)
            for number in reply.numbers
            if number in writers[alone].tables.picks
        )
        # The order of a ring may have names of rows that are gone.
        assert plain(together.contents) | {"orders": {}} == plain(alone.contents) | {"orders": {}}


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
