"""The lock on a data directory: open files that redis-server inherits, so it lasts until both processes are gone.

Two servers on one directory would destroy acknowledged batches. So the directory itself is locked, because somebody may
remove the files in it by hand, and a file in it that says who holds it, because some network file systems lock files
alone.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import time
from pathlib import Path
from typing import Any

from optimist.records import DirectoryInUse

_POLL_SECONDS = 0.02
_HOLDER_BYTES = 1024


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
                # It need not be possible, see above.
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
            time.sleep(_POLL_SECONDS)


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
