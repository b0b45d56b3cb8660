"""Plays experiments on a service: one worker each, and what only a service does."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import words
from words import Step
from world import PROMPT_WIDTH, PROMPTS, World

from optimist_client import Experiment, Optimist, Pick, Report

PAUSE = 3.0
"""Seconds in which a scorer makes the model of contexts that is due, if the machine has nothing else to do."""
LEASE = 6.0
"""Seconds of a lease that is to run out."""
PATIENCE = 180.0
"""Seconds that estimates are waited for."""


class Disturbed(Exception):
    """Something took so long that the experiment went another way: it must be played again."""


class Service:
    """`optimist serve` of the checkout that PYTHONPATH names, on one place of this process's own."""

    def __init__(self, place: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        self._command = [sys.executable, "-m", "optimist.cli", "serve", f"--port={port}", f"--data-dir={place}"]
        self._log = place / "service.log"
        self._start()

    def _start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log)

    def stop(self) -> None:
        """Stop it, and wait until it has ended."""
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(60)

    def restart(self) -> None:
        """Stop and start it: what its scorer held in memory is gone."""
        self.stop()
        self._start()


@contextlib.contextmanager
def serving() -> Generator[Service]:
    """A service whose Redis writes to memory, where there is such a place."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as place:
        service = Service(Path(place))
        try:
            yield service
        finally:
            service.stop()


@dataclass(frozen=True)
class Served:
    """An experiment on a service."""

    world: World
    settings: Mapping[str, Any]
    how: Callable[[Worker], Iterator[None]]
    """Plays it. It yields where the service may be restarted."""
    reads: tuple[str, ...] = ("features",)
    generators: Sequence[str] = ("a", "b", "c")
    restarts: bool = False


class Worker:
    """One worker of an experiment, which keeps the steps. Raises Disturbed where a pick was made too early."""

    def __init__(self, optimist: Optimist, one: Served, name: str, pause: float) -> None:
        """pause: seconds in which a scorer makes the model of contexts that is due."""
        self.optimist, self.one, self.name, self.pause = optimist, one, name, pause
        how: dict[str, Any] = {"max_wait": 60, "stop": False, **one.settings}
        self.experiment: Experiment = optimist.create_experiment(name, list(one.generators), **how)
        self.steps: list[Step] = []
        self._reports = 0

    def ask(self, **given: Any) -> Pick | None:
        """The next pick, made from every estimate that is due; None at the end."""
        self._settled()
        pick = self.experiment.ask(**given)
        return pick and self.seen(pick)

    def seen(self, pick: Pick) -> Pick:
        """A pick that is kept as a step."""
        if pick.info.stale:
            raise Disturbed(f"pick {pick.number} did not wait for its estimates")
        self.steps.append((f"pick {pick.number}", words.pick(pick)))
        return pick

    def tell(self, pick: Pick, rows: int | None = None, is_late: bool = False) -> None:
        """Tell the samples of a pick: of its indices, or where it has none those of its number."""
        start = pick.number * 7 if pick.start is None else pick.start
        prompts = [PROMPTS.index(text) for text in pick.prompts] if pick.prompts else None
        size = pick.size if rows is None else rows
        batch = self.one.world.batch(pick.generator, range(start, start + size), prompts and prompts[:size])
        self.told(pick, {array: batch[array] for array in self.one.reads}, is_late)

    def told(self, pick: Pick, batch: Mapping[str, Any], is_late: bool = False) -> None:
        """Tell a batch."""
        reply = pick.tell(batch)
        if reply.late != is_late:
            raise Disturbed(f"pick {pick.number} was {'late' if reply.late else 'in time'}")
        self.steps.append((f"reply to pick {pick.number}", words.told(reply)))

    def rounds(self, count: int) -> None:
        """Ask and tell."""
        for _ in range(count):
            if (pick := self.ask()) is None:
                return
            self.tell(pick)

    def report(self) -> None:
        """Keep the report once everything that is due was made."""
        self._reports += 1
        found = self._settled(watched=True)
        self.steps += words.report(found, place=f"in report {self._reports}")

    def _settled(self, watched: bool = False) -> Report:
        """The report, once everything that is due was made; watched: by the watched metrics, too."""
        deadline = time.monotonic() + PATIENCE
        while not (
            (found := self.experiment.report()).scored
            and (not watched or all(one.is_settled for one in found.watched.values()))
        ):
            if time.monotonic() > deadline:
                raise Disturbed("estimates were not made in time")
            time.sleep(0.01)
        return found


def plain(worker: Worker) -> Iterator[None]:
    """Thirty rounds; the service may be restarted in the middle."""
    worker.rounds(18)
    worker.report()
    yield
    worker.rounds(12)
    worker.report()


def with_modes(worker: Worker) -> Iterator[None]:
    """The same, then modes of a generator."""
    yield from plain(worker)
    worker.steps.append(("modes of a", words.modes(worker.experiment.modes("a").modes)))


def retracted(worker: Worker) -> Iterator[None]:
    """Batches are retracted in the middle: one by its pick, one by its position."""
    yield from plain(worker)
    worker.experiment.retract(pick=4, reason="wrong checkpoint")
    worker.experiment.retract(generator="a", position=5)
    worker.rounds(12)
    worker.report()


def late(worker: Worker) -> Iterator[None]:
    """Leases run out: one pick is told late after another one got its indices, one before."""
    worker.rounds(7)
    held = [pick for pick in (worker.ask(generators=["a"]), worker.ask(generators=["a"])) if pick is not None]
    time.sleep(LEASE + 1.0)
    if (again := worker.ask(generators=["a"])) is not None:
        worker.tell(again)
    for pick in held:
        worker.tell(pick, is_late=True)
    worker.rounds(9)
    worker.report()
    yield


def given_up(worker: Worker) -> Iterator[None]:
    """Several picks are open; some are given up, some told with fewer rows, in another order."""
    for _ in range(8):
        picks = [pick for _ in range(3) if (pick := worker.ask()) is not None]
        picks[1].give_up("no reason")
        worker.tell(picks[2])
        worker.tell(picks[0], rows=max(1, picks[0].size - 1))
        worker.report()
    for pick in [worker.ask(generators=["a"]) for _ in range(3)]:
        if pick is not None:
            pick.give_up()
    # The lowest indices come from the newest pick now, and are handed out again before those of earlier ones.
    if (again := worker.ask(generators=["a"])) is not None:
        again.give_up()
    worker.rounds(10)
    worker.report()
    yield


def blended(worker: Worker) -> Iterator[None]:
    """For the best mixture, which is then served."""
    yield from plain(worker)
    worker.steps.append(("mixture", words.mixture(worker.experiment.mixture())))
    worker.steps.append(("blend", {"counts": [worker.experiment.blend(9).counts for _ in range(3)]}))


def changed(worker: Worker) -> Iterator[None]:
    """Generators are paused, added and retired, and the budget grows."""
    worker.rounds(10)
    worker.experiment.set_state("b", "paused")
    worker.experiment.add_generator("d")
    worker.rounds(10)
    worker.experiment.set_state("b", "active")
    worker.experiment.set_state("c", "retired")
    worker.rounds(100)
    worker.report()
    worker.experiment.resume(budget=180)
    worker.rounds(100)
    worker.report()
    yield


def priced(worker: Worker) -> Iterator[None]:
    """Until the costs are spent; a cost changes."""
    worker.rounds(12)
    worker.experiment.set_cost("b", 2.5)
    worker.rounds(100)
    worker.report()
    yield


def exported(worker: Worker) -> Iterator[None]:
    """Exported in the middle; the copy goes on, then the original."""
    worker.rounds(15)
    worker.report()
    with tempfile.TemporaryDirectory() as place:
        file = Path(place) / "archive"
        worker.experiment.export(file)
        original = worker.experiment
        worker.experiment = worker.optimist.import_experiment(file, f"{worker.name}-copy")
    for experiment in (worker.experiment, original):
        worker.experiment = experiment
        worker.report()
        worker.rounds(10)
        worker.report()
    yield


def routed(worker: Worker) -> Iterator[None]:
    """Prompts are routed. Each round asks for as many picks as have been told, and only its last tell makes the next
    model of contexts due, as samples must double: so each round is chosen by one model of all before it."""
    settings = worker.one.settings
    is_open = settings["context_bandwidth"] == "median"
    warmup = 51 if is_open else settings.get("warmup", 3) * len(worker.one.generators)
    sizes = [warmup, 20] if is_open else [warmup, 2 * warmup, 4 * warmup, 5]
    rng, total = np.random.default_rng(3), 0
    for size in [1] * warmup + sizes:
        kinds = rng.integers(len(PROMPTS), size=size)
        contexts = [worker.one.world.batch("a", [kind], [kind])["prompts"][0] for kind in kinds]
        if size > 1:
            time.sleep(worker.pause)
        picks = [worker.seen(pick) for pick in worker.experiment.ask_all(contexts, [PROMPTS[kind] for kind in kinds])]
        if size > 1 and any(sum(pick.info.positions) not in (0, total) for pick in picks):
            raise Disturbed(
                f"the model of contexts is of {sorted({sum(pick.info.positions) for pick in picks})}, not {total}"
            )
        for pick, kind in zip(picks, kinds, strict=True):
            good = 0.85 if (kind + ord(pick.generator)) % 3 else 0.3
            score = float(rng.random() < good) if worker.one.reads == ("successes",) else good + 0.1 * rng.random()
            worker.told(pick, {"values": np.full((pick.size, 1), score)})
        total += size
    worker.steps.append(("route table", words.route_table(worker.experiment.route_table())))
    worker.report()
    yield


def routes(world: World | None = None, **settings: Any) -> Served:
    """A router of a metric of numbers."""
    how = {"goal": "route", "context": PROMPT_WIDTH, "context_features": 16, "rescore_growth": 1.0}
    given = {**how, "context_bandwidth": 1.5, **settings}
    reads = ("successes",) if given["metric"] == "win-rate" else ("values",)
    return Served(world or World(8), given, routed, reads)
