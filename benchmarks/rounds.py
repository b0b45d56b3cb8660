"""Rounds per second through HTTP: tell a batch and ask for the next pick, beside a bare FastAPI + XADD echo.

    python benchmarks/rounds.py [--rounds 400] [--repeats 5]

A round is one `POST …/batch?next=1`; the echo is one POST of the same body. Both servers run on an embedded Redis with
`appendfsync always`, both are driven by the same raw keep-alive client, in turns within one run; medians over the
turns. "default" is an experiment as users make it: asks wait for the estimates that are due, so the scorer's time is in
it, most of all in the first rounds, where almost every batch makes one due. "path" is the service's own path: estimates
only when the samples have doubled (`rescore_growth` 1), and no waiting for them (`max_wait` 0).
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import os
import platform
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

from optimist_client import Optimist, tensors

GENERATORS = ["a", "b", "c", "d", "e"]
BATCH = 5
HEADERS = {"content-type": tensors.MEDIA_TYPE}


class RawClient:
    """One keep-alive connection; http.client costs a tenth of what httpx does."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._connect()

    def _connect(self) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=120)
        self._connection.connect()
        self._connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def post(self, path: str, body: bytes, headers: dict[str, str]) -> Any:
        """The decoded answer to one POST. Raises RuntimeError unless it is 200."""
        try:
            self._connection.request("POST", path, body, headers)
        except (BrokenPipeError, ConnectionResetError):  # closed while the other servers had their turn
            self._connect()
            self._connection.request("POST", path, body, headers)
        reply = self._connection.getresponse()
        content = reply.read()
        if reply.status != 200:
            raise RuntimeError(f"{path}: {reply.status} {content[:300]!r}")
        return json.loads(content)


@contextmanager
def process(command: list[str], port: int) -> Iterator[None]:
    """A server as a child process, from when it listens on `port`."""
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        while True:
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            if child.poll() is not None:
                raise RuntimeError(f"{command} ended with {child.returncode}")
            time.sleep(0.05)
        yield
    finally:
        child.terminate()
        child.wait()


def free_port() -> int:
    """A port nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def rate(action: Callable[[], object], rounds: int) -> float:
    """Calls of `action` per second over `rounds` calls."""
    start = time.perf_counter()
    for _ in range(rounds):
        action()
    return rounds / (time.perf_counter() - start)


def experiment_round(
    client: RawClient, optimist: Optimist, name: str, d: int, bodies: list[bytes], **config: float
) -> Callable[[], None]:
    """An action that tells the pick it has and takes the next."""
    reference = f"normal-{d}"
    optimist.create_reference(reference, mean=np.zeros(d), covariance=np.eye(d))
    optimist.create_experiment(name, GENERATORS, reference=reference, stop=False, **config)
    base = f"/v1/experiments/{name}/picks"
    pick = client.post(base, json.dumps({"worker": "w"}).encode(), {"content-type": "application/json"})["picks"][0]

    def action() -> None:
        nonlocal pick
        body = bodies[GENERATORS.index(pick["generator"])]
        pick = client.post(f"{base}/{pick['number']}/batch?next=1&worker=w", body, HEADERS)["next"]["picks"][0]

    return action


def main() -> None:
    """Run the turns and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=400, help="rounds in a turn at d = 64 (a quarter at d = 2048)")
    parser.add_argument("--repeats", type=int, default=5, help="turns of each server")
    options = parser.parse_args()
    console = Console()
    table = Table(title=f"Rounds per second, batch {BATCH}, float32, {os.cpu_count()} cores, {platform.processor()}")
    for column in ("d", "bytes", "echo", "path", "ratio", "default", "ratio"):
        table.add_column(column, justify="right")
    rng = np.random.default_rng(0)
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rounds-")))
        echo_port, port = free_port(), free_port()
        here = Path(__file__).parent
        stack.enter_context(
            process([sys.executable, str(here / "echo.py"), str(echo_port), f"{directory}/echo"], echo_port)
        )
        serve = [sys.executable, "-m", "optimist.cli", "serve", f"--port={port}", f"--data-dir={directory}/data"]
        stack.enter_context(process(serve, port))
        optimist = stack.enter_context(Optimist(f"http://127.0.0.1:{port}"))
        for d, rounds in ((64, options.rounds), (2048, max(1, options.rounds // 4))):
            bodies = [
                tensors.encode({"features": (rng.standard_normal((BATCH, d)) + 0.1 * g).astype(np.float32)})
                for g in range(len(GENERATORS))
            ]
            echo, client = RawClient(echo_port), RawClient(port)
            actions = {
                "echo": lambda echo=echo, body=bodies[0]: echo.post("/echo", body, HEADERS),
                "path": experiment_round(client, optimist, f"path-{d}", d, bodies, max_wait=0.0, rescore_growth=1.0),
                "default": experiment_round(client, optimist, f"default-{d}", d, bodies),
            }
            rates: dict[str, list[float]] = {name: [] for name in actions}
            for action in actions.values():
                rate(action, 20)
            for _ in track(range(options.repeats), description=f"d = {d}", console=console):
                for name, action in actions.items():
                    rates[name].append(rate(action, rounds))
            median = {name: statistics.median(values) for name, values in rates.items()}
            ratio = {name: median[name] / median["echo"] for name in ("path", "default")}
            table.add_row(
                str(d),
                f"{len(bodies[0]):,}",
                f"{median['echo']:.0f}",
                f"{median['path']:.0f}",
                f"{ratio['path']:.2f}",
                f"{median['default']:.0f}",
                f"{ratio['default']:.2f}",
            )
    console.print(table)


if __name__ == "__main__":
    main()
