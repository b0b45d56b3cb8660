"""The default Redis: a redis-server child on a private socket and a locked directory, started again when it dies.

It is started again (`optimist.supervised`) on the same socket, so that clients find it again. On Linux the child also
stops when its parent dies.

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
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from redis import Redis
from redis import exceptions as redis_errors
from redis.backoff import NoBackoff
from redis.retry import Retry

from optimist.places import cache_directory
from optimist.records import CannotStart, DirectoryInUse
from optimist.store import dies_with_parent
from optimist.store.redis_program import MAINTAINED, Program, ServerLog, find_program, options, refuse_downgrade
from optimist.supervised import Supervised

_HOLDER_BYTES = 1024
"""Bytes that are read of the file that says who holds a directory."""
_log = logging.getLogger(__name__)
_SOCKET = "redis.sock"


def holder_of(directory: Path) -> dict[str, Any]:
    """The note of the present holder of a data directory; {} if it is not held."""
    return _noted(directory, _try)


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
            time.sleep(0.02)


def _try(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _noted(directory: Path, is_void: Callable[[int], bool] = lambda fd: False) -> dict[str, Any]:
    """The note in the lock file; {} if there is none, or it is void."""
    try:
        fd = os.open(directory / "lock", os.O_RDWR)
    except FileNotFoundError:
        return {}
    try:
        return {} if is_void(fd) else _read(fd)
    finally:
        os.close(fd)


def _read(fd: int) -> dict[str, Any]:
    content = os.pread(fd, _HOLDER_BYTES, 0)
    try:
        return json.loads(content) if content else {}
    except ValueError:  # not written by this project: the last holder, and how it ended, is unknown
        return {"dirty": True}


class EmbeddedRedis(Supervised):
    """A redis-server child, whose directory is locked until `stop`. A context manager; made by `start_embedded`.

    `program`: what it runs.
    """

    def __init__(self, program: Program, directory: Path, lock: DirectoryLock) -> None:
        super().__init__("redis-server", 60.0)
        self.program = program
        self._directory = directory
        self._lock = lock
        self._runtime = _make_runtime()
        self._socket, self._starting_socket = self._runtime / _SOCKET, self._runtime / "starting.sock"

    @property
    def url(self) -> str:
        """The URL for `connect`; the same for every redis-server of this object."""
        return f"unix://{self._socket}"

    def stop(self) -> None:
        """Stop redis-server in order, and release the directory; idempotent."""
        super().stop()
        shutil.rmtree(self._runtime, ignore_errors=True)
        self._lock.release()

    def spawn(self) -> subprocess.Popen[bytes]:
        """A redis-server that clients cannot reach yet."""
        self._said = ServerLog(self._directory / "redis.log")
        own = options(self._directory, self._starting_socket, self._said.path, self._lock.clean)
        with self._said.path.open("ab") as output:
            process = subprocess.Popen(
                [sys.executable, "-I", "-S", dies_with_parent.__file__, str(os.getpid()), self.program.path, *own],
                pass_fds=self._lock.fds,
                # Ctrl-C must not reach the child: the service stops first, then stops the child.
                start_new_session=True,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        # Until it serves, the directory is as clean as it was.
        self._lock.note(process.pid, self._runtime)
        return process

    def follow(self, process: subprocess.Popen[bytes]) -> bool:
        """True if the redis-server, which has ended now, has served. Raises CannotStart if it does not start."""
        if not _wait_for_answer(process, self._starting_socket):
            if process.wait() > 0:
                raise CannotStart(self._said.explain("redis-server did not start."))
            return False
        if cut := self._said.find("Truncating the AOF"):
            # Redis cuts off the unfinished command, but leaves the transaction it belonged to open (6.2.14): what is
            # written next would belong to it, and be lost. Starting again closes it.
            _log.warning("redis-server was killed while writing; the unfinished write is gone: %s", cut)
            self.end(process)
            return False
        self._lock.clean = False
        self._lock.note(process.pid, self._runtime)
        # Missing if redis-server is being stopped at this moment: it removes its socket itself.
        with contextlib.suppress(FileNotFoundError):
            self._starting_socket.rename(self._socket)
        self.has_begun()
        self._lock.clean = process.wait() == 0
        return True


def start_embedded(directory: Path, wait_seconds: float = 10.0) -> EmbeddedRedis:
    """Start redis-server on a data directory, made if missing, and return once it answers. Blocks; for any thread.

    It is the newest redis-server or valkey-server that `find_program` finds, which the log names.
    Every acknowledged write is on disk (`appendfsync always`). When redis-server dies it is started again, for ever,
    after pauses of up to half a minute while it keeps dying.
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
        embedded.start()
        embedded.ready.result()
    except BaseException:
        embedded.stop()
        raise
    _log.info("%s serves the data in %s", program, directory)
    return embedded


def warn_of(program: Program) -> None:
    """Warn of a redis-server whose line gets no more security fixes, once a day."""
    if program.version < MAINTAINED:
        advice = "its line gets no more security fixes: install Redis 7 or newer, which then takes the data over"
        _log.log(logging.WARNING if _is_news("old-redis") else logging.INFO, "%s: %s", program, advice)


def _is_news(what: str) -> bool:
    """True if it was not said to this user within a day; always where that cannot be noted."""
    try:
        file = cache_directory() / "said" / what
        if file.exists() and 0.0 <= time.time() - file.stat().st_mtime < 24 * 3600:
            return False
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    except (OSError, RuntimeError):  # RuntimeError: there is no home
        pass
    return True


def running_url(directory: Path) -> str | None:
    """The URL of the redis-server of a service that runs on this data directory; None while none does.

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
                time.sleep(0.02)
            else:
                return True
    return False
