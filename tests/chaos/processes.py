"""The processes of a whole service: each is restarted when it ends, and all end with the harness."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from redis import Redis
from redis import exceptions as redis_errors
from redis.backoff import NoBackoff
from redis.retry import Retry

from tests.support.servers import free_port, redis_6, redis_7

from .rollback import PERIOD, Past, Rollback
from .wire import Client

# Executes the given program, which gets SIGKILL when the harness dies for any reason (Linux).
_WRAPPER = "import ctypes, os, sys; ctypes.CDLL(None).prctl(1, 9); os.execvp(sys.argv[1], sys.argv[1:])"
_POLL = 0.02


class Child:
    """A process that is restarted whenever it ends, until `end`.

    `exits`: how it ended when the harness had not killed it, with its last line of output. `meanwhile`: called once,
    between the next end and the start after it.
    """

    def __init__(
        self, name: str, command: Sequence[str], directory: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        self.name = name
        self.exits: list[str] = []
        self.meanwhile: Callable[[], Awaitable[None]] | None = None
        self.log = directory / f"{name}.log"
        self._command = [sys.executable, "-I", "-S", "-c", _WRAPPER, *command]
        self._environment = {**os.environ, **(environment or {})}
        self._killed = self._ending = False
        self.process = self._spawn()
        self._keeper = asyncio.create_task(self._keep())

    def kill(self) -> None:
        """Send SIGKILL, even if the process is stopped."""
        self._killed = True
        self.process.kill()

    def pause(self) -> None:
        """Send SIGSTOP: the process keeps its resources and does nothing."""
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Send SIGCONT, which has no effect on a running process."""
        self.process.send_signal(signal.SIGCONT)

    async def end(self) -> None:
        """Kill it and do not restart it."""
        self._ending = True
        self.kill()
        await self._keeper

    def _spawn(self) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as log:
            return subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self._environment,
                start_new_session=True,  # Ctrl-C goes to the harness, which ends the children
            )

    async def _keep(self) -> None:
        while True:
            await asyncio.sleep(_POLL)
            if self.process.poll() is None:
                continue
            if self._ending:
                return
            if not self._killed:
                last = self.log.read_text(errors="replace").splitlines()[-1:] or ["nothing"]
                self.exits.append(f"{self.name} ended with {self.process.returncode}: {last[0]}")
                await asyncio.sleep(0.5)
                if self._ending:
                    return
            if self.meanwhile is not None:
                task, self.meanwhile = self.meanwhile, None
                await task()
                if self._ending:
                    return
            self._killed = False
            self.process = self._spawn()


class Clock:
    """The clock of the processes that are started with its `environment`; it cannot be set without a C compiler."""

    def __init__(self, directory: Path) -> None:
        self.library = build_shim(directory, "set_clock")
        self._offset = directory / "offset"
        self._offset.write_bytes(bytes(8))

    @property
    def environment(self) -> dict[str, str]:
        """The variables with which processes have this clock."""
        return {} if self.library is None else {"LD_PRELOAD": str(self.library), "SET_CLOCK": str(self._offset)}

    def set(self, seconds: int) -> None:
        """Set it this many seconds later than the real time."""
        with self._offset.open("r+b") as file:
            file.write(seconds.to_bytes(8, sys.byteorder, signed=True))  # in place: processes have mapped the file


class RedisServer:
    """A redis-server on one directory, with an append-only file that is synced at every write.

    Clients reach it at `socket`, which exists only while the server is ready. `delay` is the file that slow_fsync.c
    reads, or None without a C compiler. `clock`: its clock. `rollbacks`: those that `roll_back` caused, in order.
    """

    def __init__(self, directory: Path) -> None:
        directory.mkdir()
        self.socket = directory / "redis.sock"
        self.rollbacks: list[Rollback] = []
        self._past = Past(directory)
        self._memory: asyncio.Task[None] | None = None
        self._is_restored = True
        self._starting = directory / "starting.sock"
        self.clock = Clock(directory)
        shim = build_shim(directory, "slow_fsync")
        self.delay = None if shim is None else directory / "delay"
        self.slow_down(0.0)
        options = {
            "port": "0",
            "unixsocket": str(self._starting),
            "dir": str(directory),
            "appendonly": "yes",
            "appendfsync": "always",
            "save": "",
        }
        self._log = directory / "redis-server.log"
        program = redis_7() or redis_6() or "redis-server"
        self.child = Child(
            "redis-server",
            [program, *(argument for name, value in options.items() for argument in (f"--{name}", value))],
            directory,
            self.clock.environment
            | ({} if shim is None else {"LD_PRELOAD": f"{shim}:{self.clock.library}", "SLOW_FSYNC": str(self.delay)}),
        )
        self._opener = asyncio.create_task(self._open_for_ever())

    def slow_down(self, seconds: float) -> None:
        """Make every fsync take `seconds` longer."""
        if self.delay is not None:
            # Write in place: the running server has mapped the file.
            with self.delay.open("r+b" if self.delay.exists() else "wb") as file:
                file.write(round(seconds * 1e6).to_bytes(4, sys.byteorder))

    def remember(self) -> None:
        """Start to keep the states for `roll_back`: this one and those after it."""
        self._past.note(time.monotonic())
        self._memory = asyncio.create_task(self._remember_for_ever())

    def roll_back(self, seconds: float, down: float = 0.0) -> None:
        """Kill it, and restart it after `down` seconds with its state of `seconds` ago, to within `PERIOD`.

        Uses the state of the first `remember` if that is younger. Has no effect before it is back from an earlier
        rollback.
        """
        if self.rollbacks and self.rollbacks[-1].back is None:
            return
        now = time.monotonic()
        rollback = Rollback(now, self._past.choose(now - seconds))

        async def restore() -> None:
            await asyncio.sleep(down)
            await asyncio.to_thread(self._past.restore, rollback.to)
            self._is_restored = True

        self.rollbacks.append(rollback)
        self._is_restored = False
        self.child.meanwhile = restore
        self.child.kill()

    def client(self) -> Redis:
        """A plain client that bypasses the proxies, for checks."""
        return Redis(unix_socket_path=str(self.socket), socket_timeout=30.0, retry=Retry(NoBackoff(), 0))

    async def end(self) -> None:
        """Kill it and do not restart it."""
        self._opener.cancel()
        if self._memory is not None:
            self._memory.cancel()
        await self.child.end()
        self._past.forget()

    async def _remember_for_ever(self) -> None:
        while True:
            await asyncio.sleep(PERIOD)
            if self._is_restored:
                self._past.note(time.monotonic())

    async def _open_for_ever(self) -> None:
        """Make each new server visible to the clients once it has loaded a whole file."""
        seen = None
        while True:
            await asyncio.sleep(_POLL)
            process = self.child.process
            if process is seen or not await asyncio.to_thread(self._answers) or process.poll() is not None:
                continue
            seen = process
            if b"Truncating the AOF" in self._log_of(process):
                # The kill interrupted a transaction. Redis 6.2 drops the torn end but leaves it open, and what is
                # written next would be lost with it; a restart reads the repaired file correctly.
                self.child.kill()
            else:
                with contextlib.suppress(FileNotFoundError):
                    self._starting.rename(self.socket)
                    if self._is_restored and self.rollbacks and self.rollbacks[-1].back is None:
                        self.rollbacks[-1].back = time.monotonic()

    def _answers(self) -> bool:
        try:
            with Redis(unix_socket_path=str(self._starting), socket_timeout=5.0, retry=Retry(NoBackoff(), 0)) as redis:
                return bool(redis.ping())
        except redis_errors.RedisError:
            return False

    def _log_of(self, process: subprocess.Popen[bytes]) -> bytes:
        return b"".join(line for line in self._log.read_bytes().splitlines() if line.startswith(b"%d:" % process.pid))


class Deployment:
    """API replicas and scorers on one Redis and with one `clock`, started through the command line as by a user."""

    def __init__(self, directory: Path, redis_url: str, apis: int, scorers: int) -> None:
        self.clock = Clock(directory)
        optimist = [sys.executable, "-m", "optimist.cli"]
        ports: set[int] = set()
        while len(ports) < apis:
            ports.add(free_port())
        self.ports = list(ports)
        self.apis = [
            Child(
                f"api-{i}",
                [*optimist, "serve", "--no-scoring", f"--port={port}", f"--redis-url={redis_url}"],
                directory,
                self.clock.environment,
            )
            for i, port in enumerate(self.ports)
        ]
        self.scorers = [
            Child(f"scorer-{i}", [*optimist, "scorer", f"--redis-url={redis_url}"], directory, self.clock.environment)
            for i in range(scorers)
        ]

    @property
    def children(self) -> list[Child]:
        """All processes."""
        return [*self.apis, *self.scorers]

    async def ready(self, seconds: float = 300.0) -> None:
        """Return when every replica of the API answers `/readyz`. Raises TimeoutError."""
        async with asyncio.timeout(seconds):
            for port in self.ports:
                client = Client(port)
                await client.call("GET", "/readyz")
                client.abort()


@asynccontextmanager
async def ending(*things: Child | RedisServer) -> AsyncIterator[None]:
    """Kill them all when the context ends."""
    try:
        yield
    finally:
        await asyncio.gather(*(thing.end() for thing in things))


def build_shim(directory: Path, name: str) -> Path | None:
    """The library built from a C file in this directory, for LD_PRELOAD; None without a C compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        return None
    library = directory / f"{name}.so"
    source = Path(__file__).with_name(f"{name}.c")
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
    return library
