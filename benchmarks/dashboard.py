"""The cost of dashboards: opening one with a million rounds, and tells while twenty of them poll.

    python benchmarks/dashboard.py [--seconds 4] [--repeats 6] [--starts 3]

A dashboard requests `report?after=` every two seconds with its cursor and entity tag, as the page does. First, a
service that was just started is asked for the page with its scripts, as by a browser, and for
the first report, which is made from the whole history.

The tells are rounds (`POST …/batch?next=1`) of one worker at d = 64. Periods with and without dashboards alternate in
one run, in reverse order in every second pair. The output has medians, and the median of the ratios of the pairs. "CPU"
is processor time of the service's process per round, and the share of a core that it needs for twenty dashboards alone.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import json
import re
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

from optimist.store import start_embedded
from optimist_client import Optimist
from raw import cpu_seconds, free_port, process
from rounds import PATH, Service, Variant

sys.path.append(str(Path(__file__).parents[1] / "tests" / "dashboard"))
from written import write_long_experiment

EVERY = 2.0
DASHBOARDS = 20
LONG = "million"
STALE = 1.1
"""Seconds until an answer is made again."""


def fetch(connection: http.client.HTTPConnection, path: str) -> bytes:
    """The body of the answer to a GET. Raises RuntimeError unless its status is 200."""
    connection.request("GET", path)
    reply = connection.getresponse()
    body = reply.read()
    if reply.status != 200:
        raise RuntimeError(f"{path}: {reply.status} {body[:300]!r}")
    return body


def page(connection: http.client.HTTPConnection) -> int:
    """Fetch the page with its style and its modules, compressed; return the number of bytes."""
    text = fetch(connection, "/")
    paths = sorted(set(re.findall(r'"(dashboard/[\w./-]+)"', text.decode())))
    return len(text) + sum(len(fetch(connection, f"/{path}")) for path in paths)


def poll(connection: http.client.HTTPConnection, name: str, after: int, tag: str) -> tuple[float, int, int, str]:
    """One poll: milliseconds, bytes, and the cursor and tag for the next poll."""
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
    """Run twenty dashboards while `begin` is set; return when `end` is set."""

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
    """Dashboards in a separate process; they poll while the event is set."""
    spawn = get_context("spawn")
    begin, end = spawn.Event(), spawn.Event()
    child = spawn.Process(target=watch, args=(port, name, begin, end))
    child.start()
    try:
        yield begin
    finally:
        end.set()
        child.join()


def first_polls(serve: list[str], port: int, starts: int) -> None:
    """Print the cost of the page and of the first poll of a million rounds, right after a service has started."""
    pages, firsts, cpu, sizes = [], [], [], (0, 0)
    for _ in range(starts):
        with process(serve, port) as pid:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            start = time.perf_counter()
            page_size = page(connection)
            pages.append(1000 * (time.perf_counter() - start))
            before = cpu_seconds(pid)
            took, size, _, _ = poll(connection, LONG, 0, "")
            cpu.append(1000 * (cpu_seconds(pid) - before))
            firsts.append(took)
            sizes = page_size, size
            connection.close()
    print(
        f"1,000,000 rounds, 8 generators, service just started, median (minimum) of {starts}:\n"
        f"  page: {statistics.median(pages):.0f} ({min(pages):.0f}) ms, {sizes[0]:,} bytes\n"
        f"  first poll: {statistics.median(firsts):.0f} ({min(firsts):.0f}) ms, {sizes[1]:,} bytes, "
        f"CPU {statistics.median(cpu):.0f} ms",
        flush=True,
    )


def later_polls(port: int) -> None:
    """Print the cost of the polls after the first."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    _, _, told, tag = poll(connection, LONG, 0, "")
    for words, after, known in (
        ("everything again", 0, ""),
        ("new since the cursor", told, ""),
        ("unchanged", told, tag),
    ):
        times, size = [], 0
        for _ in range(5):
            time.sleep(STALE)
            took, size, _, seen = poll(connection, LONG, after, known)
            known = seen if words == "unchanged" else ""
            times.append(took)
        print(f"  {words}: {statistics.median(times):.1f} ({min(times):.1f}) ms, {size:,} bytes", flush=True)
    connection.close()


def beside_tells(service: Service, seconds: float, repeats: int) -> None:
    """Print how much slower tells are while dashboards poll."""
    shared = service.experiment("watched", 64, **PATH)
    action = service.combined(shared, "w", service.bodies(64))
    alone, beside = (Variant(name, [action], service.pids) for name in ("alone", "beside"))
    with dashboards(service.port, "watched") as polling:
        alone.turn(min(2.0, seconds))
        alone.rates.clear(), alone.cpu.clear(), alone.client.clear(), alone.latencies.clear()
        for repeat in range(repeats):
            for variant in (alone, beside)[:: 1 if repeat % 2 else -1]:
                (polling.set if variant is beside else polling.clear)()
                time.sleep(0.2)
                variant.turn(seconds)
        polling.set()
        time.sleep(EVERY)
        before, start = cpu_seconds(service.pids[0]), time.perf_counter()
        time.sleep(2 * EVERY)
        idle = (cpu_seconds(service.pids[0]) - before) / (time.perf_counter() - start)
    cpu = {variant.name: statistics.median(api for (api,) in variant.cpu) for variant in (alone, beside)}
    ratios = [with_ / without for with_, without in zip(beside.rates, alone.rates, strict=True)]
    print(f"\nTells of one worker, d = 64, {repeats} periods of {seconds:g} s each\n")
    for variant in (alone, beside):
        words = "alone" if variant is alone else f"with {DASHBOARDS} dashboards"
        p50, p99 = statistics.quantiles(variant.latencies, n=100)[49:99:49]
        print(
            f"  {words}: {statistics.median(variant.rates):.0f} per second, p50 {1000 * p50:.1f} ms, "
            f"p99 {1000 * p99:.1f} ms, CPU {1e6 * cpu[variant.name]:.0f} µs per round"
        )
    print(
        f"  ratio of the rates: {statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f}), of the CPU: "
        f"{cpu['beside'] / cpu['alone']:.3f}\n"
        f"  {DASHBOARDS} dashboards without tells: {idle:.1%} of a core"
    )


def main() -> None:
    """Measure everything and print it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=4.0, help="length of one period")
    parser.add_argument("--repeats", type=int, default=6, help="number of periods with and without dashboards")
    parser.add_argument("--starts", type=int, default=3, help="number of starts of the service, for the first poll")
    options = parser.parse_args()
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="dashboard-")))
        redis = stack.enter_context(start_embedded(directory))
        asyncio.run(write_long_experiment(redis.url, LONG, 1_000_000, 8))
        port = free_port()
        serve = [sys.executable, "-m", "optimist.cli", "serve", f"--port={port}", f"--redis-url={redis.url}"]
        first_polls(serve, port, options.starts)
        pid = stack.enter_context(process(serve, port))
        later_polls(port)
        optimist = stack.enter_context(Optimist(f"http://127.0.0.1:{port}"))
        beside_tells(Service(optimist, port, [pid]), options.seconds, options.repeats)


if __name__ == "__main__":
    main()
