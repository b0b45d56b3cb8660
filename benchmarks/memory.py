"""Memory of API, scorer and Redis as separate processes, compared with the size of their statistics.

    python benchmarks/memory.py [--quick] [--warm-bytes N]

20 generators at d = 2048 (--quick: 6 at 512) are told more samples than dimensions, in batches of float32 without
picks: one of 1.1 d, after which an estimate is due, and four of d/8; then 2,000 rounds of 5 samples each, which only
make the logs longer. "Statistics" is the computed size of the numbers in float64: mean, scatter (d, d), the first 300
and the last 512 rows. Memory is VmRSS when everything is scored, and its peak since the start (VmHWM); CPU is processor
time since the start. The scorer keeps all statistics in memory, unless --warm-bytes is less. Redis holds each statistic
once, the log after it, which can become as large, and for short times the next snapshot.
"""

from __future__ import annotations

import argparse
import os
import platform
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import numpy as np
from rich.console import Console
from rich.table import Table

from optimist.store import start_embedded
from optimist_client import Experiment, Optimist, tensors
from raw import cpu_seconds

ROUNDS = 2_000
FIRST, LAST = 300, 512
MIB = 2**20


def memory(pid: int) -> tuple[float, float]:
    """The resident memory of a process and its peak, in MiB."""
    lines = (line.split() for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    sizes = {line[0]: int(line[1]) / 1024 for line in lines if line[0] in ("VmRSS:", "VmHWM:")}
    return sizes["VmRSS:"], sizes["VmHWM:"]


@contextmanager
def command(*arguments: str) -> Iterator[int]:
    """The pid of `optimist` with these arguments, while it runs."""
    child = subprocess.Popen([sys.executable, "-m", "optimist.cli", *arguments], stderr=subprocess.DEVNULL)
    try:
        yield child.pid
    finally:
        child.terminate()
        child.wait()


def wait_for(url: str) -> None:
    """Wait until the API answers."""
    while True:
        try:
            httpx.get(f"{url}/healthz").raise_for_status()
            return
        except httpx.HTTPError:
            time.sleep(0.1)


class Teller:
    """Tells batches without picks."""

    def __init__(self, url: str, dimension: int) -> None:
        self._client = httpx.Client(base_url=url, timeout=120)
        self._dimension = dimension
        self._rng = np.random.default_rng(0)
        self._told = 0

    def tell(self, generator: str, rows: int) -> None:
        """One batch of normal features."""
        self._told += 1
        features = self._rng.standard_normal((rows, self._dimension), np.float32)
        reply = self._client.post(
            f"/v1/experiments/memory/generators/{generator}/batches",
            content=tensors.encode({"features": features}),
            headers={"content-type": tensors.MEDIA_TYPE, "idempotency-key": f"{self._told}"},
        )
        reply.raise_for_status()


def until_scored(experiment: Experiment, samples: int) -> None:
    """Wait until the score of every generator includes this many samples."""
    while min(row.scored_samples for row in experiment.report().standings) < samples:
        time.sleep(0.5)


def main() -> None:
    """Tell the batches, and print the memory of the processes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="6 generators at d = 512")
    parser.add_argument("--warm-bytes", type=int, help="OPTIMIST_WARM_BYTES of the scorer")
    options = parser.parse_args()
    # `timeout` ends the script with SIGTERM: the processes below must not outlive it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    generators, dimension = (6, 512) if options.quick else (20, 2048)
    if options.warm_bytes is not None:
        os.environ["OPTIMIST_WARM_BYTES"] = f"{options.warm_bytes}"
    names = [f"g{number}" for number in range(generators)]
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="memory-")))
        redis = stack.enter_context(start_embedded(directory))
        port = 18_000 + os.getpid() % 1000
        url = f"http://127.0.0.1:{port}"
        api = stack.enter_context(command("serve", "--no-scoring", f"--port={port}", f"--redis-url={redis.url}"))
        scorer = stack.enter_context(command("scorer", f"--redis-url={redis.url}"))
        wait_for(url)
        optimist = stack.enter_context(Optimist(url))
        optimist.create_reference("normal", mean=np.zeros(dimension), covariance=np.eye(dimension))
        experiment = optimist.create_experiment("memory", names, reference="normal", rescore_growth=1.0, stop=False)
        pids = {"API": api, "scorer": scorer, "Redis": redis.pid}
        time.sleep(3.0)  # until the scorer has started
        idle = {name: memory(pid)[0] for name, pid in pids.items()}

        teller, start = Teller(url, dimension), time.perf_counter()
        first = int(1.1 * dimension)
        for rows in (first, *[dimension // 8] * 4):
            for name in names:
                teller.tell(name, rows)
        for number in range(ROUNDS):
            teller.tell(names[number % generators], 5)
        until_scored(experiment, first)
        time.sleep(3.0)  # until running snapshots are stored
        taken = time.perf_counter() - start
        sizes = {name: memory(pid) for name, pid in pids.items()}
        cpu = {name: cpu_seconds(pid) for name, pid in pids.items()}

    held = generators * 8 * (dimension**2 + (FIRST + LAST + 1) * dimension) / MIB
    machine = f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores"
    what = f"{generators} generators, d = {dimension}, {held:.0f} MiB of statistics"
    title = f"Memory in MiB: {what} ({machine}, {taken:.0f} s)"
    table = Table(title=title, title_justify="left")
    for column in ("process", "idle", "scored", "peak", "scored ÷ statistics", "peak ÷ statistics", "CPU, s"):
        table.add_column(column, justify="right")
    for name, (now, peak) in sizes.items():
        columns = f"{idle[name]:.0f}", f"{now:.0f}", f"{peak:.0f}", f"{now / held:.2f}", f"{peak / held:.2f}"
        table.add_row(name, *columns, f"{cpu[name]:.1f}")
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
