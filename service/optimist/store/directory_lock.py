"""The lock on a data directory: an open file that redis-server inherits, so it lasts until both processes are gone.

Two servers on one directory would destroy acknowledged batches.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import time
from pathlib import Path
from typing import Any

from optimist.store.errors import DirectoryInUse

_POLL_SECONDS = 0.02
_HOLDER_BYTES = 1024


def holder_of(directory: Path) -> dict[str, Any]:
    """What the present holder of a data directory noted; {} while there is none."""
    try:
        fd = os.open(directory / "lock", os.O_RDWR)
    except FileNotFoundError:
        return {}
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return _read(fd)
    finally:
        os.close(fd)
    return {}


class DirectoryLock:
    """The exclusive lock `<directory>/lock`, which says who holds it.

    `fd`: what a server must inherit. `clean`: the last server that served from the directory stopped in order, rather
    than being killed; the holder keeps it true to what happens.
    wait_seconds: how long to wait for another holder. Raises DirectoryInUse after that.
    """

    def __init__(self, directory: Path, wait_seconds: float) -> None:
        self.fd = os.open(directory / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        deadline = time.monotonic() + wait_seconds
        while not self._try():
            if time.monotonic() >= deadline:
                holder = _read(self.fd)
                os.close(self.fd)
                raise DirectoryInUse(
                    f"{directory} is in use by process {holder.get('service', '?')} (its redis-server is process "
                    f"{holder.get('redis-server', '?')}). Stop it, or choose another data directory."
                )
            time.sleep(_POLL_SECONDS)
        last = _read(self.fd)
        self.clean: bool = not last.get("dirty", False)
        # A holder that was killed could not remove its socket.
        if "runtime" in last:
            shutil.rmtree(last["runtime"], ignore_errors=True)

    def note(self, server: int, runtime: Path) -> None:
        """Write down who holds the directory, and whether it is `clean`, for those who come next."""
        holder = {"service": os.getpid(), "redis-server": server, "runtime": str(runtime), "dirty": not self.clean}
        # Always as long, so that one write replaces the last holder: a kill in between leaves one or the other.
        os.pwrite(self.fd, json.dumps(holder).encode().ljust(_HOLDER_BYTES), 0)

    def release(self) -> None:
        """Let go; again is as good as once. Unless it is `clean`, the next holder reads what was last noted."""
        if self.fd < 0:
            return
        if self.clean:
            os.ftruncate(self.fd, 0)
        os.close(self.fd)
        self.fd = -1

    def _try(self) -> bool:
        try:
            fcntl.flock(self.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


def _read(fd: int) -> dict[str, Any]:
    content = os.pread(fd, _HOLDER_BYTES, 0)
    try:
        return json.loads(content) if content else {}
    except ValueError:  # not our writing: who was here, and how it ended, is unknown
        return {"dirty": True}
