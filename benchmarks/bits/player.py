"""Plays the experiments with the code on PYTHONPATH, and writes their names, then a record of each, as lines of JSON.

    python benchmarks/bits/player.py [--only PATTERN] [--of CHECKOUT] [--list]

`same_bits.py` starts it, with one thread for everything.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from experiments import EXPERIMENTS
from memory import Asked, Made, asked
from served import PAUSE, Disturbed, Served, Service, Worker, serving
from words import Step, exact

import optimist
import optimist_client
from optimist_client import Optimist

ATTEMPTS = 4
AT_ONCE = 4
"""Experiments that are played on the service at once: most of their time is waiting."""


def chosen(only: str | None) -> list[str]:
    """The names that match a pattern of the shell, or have it as a part."""
    return [name for name in EXPERIMENTS if only is None or only in name or fnmatch.fnmatch(name, only)]


def record(name: str, play: Callable[[], list[Step]]) -> None:
    """Write the record of an experiment, or the error that ended it."""
    try:
        steps = play()
    except Exception as error:
        traceback.print_exc()
        steps = [("failed", {"error": f"{type(error).__name__}: {error}"})]
    line = json.dumps({"experiment": name, "steps": [[what, exact(fields)] for what, fields in steps]})
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


class Play:
    """An experiment on a service, up to where the service may be restarted, and from there to its end."""

    def __init__(self, service: Service, name: str, one: Served) -> None:
        self.name, self.one = name, one
        self._optimist = Optimist(service.url, patience=120)
        self._worker: Worker | None = None
        self._rest: Iterator[None] = iter(())

    def begin(self) -> None:
        """Play the first part; what was disturbed is played again, under another name."""
        for attempt in range(1, ATTEMPTS + 1):
            try:
                self._begin(attempt)
                return
            except Disturbed as error:
                print(f"{self.name}, attempt {attempt}: {error}", file=sys.stderr)
        raise Disturbed(f"{ATTEMPTS} times")

    def _begin(self, attempt: int) -> None:
        identifier = "".join(letter if letter.isalnum() else "-" for letter in self.name)
        self._worker = Worker(self._optimist, self.one, f"{identifier}-{attempt}", PAUSE * attempt**2)
        self._rest = self.one.how(self._worker)
        next(self._rest, None)
        if not self.one.restarts:
            self.end()

    def end(self) -> list[Step]:
        """Play what is left, and return all steps."""
        for _ in self._rest:
            pass
        assert self._worker is not None
        return self._worker.steps


def play_served(wanted: Mapping[str, Served]) -> Iterator[None]:
    """Play experiments on a service. It yields while they are being played, before anything is restarted."""
    with ExitStack() as stack:
        service = stack.enter_context(serving())
        pool = stack.enter_context(ThreadPoolExecutor(AT_ONCE))
        plays = [Play(service, name, one) for name, one in wanted.items()]
        # The ones that wait come first.
        plays.sort(key=lambda play: -play.one.settings.get("rescore_growth", 0.0) - ("lease" in play.one.settings))
        begun: list[tuple[Play, Future[None]]] = [(play, pool.submit(play.begin)) for play in plays]
        yield
        # All others are at their end, and these where it may be restarted, before it is.
        for play, future in begun:
            if not play.one.restarts:
                record(play.name, partial(ended, play, future))
        restarted = [(play, future) for play, future in begun if play.one.restarts]
        wait([future for _, future in restarted])
        if restarted:
            service.restart()
        for play, steps in [(play, pool.submit(ended, play, future)) for play, future in restarted]:
            record(play.name, steps.result)


def ended(play: Play, begun: Future[None]) -> list[Step]:
    """All steps of a play. Raises what ended it."""
    begun.result()
    return play.end()


def main() -> None:
    """Play what the command line names."""
    options = argparse.ArgumentParser()
    options.add_argument("--only")
    options.add_argument("--of", type=Path, help="the checkout whose code it must be")
    options.add_argument("--list", action="store_true")
    given = options.parse_args()
    for package in (optimist, optimist_client):
        if given.of is not None and given.of.resolve() not in Path(package.__file__ or "").resolve().parents:
            sys.exit(f"{package.__name__} is that of {package.__file__}, not of {given.of}")
    names = chosen(given.only)
    if given.list:
        print("\n".join(names))
        return
    print(json.dumps(names), flush=True)
    wanted = {name: EXPERIMENTS[name] for name in names}
    on_service = {name: one for name, one in wanted.items() if isinstance(one, Served)}
    playing: Iterator[Any] = play_served(on_service) if on_service else iter(())
    next(playing, None)
    for name, one in wanted.items():
        if isinstance(one, Asked):
            record(name, lambda one=one: list(asked(one)))
        elif isinstance(one, Made):
            record(name, lambda one=one: list(one.steps()))
    for _ in playing:
        pass


if __name__ == "__main__":
    main()
