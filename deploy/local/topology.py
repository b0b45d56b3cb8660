"""Runs a whole deployment as plain processes on this machine: Redis, API replicas, scorers and the proxy."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
from redis import Redis
from redis import exceptions as redis_errors

from optimist.store import dies_with_parent
from optimist.store.keys import DUE
from optimist.store.redis_program import find_program

EXPERIMENT = "rolling"
DOCKER = Path(__file__).parents[2] / "docker"
NGINX = """
daemon off;
{user}
pid {folder}/nginx.pid;
error_log {folder}/nginx.log warn;
events {{ worker_connections 1024; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    upstream optimist {{
        {servers}
        keepalive 64;
        keepalive_timeout 60s;
    }}
    server {{
        listen 127.0.0.1:{port};
        include {common};
    }}
}}
"""


def free_port() -> int:
    """A free TCP port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def until(condition: Callable[[], object], what: str, seconds: float = 120.0) -> None:
    """Wait until the condition holds. Raises TimeoutError, which names `what` was expected."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"expected {what} within {seconds:.0f} s")
        time.sleep(0.05)


@dataclass
class Member:
    """One process, which can be stopped and started again. It ends when this process does, however."""

    name: str
    command: list[str]
    is_ready: Callable[[], bool]
    log: Path
    stop_signal: signal.Signals = signal.SIGTERM
    process: subprocess.Popen[bytes] | None = field(default=None, init=False)

    def start(self) -> None:
        """Start the process. `wait` returns when it is ready."""
        command = [sys.executable, "-I", "-S", dies_with_parent.__file__, str(os.getpid()), *self.command]
        with self.log.open("ab") as log:
            # A session of its own: Ctrl-C reaches only the script, which then stops all processes in order.
            self.process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)

    def wait(self) -> None:
        """Wait until the process is ready. Raises RuntimeError with the end of its log if it ended instead."""

        def serves() -> bool:
            if self.process is None or self.process.poll() is not None:
                raise RuntimeError(f"{self.name} ended: {self.log.read_text()[-2000:]}")
            return self.is_ready()

        until(serves, f"{self.name} to serve")

    def stop(self) -> int:
        """Stop the process and return its exit code. It is killed if it does not end within a minute."""
        if self.process is None:
            return 0
        if self.process.poll() is None:
            self.process.send_signal(self.stop_signal)
        try:
            return self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()


@dataclass(frozen=True)
class Deployment:
    """The deployment's URL, its access keys, and its members in the order of a rolling restart."""

    url: str
    admin: str
    """An access key with role admin."""
    worker: str
    """An access key with role worker for `EXPERIMENT` only."""
    members: list[Member]


@contextmanager
def topology(folder: Path) -> Iterator[Deployment]:
    """Start a deployment that requires access keys, and stop it at the end of the context.

    Raises FileNotFoundError if nginx, CannotStart if redis-server is not installed.
    """
    nginx = shutil.which("nginx") or shutil.which("/usr/sbin/nginx")
    if nginx is None:
        raise FileNotFoundError("expected nginx, the proxy of the deployment, to be installed; it was not found")
    redis_port, proxy_port, *api_ports = (free_port() for _ in range(4))
    redis_url = f"redis://127.0.0.1:{redis_port}"
    optimist = [sys.executable, "-m", "optimist.cli"]

    def reads(port: int, path: str) -> bool:
        with contextlib.suppress(httpx.HTTPError):
            return httpx.get(f"http://127.0.0.1:{port}{path}", timeout=2.0).status_code == 200
        return False

    def listeners() -> int:
        """The number of scorers that are waiting for batches."""
        with Redis(port=redis_port) as redis, contextlib.suppress(redis_errors.ConnectionError):
            return redis.pubsub_numsub(DUE)[0][1]
        return 0

    def answers() -> bool:
        with Redis(port=redis_port) as redis, contextlib.suppress(redis_errors.RedisError):
            return redis.ping()
        return False

    def member(name: str, command: list[str], is_ready: Callable[[], bool]) -> Member:
        return Member(name, command, is_ready, folder / f"{name}.log")

    (folder / "data").mkdir()
    options = ["--port", f"{redis_port}", "--bind", "127.0.0.1", "--dir", f"{folder / 'data'}"]
    redis = member("redis", [find_program().path, f"{DOCKER / 'redis' / 'redis.conf'}", *options], answers)
    apis = [
        member(
            f"api-{number}",
            [*optimist, "serve", "--no-scoring", "--require-keys", f"--port={port}", f"--redis-url={redis_url}"],
            lambda port=port: reads(port, "/readyz"),
        )
        for number, port in enumerate(api_ports, 1)
    ]
    scorers = [
        member(f"scorer-{number}", [*optimist, "scorer", f"--redis-url={redis_url}"], lambda: listeners() == 2)
        for number in (1, 2)
    ]
    configuration = folder / "nginx.conf"
    configuration.write_text(
        NGINX.format(
            folder=folder,
            user="user root;" if os.geteuid() == 0 else "",  # else its workers could not write into the folder
            port=proxy_port,
            common=DOCKER / "nginx" / "optimist.conf",
            servers="\n".join(f"server 127.0.0.1:{port} max_fails=1 fail_timeout=2s;" for port in api_ports),
        )
    )
    proxy = member(
        "proxy",
        [nginx, "-e", f"{folder / 'nginx.log'}", "-c", f"{configuration}"],
        lambda: reads(proxy_port, "/healthz"),
    )
    proxy.stop_signal = signal.SIGQUIT  # so that it finishes open requests

    def key(role: str, *options: str) -> str:
        command = [*optimist, "keys", "create", f"--redis-url={redis_url}", f"--role={role}", "--namespace=fleet"]
        return subprocess.run([*command, *options], check=True, capture_output=True, text=True).stdout.strip()

    others = [*apis, *scorers, proxy]
    try:
        redis.start()
        redis.wait()
        # An API that requires keys does not start until there is one.
        admin, worker = key("admin"), key("worker", f"--experiment={EXPERIMENT}")
        for one in others:
            one.start()
        for one in others:
            one.wait()
        yield Deployment(f"http://127.0.0.1:{proxy_port}", admin, worker, [*apis, *scorers, redis, proxy])
    finally:
        for one in (proxy, *scorers, *apis, redis):
            one.stop()
