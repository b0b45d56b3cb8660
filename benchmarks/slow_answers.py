"""Does a decision come too early where scores go with the time that an answer takes, and what does waiting cost?

    python benchmarks/slow_answers.py [simulated | run | served] [--beds latency …] [--workers 1 8 16] [--streams 60]
        [--against CHECKOUT]

Two generators; the score of a sample is the seconds that it takes, lower is better, and `b` is the better one but in
the bed `same`, where both are equal. `length` has equal scores that only go with the time of an answer.

simulated: an `Evaluation` with so many batches of growing size on their way, in simulated time: "as before" decides
whatever is on its way, "by itself" is told the seconds of each batch, "timed" is `Mean(timed=True)`. run:
`optimist.run` with workers that sleep. served: a service with 16 workers, of which one takes ten times as long, until
it is decided. The latency that is told is the model's, or the worker's as well; rows of FID do not go with time.
`--against` does the last two with another checkout as well.
"""

from __future__ import annotations

import argparse
import heapq
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich import box
from rich.console import Console
from rich.table import Table

import optimist
from optimist.experiments.slices import grown_size
from optimist_client import Optimist
from optimist_client.metrics import FID, Mean
from raw import free_port, process, serve

HERE = Path(__file__).resolve().parents[1]
BATCH = 5
HORIZON = 1000
"""Samples after which a stream ends undecided."""
Rows = NDArray[np.float64]


def _normal(uniform: Rows) -> Rows:
    return np.array([NormalDist().inv_cdf(one) for one in uniform])


BEDS: dict[str, tuple[Callable[[Rows], Rows], Callable[[Rows], Rows]]] = {
    "timeout": (lambda u: np.where(u < 0.97, 1.0 + 0.1 * u, 60.0), lambda u: 1.0 + 2.0 * u),
    "lognormal": (lambda u: np.exp(1.3 * _normal(u)), lambda u: 2.2 + 0.2 * _normal(u)),
    "same": (lambda u: np.exp(_normal(u)), lambda u: np.exp(_normal(u))),
    "clear": (lambda u: np.exp(_normal(u)), lambda u: 1.1 + 0.1 * _normal(u)),
}
"""Seconds of a sample of `a` and of `b`, by uniform numbers: means 2.85 and 2, 2.33 and 2.2, equal, 1.65 and 1.1."""


def uniform(stream: int, name: str, start: int, size: int) -> Rows:
    """The uniform numbers (size,) of the samples of a generator from an index on."""
    return np.array(
        [np.random.default_rng((stream, index, name == "a")).random() for index in range(start, start + size)]
    )


def latency(bed: str, stream: int) -> Callable[[str, int, int], tuple[Rows, float]]:
    """Draws scores (size, 1), and the seconds that they take together."""

    def draw(name: str, start: int, size: int) -> tuple[Rows, float]:
        seconds = BEDS[bed][name == "b"](uniform(stream, name, start, size))
        return seconds[:, None], float(seconds.sum())

    return draw


def length(stream: int) -> Callable[[str, int, int], tuple[Rows, float]]:
    """Scores of equal means; the better answers of `a` are longer (correlation .6)."""

    def draw(name: str, start: int, size: int) -> tuple[Rows, float]:
        normal = np.random.default_rng((stream, start, name == "a", 7)).standard_normal((2, size))
        share = 0.6 if name == "a" else 0.0
        seconds = np.exp(share * normal[0] + np.sqrt(1.0 - share**2) * normal[1])
        return normal[0][:, None], float(seconds.sum())

    return draw


def race(draw: Any, workers: int, seed: int, metric: Mean, tells_seconds: bool) -> tuple[str | None, int, float]:
    """The generator that is named, the samples told and the seconds until then, in simulated time."""
    evaluation = optimist.Evaluation(["a", "b"], metric=metric, policy="top-two", seed=seed, paired=False)
    due: list[tuple[float, int, str, int, Rows, float]] = []
    begun, told, pending, batches = Counter[str](), Counter[str](), Counter[str](), Counter[str]()
    now, number = 0.0, 0
    while True:
        decision = evaluation.decision(explain=False, pending=batches)
        if decision.decided or told.total() >= HORIZON:
            return decision.best if decision.decided else None, told.total(), now
        while len(due) < workers and not decision.awaited:
            name = evaluation.ask(pending=batches)
            size = grown_size(BATCH, told[name], pending.total(), 0.0, 1.0)
            rows, seconds = draw(name, begun[name], size)
            heapq.heappush(due, (now + seconds, number, name, begun[name], rows, now))
            begun[name], pending[name], batches[name] = begun[name] + size, pending[name] + size, batches[name] + 1
            number += 1
        now, _, name, start, rows, since = heapq.heappop(due)
        evaluation.tell(name, rows, start=start, seconds=now - since if tells_seconds else None)
        told[name], pending[name], batches[name] = told[name] + len(rows), pending[name] - len(rows), batches[name] - 1


HOWS = {"as before": (False, False), "by itself": (False, True), "timed": (True, True)}


def simulated(options: argparse.Namespace) -> list[list[str]]:
    """A row for each bed, number of workers, and how it is decided."""
    found: list[list[str]] = []
    for bed in options.beds:
        for workers in options.workers:
            for how, (timed, tells) in HOWS.items():
                metric = Mean(higher_is_better=bed == "length", timed=timed)
                draws = [length(s) if bed == "length" else latency(bed, s) for s in range(options.streams)]
                played = [race(draw, workers, s, metric, tells) for s, draw in enumerate(draws)]
                found.append(_row(bed, str(workers), how, played))
                print(found[-1], file=sys.stderr, flush=True)
    return found


def _row(bed: str, workers: str, how: str, played: Sequence[tuple[str | None, int, float]]) -> list[str]:
    named = Counter(best for best, _, _ in played)
    samples, seconds = (statistics.median(values) for values in zip(*(one[1:] for one in played), strict=True))
    counts = [str(named["a"]), str(named["b"]), str(len(played))]
    return [bed, workers, how, *counts, f"{samples:,.0f}", f"{seconds:.3g}"]


UNIT = 0.02
"""Seconds that a worker sleeps for each second of the bed."""


def by_run(bed: str, stream: int) -> tuple[str | None, int, float]:
    """The generator that `optimist.run` names, the samples and the seconds, with 8 workers that sleep `UNIT` of it."""
    draw = latency(bed, stream)

    def sampling(name: str) -> Callable[[int, int], Rows]:
        def sample(size: int, seed: int) -> Rows:
            rows, seconds = draw(name, seed, size)
            time.sleep(UNIT * seconds)
            return rows

        return sample

    begun = time.perf_counter()
    functions = {name: sampling(name) for name in "ab"}
    settings: dict[str, Any] = {"paired": False, "workers": 8, "seed": stream, "budget": HORIZON, "progress": False}
    report = optimist.run(functions, metric=Mean(higher_is_better=False), **settings)
    best = report.decision.best if report.decision.decided else None
    return best, report.samples, time.perf_counter() - begun


def by_service(port: int, bed: str, stream: int) -> tuple[str | None, int, float]:
    """The generator that is named, the samples and the seconds until a report says so, with 16 workers."""
    own, lock, loops = threading.local(), threading.Lock(), list[int]()

    def sampling(name: str) -> Callable[[int, int], Rows]:
        def sample(size: int, seed: int) -> Rows:
            if not hasattr(own, "factor"):
                with lock:
                    own.factor = 1.0 if loops else 10.0
                    loops.append(1)
            seconds = BEDS["clear"][name == "b"](uniform(stream, name, seed, size))
            time.sleep(UNIT * own.factor * float(seconds.sum()))
            if bed == "fid":
                return np.random.default_rng(seed).standard_normal((size, 8)) * (1.15 if name == "a" else 1.0)
            return (own.factor if bed == "latency of both" else 1.0) * seconds[:, None]

        return sample

    with Optimist(f"http://127.0.0.1:{port}") as client:
        metric = Mean(higher_is_better=False)
        if bed == "fid":
            real = np.random.default_rng(1).standard_normal((4000, 8))
            client.create_reference("real", mean=real.mean(0), covariance=np.cov(real.T, bias=True))
            metric = FID(reference="real")
        settings: dict[str, Any] = {"paired": False, "seed": stream, "budget": 4 * HORIZON}
        experiment = client.create_experiment(f"e{stream}", ["a", "b"], metric=metric, **settings)
        begun, functions = time.perf_counter(), {name: sampling(name) for name in "ab"}
        thread = threading.Thread(target=lambda: experiment.run(functions, workers=16, progress=False))
        thread.start()
        while not (report := experiment.report()).ended:
            time.sleep(0.05)
        seconds = time.perf_counter() - begun
        thread.join()
    return report.decision.best if report.decision.decided else None, report.samples, seconds


def played(options: argparse.Namespace) -> list[list[str]]:
    """A row for each bed and checkout, by `optimist.run` or through a service of the checkout."""
    found: list[list[str]] = []
    is_served = options.how == "served"
    for bed in ("latency", "latency of both", "fid") if is_served else options.beds:
        for checkout in (HERE, *([options.against] if options.against else [])):
            with ExitStack() as stack:
                port = 0
                if is_served:
                    directory, port = stack.enter_context(tempfile.TemporaryDirectory(prefix="slow-")), free_port()
                    stack.enter_context(process(serve(port, directory), port, checkout))
                path = {"PYTHONPATH": f"{checkout}/service:{checkout}/clients/python:{HERE}/benchmarks"}
                command = [sys.executable, __file__, f"--play={port}:{bed}", f"--streams={options.streams}"]
                text = subprocess.run(command, env=os.environ | path, check=True, capture_output=True, text=True).stdout
            each = json.loads(text.splitlines()[-1])
            found.append(_row(bed, "16, one slow" if is_served else "8", checkout.name, each))
            print(found[-1], file=sys.stderr, flush=True)
    return found


def main() -> None:
    """Play the beds, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("how", nargs="?", choices=["simulated", "run", "served"], default="simulated")
    parser.add_argument("--beds", nargs="+", choices=[*BEDS, "length"], default=["timeout", "lognormal", "same"])
    parser.add_argument("--workers", nargs="+", type=int, default=[1, 8, 16])
    parser.add_argument("--streams", type=int, default=60)
    parser.add_argument("--against", type=Path)
    parser.add_argument("--play", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.play:
        port, _, bed = options.play.partition(":")
        streams = range(options.streams)
        print(json.dumps([by_service(int(port), bed, s) if int(port) else by_run(bed, s) for s in streams]))
        return
    table = Table(box=box.MARKDOWN)
    for column in ("bed", "workers", "how", "a named", "b named", "of", "samples", "seconds"):
        table.add_column(column)
    for row in simulated(options) if options.how == "simulated" else played(options):
        table.add_row(*row)
    Console(width=160).print(table)


if __name__ == "__main__":
    main()
