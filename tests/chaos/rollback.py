"""Rollback of Redis: the states of its append-only file during the last seconds."""

from __future__ import annotations

import contextlib
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

PERIOD = 0.1
"""Seconds between two stored states."""
KEPT = 6.0
"""Seconds for which a state is stored."""


@dataclass
class Rollback:
    """One rollback: Redis was killed at `gone`, and was visible to clients again at `back` with its state of `to`.

    All times are monotonic seconds. `back` is None before that. Everything acknowledged before `to` must still exist.
    """

    gone: float
    to: float
    back: float | None = None


@dataclass
class _State:
    at: float
    manifest: bytes | None
    files: list[tuple[Path, BinaryIO, int]]
    """The files with their lengths at that time."""

    def close(self) -> None:
        for _, file, _ in self.files:
            file.close()


class Past:
    """The states of an append-only file, of Redis 6.2 or 7, during the last seconds.

    Files are only appended to, so a length is enough to restore a state; an open descriptor keeps a file that a rewrite
    has replaced. A state can end within a command, as after a kill.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._folder = directory / "appendonlydir"
        self._manifest = self._folder / "appendonly.aof.manifest"
        self._states: list[_State] = []

    def note(self, now: float) -> None:
        """Store the current state as that of `now` (monotonic seconds), and drop those older than `KEPT`."""
        # Take the time first: everything acknowledged before it is in the files.
        state = self._present(now)
        if state is None:
            return  # Redis is replacing its files; use the next state
        self._states.append(state)
        while len(self._states) > 1 and self._states[0].at < state.at - KEPT:
            self._states.pop(0).close()

    def choose(self, at: float) -> float:
        """The time of the newest state not younger than `at`, else of the oldest. Raises IndexError without states."""
        return max((state.at for state in self._states if state.at <= at), default=self._states[0].at)

    def restore(self, at: float) -> None:
        """Replace the current state by the one of this time, and forget the states after it.

        `at`: an answer of `choose`. No redis-server may run during the call.
        """
        while self._states[-1].at > at:
            self._states.pop().close()
        state = self._states[-1]
        shutil.rmtree(self._folder, ignore_errors=True)
        if state.manifest is not None:
            self._folder.mkdir()
            self._manifest.write_bytes(state.manifest)
        for path, file, length in state.files:
            path.unlink(missing_ok=True)  # older states are parts of the old file, which must not change
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
        """The manifest of Redis 7 without the files that it is about to remove; None for an older Redis."""
        if not self._manifest.exists():
            return None
        lines = self._manifest.read_bytes().splitlines(keepends=True)
        return b"".join(line for line in lines if not line.rstrip().endswith(b"type h"))

    def _paths(self, manifest: bytes | None) -> list[Path]:
        if manifest is None:
            return [self._directory / "appendonly.aof"]
        return [self._folder / line.split()[1].decode() for line in manifest.splitlines() if line.startswith(b"file ")]
