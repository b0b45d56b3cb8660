"""What many active experiments cost while few samples come: Redis' and the scorer's load, and how long an ask takes.

    python benchmarks/active.py [--experiments 3000] [--seconds 40] [--rate 100] [--against CHECKOUT]

A real service with so many experiments of a mean, each with two generators. Four clients go round all of them, at
`--rate` rounds per second together: a tell and the next ask in one request. The rows have the share of a core that
Redis, scorer and API take, and the time of a round. With `--against` the service of another checkout comes second.
"""

from __future__ import annotations

import argparse
import itertools
import os
import tempfile
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from optimist_client import Optimist, tensors
from optimist_client.metrics import Mean
from raw import (
    HEADERS,
    JSON,
    RawClient,
    batch_path,
    checkouts_of,
    cpu_seconds,
    free_port,
    header,
    line,
    process,
    redis_of,
    scorer_of,
    serve,
)

CLIENTS = 4


def measure(checkout: Path, options: argparse.Namespace) -> list[str]:
    """The row of a checkout."""
    with ExitStack() as stack:
        directory, port = stack.enter_context(tempfile.TemporaryDirectory(prefix="active-")), free_port()
        api = stack.enter_context(process(serve(port, directory), port, checkout))
        pids = {"Redis": redis_of(api), "scorer": scorer_of(api), "API": api}
        paths = [f"/v1/experiments/e{number}/picks" for number in range(options.experiments)]
        with Optimist(f"http://127.0.0.1:{port}") as optimist:
            for number in range(options.experiments):
                optimist.create_experiment(f"e{number}", ["a", "b"], metric=Mean(), stop=False)
        turns, lock, times = itertools.cycle(range(len(paths))), threading.Lock(), list[float]()
        picks: dict[int, Any] = {}
        begun = time.perf_counter()
        end = begun + options.seconds

        def work(place: int) -> None:
            client, rng = RawClient(port), np.random.default_rng(place)
            while (now := time.perf_counter()) < end:
                with lock:
                    number = next(turns)
                    due = begun + (len(times) + 1) / options.rate
                time.sleep(max(0.0, due - now))
                pick = picks.get(number) or client.post(paths[number], b'{"worker": "w"}', JSON)["picks"][0]
                body = tensors.encode({"values": rng.standard_normal(pick["size"]).astype(np.float32)})
                asked = time.perf_counter()
                found = client.post(f"{batch_path(paths[number], pick)}&next=1&worker=w", body, HEADERS)
                picks[number] = found["next"]["picks"][0]
                times.append(time.perf_counter() - asked)

        before = {role: cpu_seconds(pid) for role, pid in pids.items()}
        threads = [threading.Thread(target=work, args=(place,)) for place in range(CLIENTS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        taken = time.perf_counter() - begun
        shares = [f"{(cpu_seconds(pid) - before[role]) / taken:.0%}" for role, pid in pids.items()]
    p50, p99 = np.percentile(times, [50, 99]) * 1e3
    cells = [checkout.name, f"{options.experiments}", f"{len(times) / taken:.0f}", *shares, f"{p50:.1f}", f"{p99:.0f}"]
    return [*cells, f"{os.getloadavg()[0]:.1f}"]


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--experiments", type=int, default=3000)
    parser.add_argument("--seconds", type=float, default=40.0)
    parser.add_argument("--rate", type=float, default=100.0, help="rounds per second of all clients together")
    parser.add_argument("--against", type=Path, help="another checkout, whose service is measured second")
    options = parser.parse_args()
    header("checkout", "experiments", "rounds/s", "Redis", "scorer", "API", "p50, ms", "p99, ms", "load")
    for checkout in checkouts_of(options.against):
        line(*measure(checkout, options))


if __name__ == "__main__":
    main()
