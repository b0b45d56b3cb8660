"""What dashboards cost: a poll of a million rounds, and tells while twenty dashboards poll.

    python benchmarks/dashboard.py [--rounds 400] [--repeats 6]

A dashboard asks for `report?after=` every two seconds with the cursor and the entity tag it has, as the page does. The
tells are rounds (`POST …/batch?next=1`) of an experiment at d = 64, with and without dashboards in turns; the median
of the turns' ratios counts.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import json
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from multiprocessing import get_context
from multiprocessing.synchronize import Event
from pathlib import Path

import numpy as np
from rich.console import Console

from optimist.store import start_embedded
from optimist_client import Optimist, tensors
from rounds import BATCH, GENERATORS, RawClient, experiment_round, free_port, process, rate

sys.path.append(str(Path(__file__).parents[1] / "tests" / "dashboard"))
from made import write_long_experiment

EVERY = 2.0
DASHBOARDS = 20


def poll(connection: http.client.HTTPConnection, name: str, after: int, tag: str) -> tuple[float, int, int, str]:
    """One poll: milliseconds, bytes, and the cursor and tag to go on with."""
    start = time.perf_counter()
    headers = {"if-none-match": tag} if tag else {}
    connection.request("GET", f"/v1/experiments/{name}/report?after={after}", headers=headers)
    reply = connection.getresponse()
    body = reply.read()
    took = 1000 * (time.perf_counter() - start)
    if reply.status not in (200, 304):
        raise RuntimeError(f"{reply.status} {body[:300]!r}")
    told = json.loads(body)["progress"]["told"] if reply.status == 200 else after
    return took, len(body), told, reply.headers["etag"]


def watch(port: int, name: str, begin: Event, end: Event) -> None:
    """Twenty dashboards, while `begin` is set; until `end` is."""

    def dashboard(number: int) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        after, tag = 0, ""
        end.wait(EVERY * number / DASHBOARDS)
        while not end.wait(EVERY):
            if begin.is_set():
                _, _, after, tag = poll(connection, name, after, tag)

    threads = [threading.Thread(target=dashboard, args=(number,)) for number in range(DASHBOARDS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@contextmanager
def dashboards(port: int, name: str) -> Iterator[Event]:
    """Dashboards in a process of their own; they poll while the event is set."""
    spawn = get_context("spawn")
    begin, end = spawn.Event(), spawn.Event()
    child = spawn.Process(target=watch, args=(port, name, begin, end))
    child.start()
    try:
        yield begin
    finally:
        end.set()
        child.join()


def main() -> None:
    """Measure both and print them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=400, help="rounds in a turn")
    parser.add_argument("--repeats", type=int, default=6, help="turns with and without dashboards")
    options = parser.parse_args()
    console = Console()
    rng = np.random.default_rng(0)
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="dashboard-")))
        redis = stack.enter_context(start_embedded(directory))
        port = free_port()
        serve = [sys.executable, "-m", "optimist.cli", "serve", f"--port={port}", f"--redis-url={redis.url}"]
        stack.enter_context(process(serve, port))
        asyncio.run(write_long_experiment(redis.url, "million", 1_000_000, 8))
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        first, size, told, tag = poll(connection, "million", 0, "")
        console.print(f"1,000,000 rounds, 8 generators, first poll: {first:.0f} ms, {size:,} bytes")
        for words, after, known in (
            ("all of it again", 0, ""),
            ("since the cursor", told, ""),
            ("unchanged", told, tag),
        ):
            times = []
            for _ in range(5):
                time.sleep(1.1)  # until the last answer is too old
                took, size, _, seen = poll(connection, "million", after, known)
                known = seen if words == "unchanged" else ""
                times.append(took)
            console.print(f"  {words}: {statistics.median(times):.1f} ms, {size:,} bytes")

        optimist = stack.enter_context(Optimist(f"http://127.0.0.1:{port}"))
        bodies = [
            tensors.encode({"features": (rng.standard_normal((BATCH, 64)) + 0.1 * g).astype(np.float32)})
            for g in range(len(GENERATORS))
        ]
        action = experiment_round(RawClient(port), optimist, "watched", 64, bodies, max_wait=0.0, rescore_growth=1.0)
        polling = stack.enter_context(dashboards(port, "watched"))
        rate(action, options.rounds)
        ratios, alone, beside = [], [], []
        for _ in range(options.repeats):
            polling.clear()
            time.sleep(EVERY)
            alone.append(rate(action, options.rounds))
            polling.set()
            time.sleep(EVERY)
            beside.append(rate(action, options.rounds))
            ratios.append(beside[-1] / alone[-1])
        console.print(
            f"tells per second: {statistics.median(alone):.0f} alone, {statistics.median(beside):.0f} with "
            f"{DASHBOARDS} dashboards, median ratio {statistics.median(ratios):.3f} "
            f"({min(ratios):.3f} to {max(ratios):.3f})"
        )


if __name__ == "__main__":
    main()
