"""The time of one complete FID estimate: value, both errors, and the influence of 256 common rows.

    python benchmarks/estimates.py [--against CHECKOUT] [--threads 1] [--repeats 3] [--dimension 2048] [--wall]
    python benchmarks/estimates.py --in-pool-thread --samples 850 1300 --repeats 1 --turns 6 --against CHECKOUT

Rows: sample counts, by default some multiples of d. With --in-pool-thread all is computed in a thread of a scorer's
pool, on as many threads as the scorer gives it, otherwise in the main thread. The jackknife's part is computed once per
stream while it has 300 samples or more, and is not counted there. Peers, timed in turns in the same process: `eigh` of
one matrix of min(n, d) rows by torch, and `scipy.linalg.sqrtm` at a quarter of d, multiplied by 64, which alone is what
pytorch-fid computes: no error comes with it. With another checkout of this project both are measured in turns, each
turn in a process of its own. Times are medians of processor seconds, with the lowest and the highest turn; with --wall
of wall-clock seconds, which several threads can lower.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

FRACTIONS = (0.05, 0.14, 0.5, 1.0, 1.2, 2.0)
"""Sample counts by default, as multiples of d."""
COMMON = 256


def features(rows: int, dimension: int, scale: float, seed: int) -> NDArray[np.float64]:
    """Normal rows (n, d) with variances scale²/k."""
    normal = np.random.default_rng(seed).standard_normal((rows, dimension))
    return scale * normal * np.arange(1, dimension + 1) ** -0.5 + 0.05


def in_this_thread(threads: int, measure: Callable[[], dict[str, list[float]]]) -> dict[str, list[float]]:
    """Measure with `threads` threads for torch and every BLAS."""
    import_module("scipy.linalg")  # loads its BLAS
    import torch
    from threadpoolctl import threadpool_limits

    torch.set_num_threads(threads)
    with threadpool_limits(threads):
        return measure()


def in_pool_thread(measure: Callable[[], dict[str, list[float]]]) -> dict[str, list[float]]:
    """Measure in a thread of a scorer's pool."""
    from optimist.scoring.threads import Threads

    return Threads(1, 1).pools[True].submit(measure).result()


def measured(dimension: int, counts: list[int], repeats: int, clock: Callable[[], float]) -> dict[str, list[float]]:
    """Median seconds by kind, one for each of `counts` samples, of the project that is imported here."""
    import scipy.linalg
    import torch

    from optimist.metrics.fid.reference import FrechetReference
    from optimist.metrics.fid.score import FrechetDistance
    from optimist.metrics.fid.statistic import GaussianStatistic

    real = features(4 * dimension, dimension, 1.0, 1)
    score = FrechetDistance(FrechetReference(real.mean(0), np.cov(real.T, bias=True)))
    rows = torch.from_numpy(features(max(counts), dimension, 1.05, 0))
    common = {"features": torch.from_numpy(features(COMMON, dimension, 1.05, 2))}
    part = score.reference.covariance[: dimension // 4, : dimension // 4].numpy()
    found: dict[str, list[float]] = {"estimate": [], "eigh": [], "sqrtm": []}
    for samples in counts:
        statistic = GaussianStatistic(dimension, keep=score.reference.rank)
        statistic.update(rows[:samples])
        calls: dict[str, Callable[[], Any]] = {
            "estimate": partial(score.analyse, statistic, common),
            "eigh": partial(torch.linalg.eigh, score.reference.covariance[:samples, :samples]),
            "sqrtm": partial(scipy.linalg.sqrtm, part @ part),
        }
        calls["estimate"]()
        times: dict[str, list[float]] = {kind: [] for kind in calls}
        for _ in range(repeats):
            for kind, call in calls.items():
                begun = clock()
                call()
                times[kind].append((64.0 if kind == "sqrtm" else 1.0) * (clock() - begun))
        for kind, each in times.items():
            found[kind].append(statistics.median(each))
    return found


def turn(checkout: Path, arguments: list[str]) -> dict[str, list[float]]:
    """One turn of a checkout, in a process of its own."""
    path = os.pathsep.join(str(checkout / folder) for folder in ("service", "clients/python"))
    command = [sys.executable, __file__, "--here", *arguments]
    answer = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": path}, check=True, stdout=subprocess.PIPE, text=True
    )
    return json.loads(answer.stdout)


def main() -> None:
    """Measure and print."""
    from rich.console import Console
    from rich.progress import track
    from rich.table import Table

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", type=Path, help="another checkout, to be measured in turns with this one")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=3, help="estimates of each size in a turn")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--dimension", type=int, default=2048)
    parser.add_argument("--samples", type=int, nargs="*")
    parser.add_argument("--in-pool-thread", action="store_true")
    parser.add_argument("--wall", action="store_true")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    counts = options.samples or [round(fraction * options.dimension) for fraction in FRACTIONS]
    if options.here:
        clock = time.perf_counter if options.wall else time.process_time
        measure = partial(measured, options.dimension, counts, options.repeats, clock)
        found = in_pool_thread(measure) if options.in_pool_thread else in_this_thread(options.threads, measure)
        print(json.dumps(found), flush=True)
        return
    here = Path(__file__).resolve().parents[1]
    checkouts = [here] if options.against is None else [options.against.resolve(), here]
    arguments = [f"--{name}={getattr(options, name)}" for name in ("repeats", "dimension", "threads")]
    arguments += [f"--{name.replace('_', '-')}" for name in ("wall", "in_pool_thread") if getattr(options, name)]
    arguments += ["--samples", *map(str, counts)]
    turns: dict[Path, list[dict[str, list[float]]]] = {checkout: [] for checkout in checkouts}
    for number in track(range(options.turns), description="turns"):
        for checkout in checkouts[:: 1 if number % 2 else -1]:
            turns[checkout].append(turn(checkout, arguments))

    def median(checkout: Path, kind: str, place: int) -> float:
        return statistics.median(one[kind][place] for one in turns[checkout])

    def shown(checkout: Path, place: int) -> str:
        times = sorted(one["estimate"][place] for one in turns[checkout])
        return f"{statistics.median(times):.3f} ({times[0]:.3f}–{times[-1]:.3f})"

    clock_name = "wall-clock" if options.wall else "processor"
    machine = f"{platform.machine()}, {os.cpu_count()} cores"
    machine += ", a thread of the scorer's pool" if options.in_pool_thread else f", {options.threads} threads"
    table = Table(title=f"One FID estimate, d = {options.dimension}, {clock_name} seconds; {machine}")
    columns = ("samples", "seconds", "eigh", "÷ eigh", "sqrtm ÷ this")
    for column in (*columns, *(["before", "÷ before"] if options.against else [])):
        table.add_column(column)
    for place, samples in enumerate(counts):
        ours, eigh, root = (median(here, kind, place) for kind in ("estimate", "eigh", "sqrtm"))
        cells = [shown(here, place), f"{eigh:.3f}", f"{ours / eigh:.2f}", f"{root / ours:.0f}"]
        if options.against:
            ratios = [
                new["estimate"][place] / old["estimate"][place]
                for old, new in zip(turns[checkouts[0]], turns[here], strict=True)
            ]
            cells += [shown(checkouts[0], place), f"{statistics.median(ratios):.2f}"]
        table.add_row(str(samples), *cells)
    Console(width=140).print(table)


if __name__ == "__main__":
    main()
