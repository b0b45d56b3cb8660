"""Shared by the benchmarks of the service: servers as child processes, and a client with little overhead."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from redis import Redis

from optimist_client import tensors

GENERATORS = ["a", "b", "c", "d", "e"]
BATCH = 5
MIB = 2**20
HEADERS = {"content-type": tensors.MEDIA_TYPE}
JSON = {"content-type": "application/json"}


def batch_path(picks: str, pick: Mapping[str, Any]) -> str:
    """The path for telling a pick; `picks` is the path of its experiment's picks."""
    return f"{picks}/{pick['number']}/batch?nonce={pick['nonce']}"


class RawClient:
    """One keep-alive connection; it costs a tenth of httpx's time, and less than half of http.client's."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._connect()

    def _connect(self) -> None:
        self._socket = socket.create_connection(("127.0.0.1", self._port), 120)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def post(self, path: str, body: bytes, headers: Mapping[str, str]) -> Any:
        """The decoded answer to one POST. Raises RuntimeError unless its status is 200."""
        return self._call("POST", path, body, headers)

    def get(self, path: str) -> Any:
        """The decoded answer to one GET, as of `post`."""
        return self._call("GET", path, b"", {})

    def _call(self, method: str, path: str, body: bytes, headers: Mapping[str, str]) -> Any:
        lines = [f"{method} {path} HTTP/1.1", "host: 127.0.0.1", f"content-length: {len(body)}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        request = "\r\n".join([*lines, "", ""]).encode() + body
        try:
            head, content = self._exchange(request)
        except ConnectionError:  # the server closed it while the other servers were measured
            self._connect()
            head, content = self._exchange(request)
        if not head.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(f"{path}: {head.splitlines()[0]!r} {content[:300]!r}")
        return json.loads(content)

    def _exchange(self, request: bytes) -> tuple[bytes, bytes]:
        self._socket.sendall(request)
        received = b""
        while b"\r\n\r\n" not in received:
            received += self._receive()
        head, content = received.split(b"\r\n\r\n", 1)
        length = int(head.lower().split(b"content-length:", 1)[1].split(b"\r\n", 1)[0])
        while len(content) < length:
            content += self._receive()
        return head, content

    def _receive(self) -> bytes:
        piece = self._socket.recv(65536)
        if not piece:
            raise ConnectionResetError("the server closed the connection")
        return piece


@contextmanager
def process(command: list[str], port: int, checkout: Path | None = None) -> Generator[int]:
    """Run a server as a child process; gives its process id once it listens on `port`.

    checkout: where its code is, if not where Python finds it anyway.
    """
    found = {} if checkout is None else {"PYTHONPATH": f"{checkout}/service:{checkout}/clients/python"}
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=os.environ | found)
    try:
        while True:
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            if child.poll() is not None:
                raise RuntimeError(f"{command} ended with {child.returncode}")
            time.sleep(0.05)
        yield child.pid
    finally:
        child.terminate()
        child.wait()


def serve(port: int, directory: str | Path, *options: str) -> list[str]:
    """The command that runs a service."""
    return [sys.executable, "-m", "optimist.cli", "serve", f"--port={port}", f"--data-dir={directory}", *options]


@contextmanager
def three_processes(directory: Path) -> Generator[tuple[int, Redis, int, int]]:
    """Redis, API and scorer: the API's port, a client of Redis, and the process ids of API and scorer."""
    from optimist.store.redis_program import find_program  # other checkouts may have it elsewhere

    with ExitStack() as stack:
        redis_port, port = free_port(), free_port()
        settings = {"port": str(redis_port), "dir": str(directory), "appendonly": "yes", "appendfsync": "always"}
        options = [word for name, value in {**settings, "save": ""}.items() for word in (f"--{name}", value)]
        stack.enter_context(process([find_program().path, "--bind", "127.0.0.1", *options], redis_port))
        optimist, url = [sys.executable, "-m", "optimist.cli"], f"--redis-url=redis://127.0.0.1:{redis_port}"
        api = stack.enter_context(process([*optimist, "serve", "--no-scoring", f"--port={port}", url], port))
        scorer = stack.enter_context(process([*optimist, "scorer", url], redis_port))
        yield port, stack.enter_context(Redis(port=redis_port)), api, scorer


def scorer_of(service: int) -> int:
    """Wait for the scorer that a service starts, and return its process id."""
    while not (found := _children(service, b"optimist.scoring")):
        time.sleep(0.05)
    return found[0]


def workers_of(service: int) -> list[int]:
    """The processes of a service that answer requests: its workers, or the service itself."""
    return _children(service, b"optimist.server.worker") or [service]


def redis_of(service: int) -> int:
    """The redis-server that a service has started."""
    return _children(service, b"redis-server")[0]


def _children(service: int, word: bytes) -> list[int]:
    """The child processes with this word in their command line."""
    pids = [pid for path in Path(f"/proc/{service}/task").glob("*/children") for pid in path.read_text().split()]
    return [int(pid) for pid in pids if word in Path(f"/proc/{pid}/cmdline").read_bytes()]


def wait_for_sockets(port: int, count: int) -> None:
    """Wait until so many sockets listen on a port: the kernel gives connections only to those."""

    def listening() -> int:
        lines = Path("/proc/net/tcp").read_text().splitlines()
        return sum(f":{port:04X} 00000000:0000 0A " in line for line in lines)

    while listening() < count:
        time.sleep(0.05)


def free_port() -> int:
    """A port on which no process listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def resident(pid: int) -> int:
    """The resident memory of a process in bytes."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def checkouts_of(against: Path | None) -> list[Path]:
    """This checkout, and the one that it is compared with."""
    return [Path(__file__).resolve().parents[1], *([against.resolve()] if against else [])]


def header(*names: str) -> None:
    """Print the head of a table."""
    line(*names)
    line(*("---" for _ in names))


def line(*row: str) -> None:
    """Print one row at once, because a run can be interrupted."""
    print(f"| {' | '.join(row)} |", flush=True)


def cpu_seconds(pid: int) -> float:
    """The processor time that a process has used, in seconds. It is Linux's clock of that process, exact to 1 ns."""
    return time.clock_gettime(~pid << 3 | 2)
