"""The default Redis: a redis-server child on a private socket and a locked directory, started again when it dies.

One thread, the keeper, owns the child's life: it starts it, waits for it, and starts it again, on the same socket, so
that clients find it again. Once a redis-server has served, the keeper tries for ever: what stops it may pass, as a
full disk does. On Linux the child also stops when its parent dies.

Two servers on one directory would destroy acknowledged batches. So the directory is locked by open files that
redis-server inherits: the lock lasts until both processes are gone. The directory itself is locked, because somebody
may remove the files in it by hand, and a file in it that says who holds it, because some network file systems lock
files alone.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from redis import Redis
from redis import exceptions as redis_errors
from redis.backoff import NoBackoff
from redis.retry import Retry

from optimist.places import cache_directory
from optimist.records import CannotStart, DirectoryInUse
from optimist.store import dies_with_parent
from optimist.store.redis_program import MAINTAINED, Program, ServerLog, find_program, options, refuse_downgrade

_LOCK_POLL_SECONDS = 0.02
_HOLDER_BYTES = 1024
_log = logging.getLogger(__name__)
_SOCKET = "redis.sock"
_POLL_SECONDS = 0.02
_STOP_SECONDS = 60.0
SHORTEST, LONGEST = 0.1, 30.0
"""Pauses before a redis-server is started again: none after the first death, then doubling each time."""
STEADY = 60.0
"""Seconds that a redis-server must have lived for its death to count as the first."""
_DAY = 86_400.0
DEATHS = 5
"""Number of times that a redis-server may die before it has served, until starting it is given up."""


def holder_of(directory: Path) -> dict[str, Any]:
    """The note of the present holder of a data directory; {} if it is not held."""
    try:
        fd = os.open(directory / "lock", os.O_RDWR)
    except FileNotFoundError:
        return {}
    try:
        return {} if _try(fd) else _read(fd)
    finally:
        os.close(fd)


class DirectoryLock:
    """The exclusive lock of a directory, and of the file `lock` in it, which says who holds it.

    `fds`: file descriptors that a server must inherit. `clean`: whether the last server on the directory was stopped,
    not killed; the holder keeps it up to date.
    wait_seconds: how long to wait for another holder. Raises DirectoryInUse after that.
    """

    def __init__(self, directory: Path, wait_seconds: float) -> None:
        self._directory = directory
        self.fds: list[int] = []
        deadline = time.monotonic() + wait_seconds
        try:
            # The directory first: if it is held, nothing in it may be changed.
            for path, flags in ((directory, os.O_RDONLY), (directory / "lock", os.O_RDWR | os.O_CREAT)):
                self.fds.append(os.open(path, flags, 0o600))
                # Some file systems cannot lock a directory: the file in it is then enough.
                with contextlib.suppress(OSError) if path is directory else contextlib.nullcontext():
                    self._wait(deadline)
        except BaseException:
            self._close()
            raise
        last = _read(self._file)
        self.clean: bool = not last.get("dirty", False)
        # A holder that was killed could not remove its socket.
        if "runtime" in last:
            shutil.rmtree(last["runtime"], ignore_errors=True)

    def note(self, server: int, runtime: Path) -> None:
        """Write the holder of the directory, and whether it is `clean`, for the next holder."""
        holder = {"service": os.getpid(), "redis-server": server, "runtime": str(runtime), "dirty": not self.clean}
        # Padded to a constant length, so that one write replaces the last note: a kill leaves the old or the new one.
        os.pwrite(self._file, json.dumps(holder).encode().ljust(_HOLDER_BYTES), 0)

    def release(self) -> None:
        """Release the lock; idempotent. Unless it is `clean`, the next holder reads the last note."""
        if not self.fds:
            return
        if self.clean:
            os.ftruncate(self._file, 0)
        self._close()

    @property
    def _file(self) -> int:
        return self.fds[-1]

    def _close(self) -> None:
        while self.fds:
            os.close(self.fds.pop())

    def _wait(self, deadline: float) -> None:
        """Lock what was opened last. Raises DirectoryInUse where another holder keeps it until the deadline."""
        while not _try(self._file):
            if time.monotonic() >= deadline:
                holder = _noted(self._directory)
                raise DirectoryInUse(
                    f"{self._directory} is in use by process {holder.get('service', '?')} (its redis-server is process "
                    f"{holder.get('redis-server', '?')}{'' if holder else '; its lock file is gone'}). "
                    "Stop it, or choose another data directory."
                )
            time.sleep(_LOCK_POLL_SECONDS)


def _try(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _noted(directory: Path) -> dict[str, Any]:
    """The note in the lock file, whether or not it is held; {} if there is none."""
    try:
        fd = os.open(directory / "lock", os.O_RDONLY)
    except FileNotFoundError:
        return {}
    try:
        return _read(fd)
    finally:
        os.close(fd)


def _read(fd: int) -> dict[str, Any]:
    content = os.pread(fd, _HOLDER_BYTES, 0)
    try:
        return json.loads(content) if content else {}
    except ValueError:  # not written by this project: the last holder, and how it ended, is unknown
        return {"dirty": True}


class EmbeddedRedis:
    """A redis-server child, whose directory is locked until `stop`. A context manager; made by `start_embedded`.

    `program`: what it runs. `pid`: process id of the present redis-server, which changes with each new start.
    """

    def __init__(self, program: Program, directory: Path, lock: DirectoryLock) -> None:
        self.pid = 0
        self.started: Future[None] = Future()
        self.program = program
        self._directory = directory
        self._lock = lock
        self._runtime = _make_runtime()
        self._socket = self._runtime / _SOCKET
        self._process: subprocess.Popen[bytes] | None = None
        self._stopping = threading.Event()
        self._spawning = threading.Lock()
        # For the kernel the parent is the *thread* that started the child; so this thread lives as long as the child.
        self._keeper = threading.Thread(target=self._keep, name="redis-server-keeper", daemon=True)
        self._keeper.start()

    @property
    def url(self) -> str:
        """Where it listens, for `connect`; the same for every redis-server of this object."""
        return f"unix://{self._socket}"

    @property
    def running(self) -> bool:
        """False while there is no redis-server: stopped, or not yet started again."""
        return self._process is not None and self._process.poll() is None

    def stop(self) -> None:
        """Stop redis-server in order, and release the directory; idempotent."""
        with self._spawning:
            self._stopping.set()
        if self._process is not None:
            _end(self._process)
        self._keeper.join()
        shutil.rmtree(self._runtime, ignore_errors=True)
        self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def _keep(self) -> None:
        pause, deaths = 0.0, 0
        while True:
            begun = time.monotonic()
            try:
                level, how = logging.WARNING, self._live()
            except Exception as error:
                if self._process is not None:
                    _end(self._process)
                if not self.started.done():
                    self.started.set_exception(error)
                    return
                level, how = logging.ERROR, str(error)
            if self._stopping.is_set():
                return
            deaths += 1
            if deaths == DEATHS and not self.started.done():
                self.started.set_exception(CannotStart(f"redis-server died {DEATHS} times as it started: {how}"))
                return
            if time.monotonic() - begun > STEADY:
                pause = 0.0
            _log.log(level, "%s; starting it again%s", how, f" in {pause:g} s" if pause else "")
            self._stopping.wait(pause)
            pause = min(max(2.0 * pause, SHORTEST), LONGEST)

    def _live(self) -> str:
        """Run one redis-server until it ends, and return how it ended. Raises CannotStart if it does not start."""
        while True:
            log = ServerLog(self._directory / "redis.log")
            process = self._spawn(log.path)
            if process is None:
                return "redis-server was stopped"
            answers = _wait_for_answer(process, self._starting_socket)
            if not (answers and (cut := log.find("Truncating the AOF"))):
                break
            # Redis cuts off the unfinished command, but leaves the transaction it belonged to open (6.2.14): what is
            # written next would belong to it, and be lost. Starting again closes it.
            _log.warning("redis-server was killed while writing; the unfinished write is gone: %s", cut)
            _end(process)
        if answers:
            self._open(process)
        code = process.wait()
        if answers:
            self._lock.clean = code == 0
        elif code > 0 and not self._stopping.is_set():
            raise CannotStart(log.explain("redis-server did not start."))
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        return f"redis-server (process {process.pid}) {how}"

    @property
    def _starting_socket(self) -> Path:
        return self._runtime / "starting.sock"

    def _spawn(self, log: Path) -> subprocess.Popen[bytes] | None:
        """Start a redis-server that clients cannot reach yet; None after `stop` was called."""
        command = [self.program.path, *options(self._directory, self._starting_socket, log, self._lock.clean)]
        with self._spawning, log.open("ab") as output:
            if self._stopping.is_set():
                return None
            process = self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", dies_with_parent.__file__, str(os.getpid()), *command],
                pass_fds=self._lock.fds,
                # Ctrl-C must not reach the child: the service stops first, then stops the child.
                start_new_session=True,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        self.pid = process.pid
        # Until it serves, the directory is as clean as it was.
        self._lock.note(process.pid, self._runtime)
        return process

    def _open(self, process: subprocess.Popen[bytes]) -> None:
        """Make a redis-server that is ready reachable for the clients."""
        self._lock.clean = False
        self._lock.note(process.pid, self._runtime)
        # Missing if redis-server is being stopped at this moment: it removes its socket itself.
        with contextlib.suppress(FileNotFoundError):
            self._starting_socket.rename(self._socket)
        if self.started.done():
            _log.info("redis-server (process %d) has started again", process.pid)
        else:
            self.started.set_result(None)


def start_embedded(directory: Path, wait_seconds: float = 10.0) -> EmbeddedRedis:
    """Start redis-server on a data directory, made if missing, and return once it answers. Blocks; for any thread.

    It is the newest redis-server or valkey-server that `find_program` finds, which the log names.
    Every acknowledged write is on disk (`appendfsync always`). When redis-server dies it is started again, for ever,
    after pauses of up to `LONGEST` seconds while it keeps dying.
    wait_seconds: how long to wait for another service to give the directory free, as one killed a moment ago does;
    loading the data may take longer and is waited for.
    Raises DirectoryInUse after that, CannotStart if there is no redis-server or it does not come up.
    """
    program = find_program()
    directory = directory.resolve()
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = DirectoryLock(directory, wait_seconds)
    except OSError as error:
        raise CannotStart(f"{directory} cannot be used for data: {error}") from None
    try:
        refuse_downgrade(program, directory)
        embedded = EmbeddedRedis(program, directory, lock)
    except BaseException:
        lock.release()
        raise
    try:
        embedded.started.result()
    except BaseException:
        embedded.stop()
        raise
    if program.version >= MAINTAINED:
        _log.info("%s serves the data in %s", program, directory)
    else:
        advice = "its line gets no more security fixes: install Redis 7 or newer, which then takes the data over"
        level = logging.WARNING if _is_news("old-redis") else logging.INFO
        _log.log(level, "%s serves the data in %s; %s", program, directory, advice)
    return embedded


def _is_news(what: str) -> bool:
    """Whether it was not said to this user within a day; always where that cannot be noted."""
    try:
        file = cache_directory() / "said" / what
        if file.exists() and 0.0 <= time.time() - file.stat().st_mtime < _DAY:
            return False
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    except (OSError, RuntimeError):  # RuntimeError: there is no home
        pass
    return True


def running_url(directory: Path) -> str | None:
    """Where the redis-server of a service that runs on this data directory listens; None while none does.

    For commands of the same user: the socket's directory is closed to others.
    """
    runtime = holder_of(directory.resolve()).get("runtime")
    return None if runtime is None else f"unix://{Path(runtime) / _SOCKET}"


def _make_runtime() -> Path:
    # Socket paths end at 108 characters, so the socket lives neither in the data directory nor in a long TMPDIR.
    parent = tempfile.gettempdir()
    return Path(tempfile.mkdtemp(prefix="optimist-", dir=parent if len(parent) < 70 else "/tmp"))


def _wait_for_answer(process: subprocess.Popen[bytes], socket: Path) -> bool:
    """Wait until redis-server answers, however long it loads; False if it ended."""
    with Redis(unix_socket_path=str(socket), socket_timeout=1.0, retry=Retry(NoBackoff(), 0)) as redis:
        while process.poll() is None:
            try:
                redis.ping()
            except (redis_errors.ConnectionError, redis_errors.TimeoutError):
                time.sleep(_POLL_SECONDS)
            else:
                return True
    return False


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
