"""What the processes of one service on one machine must know of each other, in a few bytes that they share."""

from __future__ import annotations

import mmap
import time
from pathlib import Path

SILENT = 30.0
"""Seconds without a word of the scorer, which has one every second, after which it cannot be at work."""


class Board:
    """The bytes of bodies that each API process holds, and when the scorer was last heard of.

    processes: number of API processes. number: of this one, from 0. path: the file that they all map, which is made if
    it is missing; None for one process that shares with none.
    """

    def __init__(self, processes: int = 1, number: int = 0, path: Path | None = None) -> None:
        self.processes = processes
        self._number = number
        size = 8 * (processes + 1)
        if path is None:
            shared = memoryview(mmap.mmap(-1, size))
        else:
            with path.open("a+b") as file:
                file.truncate(size)
                shared = memoryview(mmap.mmap(file.fileno(), size))
        self._held = shared[:-8].cast("q")
        self._heard = shared[-8:].cast("d")
        # One that was killed held nothing any more.
        self._held[number] = 0

    @property
    def held(self) -> int:
        """Bytes that all API processes hold for bodies. Two that look at the same moment may both take what is left."""
        return sum(self._held)

    def hold(self, by: int) -> int:
        """Add `by` bytes (negative to release them) to what this process holds; returns how many these are now."""
        self._held[self._number] += by
        return self._held[self._number]

    def hear(self, is_at_work: bool) -> None:
        """Note what the scorer said of itself just now, or that it has ended."""
        self._heard[0] = time.monotonic() if is_at_work else 0.0  # this clock is the same in all processes

    @property
    def scorer_at_work(self) -> bool:
        """Whether the scorer of this service lives, and goes its rounds."""
        return self._heard[0] > 0.0 and time.monotonic() - self._heard[0] < SILENT
