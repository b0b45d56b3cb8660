"""What picks ahead save of a worker's time, and what they cost in samples (`run(…, ahead=1)`).

    python benchmarks/ahead.py [--workers 1 4 16] [--runs 10] [--milliseconds 5]

Every run is an experiment of a real service until its decision: four generators of rows (d = 8), FID against a
reference of which one is nearest, and loops of the SDK that sleep for each sample as a model would take. Runs with and
without picks ahead take turns on the same seeds. "waiting" is the share of the workers' time in which they generate
nothing.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import threading
import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from rich import box
from rich.console import Console
from rich.table import Table

from optimist_client import Optimist
from optimist_client.metrics import FID
from raw import free_port, process, serve

DIMENSION = 8
SHIFTS = {"best": 0.0, "near": 0.35, "second": 0.5, "far": 0.8}


class Clock:
    """The seconds that workers generated."""

    def __init__(self, milliseconds: float) -> None:
        self._pause, self._lock, self.seconds = milliseconds / 1000.0, threading.Lock(), 0.0

    def generator(self, name: str, run: int) -> Callable[[int, int], NDArray[np.float64]]:
        """A function (size, seed) → rows (size, d)."""

        def generate(size: int, seed: int) -> NDArray[np.float64]:
            begun = time.perf_counter()
            time.sleep(size * self._pause)
            with self._lock:
                self.seconds += time.perf_counter() - begun
            return np.random.default_rng((run, seed)).standard_normal((size, DIMENSION)) + SHIFTS[name]

        return generate


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 4, 16])
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--milliseconds", type=float, default=5.0, help="of each sample")
    options = parser.parse_args()
    table = Table(box=box.MARKDOWN)
    for column in ("workers", "ahead", "samples (median)", "s to the decision", "waiting", "wrong"):
        table.add_column(column, no_wrap=True)
    reference = np.zeros(DIMENSION), np.eye(DIMENSION)
    port = free_port()
    with (
        tempfile.TemporaryDirectory() as folder,
        process(serve(port, folder), port),
        Optimist(f"http://127.0.0.1:{port}") as client,
    ):
        for workers in options.workers:
            found: dict[int, list[tuple[int, float, float, bool]]] = {0: [], 1: []}
            for run in range(options.runs):
                for ahead in (0, 1) if run % 2 == 0 else (1, 0):
                    name, clock = f"w{workers}-a{ahead}-{run}", Clock(options.milliseconds)
                    experiment = client.create_experiment(
                        name, [*SHIFTS], metric=FID(reference=reference), seed=run, budget=20_000
                    )
                    functions = {each: clock.generator(each, run) for each in SHIFTS}
                    begun = time.perf_counter()
                    report = experiment.run(functions, workers=workers, ahead=ahead, progress=False)
                    took = time.perf_counter() - begun
                    is_wrong = report.decision.best != "best"
                    found[ahead].append((report.samples, took, 1.0 - clock.seconds / (workers * took), is_wrong))
            for ahead, runs in found.items():
                samples, took, waiting = (statistics.median(each[place] for each in runs) for place in range(3))
                wrong = f"{sum(each[3] for each in runs)} of {len(runs)}"
                table.add_row(f"{workers}", f"{ahead}", f"{samples:.0f}", f"{took:.1f}", f"{waiting:.0%}", wrong)
    Console(width=200).print(table)


if __name__ == "__main__":
    main()
