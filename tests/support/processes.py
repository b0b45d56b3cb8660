"""Real processes for the tests: `optimist serve` on a port of its own, and a proxy that loses replies."""

from __future__ import annotations

import contextlib
import http.client
import os
import signal
import socket
import ssl
import subprocess
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import MappingProxyType
from typing import Any

import httpx
import numpy as np
from prometheus_client.parser import text_string_to_metric_families
from redis import Redis

from optimist.store import running_url
from optimist_client import AsyncPick, Experiment, Pick, tensors
from optimist_client.models import Report
from tests.support import warm


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def batch_path(pick: Pick | AsyncPick) -> str:
    """Where a pick is told, for tests that speak HTTP themselves."""
    return f"/v1/experiments/{pick.info.experiment}/picks/{pick.number}/batch?nonce={pick.info.nonce}"


TENSORS = {"content-type": tensors.MEDIA_TYPE}


def append_batch(
    url: str,
    experiment: str,
    generator: str,
    arrays: Mapping[str, Any],
    key: str | None = None,
    headers: Mapping[str, str] = MappingProxyType({}),
    **query: Any,
) -> httpx.Response:
    """Send a batch that no pick asked for to the service at this URL; with a key of its own unless one is given."""
    return httpx.post(
        f"{url}/v1/experiments/{experiment}/generators/{generator}/batches",
        content=tensors.encode({name: np.asarray(array) for name, array in arrays.items()}),
        headers={**headers, **TENSORS, "idempotency-key": key or uuid.uuid4().hex},
        params=query,
        timeout=60,
    )


class Service:
    """`optimist serve` as a child process; `url` stays the same over restarts."""

    def __init__(
        self,
        directory: Path,
        *options: str,
        port: int | None = None,
        environment: dict[str, str] | None = None,
        popen: type[subprocess.Popen[bytes]] = warm.Popen,
    ) -> None:
        """popen: how it is started; `subprocess.Popen`, as a user's shell does."""
        self.directory = directory
        self.port = port or free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._command = [*warm.CLI, "serve", f"--port={self.port}", *options]
        if not any(option.startswith("--redis-url") for option in options):
            self._command.append(f"--data-dir={directory}")
        self._environment = {**os.environ, **(environment or {})}
        self._log = directory / "service.log"
        self._popen = popen
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, wait: bool = True) -> Service:
        self._log.parent.mkdir(parents=True, exist_ok=True)
        with self._log.open("ab") as log:
            self.process = self._popen(self._command, stdout=log, stderr=log, env=self._environment)
        if wait:
            self.wait_until_ready()
        return self

    def wait_until_ready(self) -> None:
        def is_ready() -> bool:
            assert self.process is not None
            assert self.process.poll() is None, self.log()
            with contextlib.suppress(httpx.HTTPError):
                return self.accepts() and httpx.get(f"{self.url}/readyz").status_code == 200
            return False

        until(is_ready, says=self.log)

    def accepts(self) -> bool:
        """Whether it takes connections."""
        with contextlib.suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", self.port), 30):
            return True
        return False

    def log(self) -> str:
        return self._log.read_text()

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def redis_pid(self) -> int:
        """Process id of the redis-server that this service started."""
        found = self._child(b"redis-server")
        assert found is not None
        return found

    def scorer_pid(self) -> int | None:
        """Process id of its scorer; None while there is none."""
        return self._child(b"optimist.scoring")

    def api_pids(self) -> list[int]:
        """Process ids of its API processes, where it has several."""
        return self._children(b"optimist.server.worker")

    def _child(self, word: bytes) -> int | None:
        """A child with this in its command line."""
        return next(iter(self._children(word)), None)

    def _children(self, word: bytes) -> list[int]:
        assert self.process is not None
        return [pid for pid in children(self.process.pid) if word in command_line(pid)]

    def stop(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(30)


@contextmanager
def serving(directory: Path, *options: str, **how: Any) -> Iterator[Service]:
    """A service that runs; a Redis of its own does not wait for the disk. how: what else `Service` takes."""
    service = Service(directory, *options, **how).start()
    try:
        stop_syncing(service)
        yield service
    finally:
        service.stop()


def stop_syncing(service: Service) -> None:
    """Let a service's own Redis wait for the disk no more. Only a power cut would show the difference."""
    if (url := running_url(service.directory)) is not None:
        with Redis.from_url(url) as redis:
            redis.config_set("appendfsync", "no")


def children(pid: int) -> list[int]:
    """Process ids of those that a process has started or adopted."""
    return [int(child) for path in Path(f"/proc/{pid}/task").glob("*/children") for child in path.read_text().split()]


def command_line(pid: int) -> bytes:
    """The words of a command, each followed by a zero byte; empty if the process is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def until(condition: Callable[[], object], seconds: float = 120.0, says: Callable[[], str] = str) -> None:
    """Wait for a condition, and look at it more and more seldom, down to four times a second: whoever is waited for
    needs the processors. `says` adds to the error."""
    begun, pause = time.monotonic(), 0.01
    while not condition():
        assert time.monotonic() - begun < seconds, f"waited too long {says()}"
        time.sleep(pause)
        pause = min(1.3 * pause, 0.25)


def scored(experiment: Experiment, seconds: float = 120.0) -> Report:
    """The report, once every estimate that is due is made, by the watched metrics, too."""
    reports: list[Report] = []

    def is_scored() -> bool:
        reports[:] = [experiment.report()]
        return all(one.scored for one in (reports[0], *reports[0].watched.values()))

    until(is_scored, seconds)
    return reports[0]


def scraped(url: str) -> Callable[..., float]:
    """A function that says what a metric sums up to, over the labels that are not named."""
    families = text_string_to_metric_families(httpx.get(f"{url}/metrics", timeout=60).text)
    samples = [sample for family in families for sample in family.samples]

    def total(name: str, **labels: str) -> float:
        return sum(s.value for s in samples if s.name == name and labels.items() <= s.labels.items())

    return total


@contextmanager
def answered_by(handler: type[BaseHTTPRequestHandler], certificate: tuple[Path, Path] | None = None) -> Iterator[str]:
    """URL of a server in this process whose every request a handler answers; over TLS with a certificate."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)  # its end is seen this soon
    thread.start()
    try:
        yield f"http{'s' * (certificate is not None)}://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def losing_replies(url: str, every: int) -> Iterator[str]:
    """URL of a proxy to `url` that passes every request on, but cuts the connection instead of each `every`th reply."""
    host = url.removeprefix("http://")
    passed = iter(range(1, 1_000_000))
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def pass_on(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            upstream = http.client.HTTPConnection(host, timeout=30)
            upstream.request(self.command, self.path, body, dict(self.headers.items()))
            reply = upstream.getresponse()
            content = reply.read()
            upstream.close()
            with lock:
                cut = next(passed) % every == 0
            if cut:
                self.close_connection = True
                self.connection.shutdown(socket.SHUT_RDWR)
                return
            self.send_response(reply.status)
            for name, value in reply.getheaders():
                if name.lower() not in ("transfer-encoding", "connection", "server", "date"):
                    self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_DELETE = pass_on

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    with answered_by(Handler) as url_of_proxy:
        yield url_of_proxy


@contextmanager
def scorer(redis_url: str, directory: Path) -> Iterator[subprocess.Popen[bytes]]:
    """`optimist scorer` as a child process, which is killed in the end, paused or not."""
    command = [*warm.CLI, "scorer", f"--redis-url={redis_url}"]
    with (directory / "scorer.log").open("ab") as log:
        process = warm.Popen(command, stdout=log, stderr=log)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGCONT)
        process.kill()
        process.wait()
