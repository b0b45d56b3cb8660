"""A Redis that goes back in time: the states that its append-only file was in some seconds ago."""

from __future__ import annotations

import contextlib
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

PERIOD = 0.1
"""Seconds between two states that are kept."""
KEPT = 6.0
"""Seconds for which a state is kept."""


@dataclass
class Rollback:
    """One time that Redis went back: killed at `gone`, and shown to clients again at `back` with the state of `to`.

    All in monotonic seconds. `back` is None until then. What was acknowledged before `to` must still be there.
    """

    gone: float
    to: float
    back: float | None = None


@dataclass
class _State:
    at: float
    manifest: bytes | None
    files: list[tuple[Path, BinaryIO, int]]
    """Each file with its length at that time."""

    def close(self) -> None:
        for _, file, _ in self.files:
            file.close()


class Past:
    """The states of an append-only file, of Redis 6.2 or 7, during the last seconds.

    The files are only appended to, so a length is enough to come back to a state; an open descriptor keeps a file that
    a rewrite has replaced. A state may end in half a command, as after a kill.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._folder = directory / "appendonlydir"
        self._manifest = self._folder / "appendonly.aof.manifest"
        self._states: list[_State] = []

    def note(self, now: float) -> None:
        """Keep the present state as that of `now` (monotonic seconds), and drop those that are older than `KEPT`."""
        # The time is taken first: whatever was acknowledged by then is in the files.
        state = self._present(now)
        if state is None:
            return  # Redis is just replacing its files: the next one will do
        self._states.append(state)
        while len(self._states) > 1 and self._states[0].at < state.at - KEPT:
            self._states.pop(0).close()

    def choose(self, at: float) -> float:
        """The time of the newest state that is as old as `at`, else of the oldest. Raises IndexError without any."""
        return max((state.at for state in self._states if state.at <= at), default=self._states[0].at)

    def restore(self, at: float) -> None:
        """Put the state of this time in place of the present one, and forget those that came after it.

        `at`: as `choose` answers. No redis-server may run meanwhile.
        """
        while self._states[-1].at > at:
            self._states.pop().close()
        state = self._states[-1]
        shutil.rmtree(self._folder, ignore_errors=True)
        if state.manifest is not None:
            self._folder.mkdir()
            self._manifest.write_bytes(state.manifest)
        for path, file, length in state.files:
            path.unlink(missing_ok=True)  # older states are parts of the file that was there: it must stay as it is
            file.seek(0)
            with path.open("wb") as copy:
                shutil.copyfileobj(file, copy)
                copy.truncate(length)

    def forget(self) -> None:
        """Drop all states."""
        while self._states:
            self._states.pop().close()

    def _present(self, now: float) -> _State | None:
        state = _State(now, self._read_manifest(), [])
        with contextlib.suppress(FileNotFoundError):
            for path in self._paths(state.manifest):
                file = path.open("rb")
                state.files.append((path, file, os.fstat(file.fileno()).st_size))
            if self._read_manifest() == state.manifest:
                return state
        state.close()
        return None

    def _read_manifest(self) -> bytes | None:
        """What Redis 7 keeps beside its files, without those that it is about to remove; None of an older one."""
        if not self._manifest.exists():
            return None
        lines = self._manifest.read_bytes().splitlines(keepends=True)
        return b"".join(line for line in lines if not line.rstrip().endswith(b"type h"))

    def _paths(self, manifest: bytes | None) -> list[Path]:
        if manifest is None:
            return [self._directory / "appendonly.aof"]
        return [self._folder / line.split()[1].decode() for line in manifest.splitlines() if line.startswith(b"file ")]
