"""Does a long run stay as fast and as small as it began? One experiment through HTTP, tenth by tenth.

    python benchmarks/endurance.py [--rounds 100000] [--warmup 2000] [--dimension 64] [--connections 4]

A round is one `POST …/batch?next=1` of 5 rows over a keep-alive connection; the loops run side by side, and the time of
a round is wall time by rounds. API, scorer and redis-server (`appendfsync always`, default rewrites of its append-only
file) are processes of their own, so that each one's memory is its own. The slopes are of straight lines through
samples taken all along, after the first tenth. "CPU" is the processor time of each: on a shared machine it says more
than wall time, though it also grows when neighbours use the caches.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from redis import Redis
from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from optimist.store.redis_program import find_program
from optimist_client import Optimist, tensors
from raw import BATCH, GENERATORS, HEADERS, RawClient, batch_path, cpu_seconds, free_port, process

MIB = 2**20
BODIES = 200
PARTS = 10


@dataclass(frozen=True)
class Sample:
    """The state of everything at one moment: rounds told, seconds, and bytes."""

    rounds: int
    seconds: float
    cpu: tuple[float, float, float]
    api: int
    scorer: int
    redis: int
    peak: int
    file: int


class Loops:
    """Loops that tell and ask, each on its own connection, until `rounds` are told or one fails."""

    def __init__(self, port: int, experiment: str, bodies: dict[str, list[bytes]], count: int, rounds: int) -> None:
        self._path = f"/v1/experiments/{experiment}/picks"
        self._port = port
        self._bodies = bodies
        self._told = [0] * count
        self._goal = rounds
        self._error: BaseException | None = None
        self._threads = [threading.Thread(target=self._run, args=(i,), daemon=True) for i in range(count)]
        for thread in self._threads:
            thread.start()

    @property
    def told(self) -> int:
        """Rounds told by all of them. Raises what a loop raised."""
        if self._error is not None:
            raise self._error
        return sum(self._told)

    def _run(self, number: int) -> None:
        try:
            client = RawClient(self._port)
            asked = json.dumps({"worker": f"loop-{number}"}).encode()
            answer = client.post(self._path, asked, {"content-type": "application/json"})
            while sum(self._told) < self._goal:
                pick = answer["picks"][0]
                body = self._bodies[pick["generator"]][pick["number"] % BODIES]
                path = f"{batch_path(self._path, pick)}&next=1&worker=loop-{number}"
                answer = client.post(path, body, HEADERS)["next"]
                self._told[number] += 1
        except BaseException as error:
            self._error = error


def resident(pid: int) -> int:
    """Resident bytes of a process."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@contextmanager
def child(command: list[str]) -> Iterator[int]:
    """The id of a process that lives as long as the context."""
    started = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        yield started.pid
    finally:
        started.terminate()
        started.wait()


@contextmanager
def service(directory: Path) -> Iterator[tuple[int, Redis, int, int]]:
    """Redis, API and scorer: the API's port, a client of Redis, and the process ids of API and scorer."""
    with ExitStack() as stack:
        redis_port, port = free_port(), free_port()
        settings = {"port": str(redis_port), "dir": str(directory), "appendonly": "yes", "appendfsync": "always"}
        options = [word for name, value in {**settings, "save": ""}.items() for word in (f"--{name}", value)]
        stack.enter_context(process([find_program(), "--bind", "127.0.0.1", *options], redis_port))
        optimist, url = [sys.executable, "-m", "optimist.cli"], f"--redis-url=redis://127.0.0.1:{redis_port}"
        api = stack.enter_context(child([*optimist, "serve", "--no-scoring", f"--port={port}", url]))
        scorer = stack.enter_context(child([*optimist, "scorer", url]))
        yield port, stack.enter_context(Redis(port=redis_port)), api, scorer


def samples(options: argparse.Namespace) -> list[Sample]:
    """Run, and look at everything some hundred times on the way."""
    rng = np.random.default_rng(0)
    d = options.dimension
    bodies = {
        name: [
            tensors.encode({"features": (rng.standard_normal((BATCH, d)) + 0.1 * g).astype(np.float32)})
            for _ in range(BODIES)
        ]
        for g, name in enumerate(GENERATORS)
    }
    columns = BarColumn(), MofNCompleteColumn(), TextColumn("rounds"), TimeElapsedColumn(), TimeRemainingColumn()
    with (
        tempfile.TemporaryDirectory(prefix="endurance-") as directory,
        service(Path(directory)) as (port, redis, api, scorer),
        Optimist(f"http://127.0.0.1:{port}") as optimist,
        Progress(*columns, console=Console(stderr=True)) as bar,
    ):
        optimist.create_experiment("long", GENERATORS, reference=(np.zeros(d), np.eye(d)), stop=False)
        goal = options.warmup + options.rounds
        loops, line = Loops(port, "long", bodies, options.connections, goal), bar.add_task("", total=goal)
        seen: list[Sample] = []
        step = max(1, options.rounds // 200)
        while not seen or seen[-1].rounds < options.rounds:
            told = loops.told - options.warmup
            if told >= (min(seen[-1].rounds + step, options.rounds) if seen else 0):
                info = redis.info()
                now = time.perf_counter()
                memory = info["used_memory"], info["used_memory_peak"], info["aof_current_size"]
                cpu = cpu_seconds(api), cpu_seconds(scorer), info["used_cpu_user"] + info["used_cpu_sys"]
                seen.append(Sample(told, now, cpu, resident(api), resident(scorer), *memory))
            bar.update(line, completed=told + options.warmup)
            time.sleep(0.02)
        return seen


def table(seen: list[Sample], rounds: int) -> Table:
    """One row a tenth: time per round in it, and bytes at its end."""
    out = Table(title="by tenth", box=box.MARKDOWN)
    times = "rounds", "ms a round", "API's CPU, ms a round", "scorer's", "Redis's"
    for column in (*times, "API, MiB", "scorer, MiB", "Redis used, MiB", "peak, MiB", "append-only file, MiB"):
        out.add_column(column, justify="right", no_wrap=True)
    ends = [next(s for s in seen if s.rounds >= min(rounds, rounds * part // PARTS)) for part in range(PARTS + 1)]
    for start, end in pairwise(ends):
        part = max(1, end.rounds - start.rounds) / 1e3
        times = np.array([end.seconds - start.seconds, *np.subtract(end.cpu, start.cpu)]) / part
        sizes = (end.api, end.scorer, end.redis, end.peak, end.file)
        out.add_row(f"{end.rounds:,}", *(f"{each:.2f}" for each in times), *(f"{size / MIB:.1f}" for size in sizes))
    return out


def slope(seen: list[Sample], of: str) -> float:
    """MiB per 10,000 rounds after the first tenth, by least squares."""
    late = [sample for sample in seen if sample.rounds >= seen[-1].rounds / PARTS]
    sizes = [getattr(sample, of) / MIB for sample in late]
    return float(np.polyfit([sample.rounds / 1e4 for sample in late], sizes, 1)[0])


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=100_000, help="rounds measured")
    parser.add_argument("--warmup", type=int, default=2_000, help="rounds before them")
    parser.add_argument("--dimension", type=int, default=64)
    parser.add_argument("--connections", type=int, default=4, help="loops side by side")
    options = parser.parse_args()
    seen = samples(options)
    console = Console(width=160)
    console.print(f"d = {options.dimension}, {options.connections} loops; {os.cpu_count()} cores, {platform.machine()}")
    console.print(table(seen, options.rounds))
    slopes = ", ".join(f"{of} {slope(seen, of):+.2f}" for of in ("api", "scorer", "redis"))
    console.print(f"MiB per 10,000 rounds: {slopes}")


if __name__ == "__main__":
    main()
