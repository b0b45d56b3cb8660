"""A whole trial as in the papers, in memory: T batches of b samples, G generators, FID, through `Evaluation`.

    python benchmarks/trial.py [--quick] [--threads 2] [--rounds 1000] [--dimension 2048] [--cpu-time]

The preset fd-ucb scores every batch exactly; the default policy scores when the samples have grown by 4 %. Generators
are normal with power-law variances, scaled by 1.00, 1.05 … like variance-controlled ones. The last columns show what T
scores by `scipy.linalg.sqrtm` would take, computed from one call at a quarter of the dimension, multiplied by 64. With
--cpu-time the times are processor time, for a machine with other work.
"""

from __future__ import annotations

import argparse
import os
import platform
import time
from collections.abc import Callable

import numpy as np
import scipy.linalg
import torch
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import track
from rich.table import Table
from threadpoolctl import threadpool_limits

from optimist import Evaluation

GENERATORS = ("a", "b", "c", "d", "e")
BATCH = 5
POLICIES = ("fd-ucb", "ucb")


def features(rows: int, dimension: int, scale: float, rng: np.random.Generator) -> NDArray[np.float64]:
    """Normal rows (n, d) with variances scale²/k."""
    return scale * rng.standard_normal((rows, dimension)) * np.arange(1, dimension + 1) ** -0.5 + 0.05


def trial(
    policy: str, rounds: int, dimension: int, moments: tuple[NDArray, NDArray], clock: Callable[[], float]
) -> tuple[float, dict[str, int]]:
    """Seconds of one trial without making the samples, and the number of batches of each generator."""
    rng = np.random.default_rng(0)
    evaluation = Evaluation(GENERATORS, metric="fid", policy=policy, reference=moments, batch_size=BATCH)
    asked = dict.fromkeys(GENERATORS, 0)
    seconds = 0.0
    for _ in track(range(rounds), description=policy):
        begun = clock()
        name = evaluation.ask()
        seconds += clock() - begun
        batch = features(BATCH, dimension, 1.0 + 0.05 * GENERATORS.index(name), rng)
        begun = clock()
        evaluation.tell(name, batch)
        seconds += clock() - begun
        asked[name] += 1
    return seconds, asked


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="d = 256, 200 rounds")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=1000)
    parser.add_argument("--dimension", type=int, default=2048)
    parser.add_argument("--cpu-time", action="store_true")
    parser.add_argument("--policies", nargs="*", default=list(POLICIES), choices=[*POLICIES, "greedy", "fid-ucb"])
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    threadpool_limits(arguments.threads)
    rounds, dimension = (200, 256) if arguments.quick else (arguments.rounds, arguments.dimension)
    real = features(4 * dimension, dimension, 1.0, np.random.default_rng(1))
    moments = (real.mean(0), np.cov(real.T, bias=True))
    machine = f"{platform.machine()}, {os.cpu_count()} cores, {arguments.threads} threads for torch"
    table = Table(title=f"T = {rounds}, b = {BATCH}, G = {len(GENERATORS)}, d = {dimension}; {machine}")
    for column in ("policy", "seconds", "batches of each generator", "T scores by sqrtm: seconds", "times"):
        table.add_column(column)
    clock = time.process_time if arguments.cpu_time else time.perf_counter
    found = {policy: trial(policy, rounds, dimension, moments, clock) for policy in arguments.policies}
    part = (moments[1] @ moments[1])[: dimension // 4, : dimension // 4]
    begun = clock()
    scipy.linalg.sqrtm(part)
    peer = rounds * 64.0 * (clock() - begun)
    for policy, (seconds, asked) in found.items():
        counts = " ".join(f"{name} {count}" for name, count in asked.items())
        table.add_row(policy, f"{seconds:.1f}", counts, f"{peer:.0f}", f"{peer / seconds:.0f}")
    Console(width=140).print(table)


if __name__ == "__main__":
    main()
