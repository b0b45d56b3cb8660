"""How long a start takes: of the command, the library, a service, an experiment, and the first pick.

    python benchmarks/starting.py [--against CHECKOUT] [--turns 5]

Checkouts take turns. "CPU" is processor time, of a service that of all its processes until `/readyz` says that it can
score, of an experiment and a pick that of API and SDK. "loop" is the processor time of a million steps of Python, which
says how fast the machine was. Below are floors: what Python and the libraries take that each of these needs.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path

from optimist.store.redis_program import find_program
from raw import checkouts_of, cpu_seconds, free_port, header, line, redis_of, scorer_of, serve

POLL = 0.01
"""Seconds between looks at whether a service is ready."""
PYTHON = {"Python": "pass", **{name: f"import {name}" for name in ("typer", "pydantic", "fastapi", "redis", "torch")}}
PLAY = """
import json, sys, time
from optimist_client import Optimist
from optimist_client.metrics import RKE, Cosine
with Optimist(sys.argv[1]) as client:
    for name in ("first", "second"):
        begun = time.process_time(), time.perf_counter()
        experiment = client.create_experiment(name, ["a", "b"], metric=RKE(kernel=Cosine(), dimension=64))
        print(time.process_time() - begun[0], time.perf_counter() - begun[1], flush=True)
        input()
        begun = time.process_time(), time.perf_counter()
        experiment.ask(worker="w")
        print(time.process_time() - begun[0], time.perf_counter() - begun[1], flush=True)
        input()
"""
Taken = dict[str, tuple[float, float]]
"""Seconds of processor time and on the clock, by what took them."""


def ran(command: list[str], environment: dict[str, str]) -> tuple[float, float]:
    """The processor time and the time that a command took."""
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)
    took, after = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, took


def wait_for(url: str) -> None:
    """Wait until it answers 200."""
    while True:
        with suppress(urllib.error.URLError, ConnectionError):
            urllib.request.urlopen(url).close()
            return
        time.sleep(POLL)


def starts(checkout: Path) -> Taken:
    """Every start of a checkout, once."""
    found = os.environ | {"PYTHONPATH": f"{checkout}/service:{checkout}/clients/python"}
    taken = {
        "optimist --help": ran([sys.executable, "-m", "optimist.cli", "--help"], found),
        "import optimist": ran([sys.executable, "-c", "import optimist"], found),
    }
    port, begun = free_port(), time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="starting-") as folder:
        service = subprocess.Popen(serve(port, folder), stderr=subprocess.DEVNULL, env=found)
        try:
            wait_for(f"http://127.0.0.1:{port}/readyz")
            took, pids = time.perf_counter() - begun, [service.pid, scorer_of(service.pid), redis_of(service.pid)]
            taken["serve to /readyz"] = sum(map(cpu_seconds, pids)), took
            taken["of that the API"] = cpu_seconds(service.pid), took
            url = f"http://127.0.0.1:{port}"
            player = subprocess.Popen(
                [sys.executable, "-c", PLAY, url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=found
            )
            assert player.stdin is not None
            assert player.stdout is not None
            for order in ("first", "second"):
                for what in ("experiment", "pick"):
                    before = cpu_seconds(service.pid)
                    used, seconds = map(float, player.stdout.readline().split())
                    taken[f"{order} {what}"] = used + cpu_seconds(service.pid) - before, seconds
                    player.stdin.write("\n")
                    player.stdin.flush()
            player.communicate()
        finally:
            service.terminate()
            service.wait()
    return taken


def floors() -> Taken:
    """What each library takes."""
    taken = {name: ran([sys.executable, "-c", code], {**os.environ}) for name, code in PYTHON.items()}
    with tempfile.TemporaryDirectory(prefix="starting-") as folder:
        begun, path = time.perf_counter(), Path(folder) / "socket"
        options = ["--port", "0", "--unixsocket", f"{path}", "--dir", folder, "--appendonly", "yes"]
        server = subprocess.Popen([find_program().path, *options], stdout=subprocess.DEVNULL)
        while not path.exists():
            time.sleep(0.001)
        taken["redis-server"] = cpu_seconds(server.pid), time.perf_counter() - begun
        server.terminate()
        server.wait()
    return taken


def loop() -> float:
    """The processor time of a million steps."""
    begun = time.process_time()
    for _ in range(1_000_000):
        pass
    return time.process_time() - begun


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", type=Path, help="another checkout")
    parser.add_argument("--turns", type=int, default=5)
    options = parser.parse_args()
    checkouts = checkouts_of(options.against)[::-1]
    found: dict[str, list[Taken]] = {}
    loops: list[float] = []
    for turn in range(options.turns):
        loops.append(loop())
        for checkout in checkouts[:: -1 if turn % 2 else 1]:
            found.setdefault(checkout.name, []).append(starts(checkout))
        found.setdefault("floor", []).append(floors())
    header("what", "checkout", "CPU, s", "wall, s")
    for name, turns in found.items():
        for what in turns[0]:
            middle = [statistics.median(taken[what][place] for taken in turns) for place in (0, 1)]
            line(what, name, *(f"{seconds:.3f}" for seconds in middle))
    print(json.dumps({"loop, s": round(statistics.median(loops), 4), "load": round(os.getloadavg()[0], 1)}))


if __name__ == "__main__":
    main()
