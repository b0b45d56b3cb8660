"""Memory of API, scorer and Redis, and rounds per second, by experiments × generators × width.

    python benchmarks/capacity.py [--seconds 10] [--connections 4] [--case 1,10,768]...

Each case runs a separate service: API, scorer and redis-server (`appendfsync always`) as processes, each with one
thread for numerics. Every generator is told one batch of normal rows in float32, without a pick. The batch has so many
rows that the statistic (mean, scatter, rows) reaches its full size and the log exceeds it, so that the statistic is
stored and the log trimmed. When everything is scored, loops tell 5 rows and ask for the next pick, cycling over the
experiments. Memory is VmRSS after that, and Redis's `used_memory` with its peak. "rounds per second" is measured while
all processes, including the scorer's eigenproblems, share the machine with its other jobs; "load" is the load average
at that time.
"""

from __future__ import annotations

import argparse
import itertools
import os
import platform
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from redis import Redis
from rich import box
from rich.console import Console
from rich.table import Table

from optimist_client import Optimist, tensors
from raw import BATCH, HEADERS, JSON, MIB, RawClient, batch_path, resident, three_processes

CASES = "1,5,64", "10,10,64", "1,10,768", "3,10,768", "1,3,2048"
ROWS_KEPT = 300 + 512
PATIENCE = 1800.0


@dataclass(frozen=True)
class Measured:
    """Bytes of the three processes, and the results of the loops."""

    api: int
    scorer: int
    redis: int
    peak: int
    rounds: float
    scoring: float
    load: float


def loop(port: int, names: list[str], body: bytes, ends: float, told: list[int], place: int) -> None:
    """Tell and ask, cycling over the experiments, until the time is over; count the rounds."""
    client = RawClient(port)
    asked = b'{"worker": "loop-%d"}' % place
    paths = [f"/v1/experiments/{name}/picks" for name in names]
    picks = [client.post(path, asked, JSON)["picks"][0] for path in paths]
    for index in itertools.cycle(range(len(names))):
        if time.monotonic() > ends:
            return
        path = f"{batch_path(paths[index], picks[index])}&next=1&worker=loop-{place}"
        picks[index] = client.post(path, body, HEADERS)["next"]["picks"][0]
        told[place] += 1


def fill(client: Optimist, port: int, names: list[str], generators: list[str], d: int) -> float:
    """Tell every generator its rows; return the seconds until all of them are scored."""
    raw, rng = RawClient(port), np.random.default_rng(0)
    held = 8 * d**2 + 8 * d * ROWS_KEPT
    body = tensors.encode({"features": rng.standard_normal((int(1.1 * held / (4 * d)), d), np.float32)})
    begun = time.monotonic()
    for name in names:
        for generator in generators:
            raw.post(
                f"/v1/experiments/{name}/generators/{generator}/batches",
                body,
                {**HEADERS, "idempotency-key": generator},
            )
    while not all(client.experiment(name).report().scored for name in names):
        if time.monotonic() > begun + PATIENCE:
            raise TimeoutError(f"not scored within {PATIENCE:.0f} s")
        time.sleep(0.2)
    return time.monotonic() - begun


def measure(experiments: int, generators: int, d: int, seconds: float, connections: int) -> Measured:
    """Measure one case on a separate service."""
    names, arms = [f"e{n}" for n in range(experiments)], [f"g{n}" for n in range(generators)]
    with (
        tempfile.TemporaryDirectory(prefix="capacity-") as directory,
        three_processes(Path(directory)) as (port, redis, api, scorer),
        Optimist(f"http://127.0.0.1:{port}", patience=PATIENCE, timeout=PATIENCE) as client,
    ):
        client.create_reference("normal", mean=np.zeros(d), covariance=np.eye(d))
        for name in names:
            client.create_experiment(name, arms, reference="normal", max_wait=0.0, stop=False)
        scoring = fill(client, port, names, arms, d)
        told, began = [0] * connections, time.monotonic()
        body = tensors.encode({"features": np.random.default_rng(1).standard_normal((BATCH, d), np.float32)})
        loops = [
            threading.Thread(target=loop, args=(port, names, body, began + seconds, told, place))
            for place in range(connections)
        ]
        for each in loops:
            each.start()
        for each in loops:
            each.join()
        took = time.monotonic() - began
        return _measured(redis, api, scorer, sum(told) / took, scoring)


def _measured(redis: Redis, api: int, scorer: int, rounds: float, scoring: float) -> Measured:
    info = redis.info()
    used, peak = int(info["used_memory"]), int(info["used_memory_peak"])  # type: ignore[index]
    return Measured(resident(api), resident(scorer), used, peak, rounds, scoring, os.getloadavg()[0])


def main() -> None:
    """Measure the cases one after the other, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10.0, help="seconds for which the loops run")
    parser.add_argument("--connections", type=int, default=4, help="number of parallel loops")
    parser.add_argument("--case", action="append", help="experiments,generators,width; can be repeated")
    options = parser.parse_args()
    console, table = Console(width=160), Table(box=box.MARKDOWN)
    head = "experiments × generators", "d", "API, MiB", "scorer, MiB", "Redis, MiB", "peak, MiB"
    for column in (*head, "s until all scored", "rounds per second", "load"):
        table.add_column(column, justify="right", no_wrap=True)
    os.environ["OMP_NUM_THREADS"] = "1"  # for the child processes: more threads would spin for cores that others use
    for case in options.case or CASES:
        experiments, generators, d = map(int, case.split(","))
        seen = measure(experiments, generators, d, options.seconds, options.connections)
        sizes = (seen.api, seen.scorer, seen.redis, seen.peak)
        rates = f"{seen.scoring:.0f}", f"{seen.rounds:.0f}", f"{seen.load:.1f}"
        table.add_row(f"{experiments} × {generators}", f"{d}", *(f"{size / MIB:.0f}" for size in sizes), *rates)
        console.log(case, seen)
    console.print(f"{options.connections} loops; {os.cpu_count()} cores, {platform.machine()}")
    console.print(table)


if __name__ == "__main__":
    main()
