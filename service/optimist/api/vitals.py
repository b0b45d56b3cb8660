"""What this process knows of its Redis, looked at once a second: whether it answers, and how much room there is."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from redis.exceptions import RedisError

from optimist.api.problems import ApiError
from optimist.settings import Settings
from optimist.store import Store, StoreError, Usage

logger = logging.getLogger(__name__)

PERIOD = 1.0
"""Seconds between looks."""
STEADY = 3.0
"""Seconds for which a Redis that was away must have answered to count as back: one on a full disk dies soon again."""
LEAST_RESERVE = 16 * 2**20
"""Least bytes of Redis' memory that are kept for snapshots, however little it may have."""
REWRITE_GAIN = 16 * 2**20
"""Least bytes by which a rewrite of the append-only file must make it smaller to be asked for."""
REWRITE_PAUSE = 60.0
"""Seconds between two rewrites that are asked for."""

REMIND = 60.0
"""Seconds between two lines of the log about refusals."""

_MIB = 2**20


class Vitals:
    """Looks at Redis once a second while `watching`, and refuses what there is no room for.

    On the disk of the embedded Redis, `min_free_bytes` stay free, and what a rewrite of the append-only file takes: a
    redis-server that cannot write ends. Of a Redis with `maxmemory`, a share of it stays free for snapshots, which make
    room: they would be refused themselves once it is full.
    """

    def __init__(self, store: Store, settings: Settings) -> None:
        self._store = store
        self._directory = settings.data_directory if settings.redis_url is None else None
        self._min_free = settings.min_free_bytes
        self._share = settings.memory_reserve
        self._answered = time.monotonic()
        self._well_since: float | None = self._answered
        self._rewritten = -REWRITE_PAUSE
        self._looking = asyncio.Lock()
        self._looked = -math.inf
        # Bytes beyond what is kept free; those of requests under way are counted apart.
        self._disk = self._memory = math.inf
        self._memory_reserve = 0.0
        self._underway = 0
        self._disk_words = self._memory_words = ""
        self._said = -REMIND
        self._ends = False

    @property
    def down_for(self) -> float:
        """Seconds since Redis last served steadily; about `PERIOD` at most while it does."""
        return time.monotonic() - self._answered

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        """Look for as long as the context."""
        task = asyncio.create_task(self._watch())
        try:
            yield
        finally:
            self._ends = True
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    @asynccontextmanager
    async def room_for(
        self, size: int, is_repeat: Callable[[], Awaitable[bool]] | None = None, *, reserve: float = 1.0
    ) -> AsyncIterator[None]:
        """Have `size` bytes stored within the context.

        is_repeat: whether the call was done before, and takes no room. reserve: the part of what is kept free that
        must stay free. Raises `ApiError` 507 where the disk, 503 where Redis' memory has no room for them.
        """
        if self._lack(size, reserve) is not None:
            # What was known may be a second old. One look serves all who came before it began.
            came = time.monotonic()
            async with self._looking:
                if self._looked < came:
                    await self._look()
            problem = self._lack(size, reserve)
            if problem is not None and (is_repeat is None or not await is_repeat()):
                if time.monotonic() - self._said > REMIND:
                    self._said = time.monotonic()
                    logger.warning("refused for want of room: %s", problem)
                raise problem
        self._underway += size
        try:
            yield
        finally:
            self._underway -= size
            self._disk -= size
            self._memory -= size

    def _lack(self, size: int, reserve: float) -> ApiError | None:
        size += self._underway
        if size > self._disk + (1.0 - reserve) * self._min_free:
            return ApiError(507, "disk-full", "The disk of the service is full", self._disk_words, action="retry")
        if size > self._memory + (1.0 - reserve) * self._memory_reserve:
            return ApiError(503, "memory-full", "Redis is full", self._memory_words, action="retry")
        return None

    async def _watch(self) -> None:
        # By a flag as well, as a call to Redis may swallow a cancellation (asyncio.wait_for of Python 3.11).
        while not self._ends:
            try:
                async with self._looking:
                    await self._look()
            except (StoreError, RedisError):
                self._well_since = None
            else:
                now = time.monotonic()
                self._well_since = self._well_since or now
                if now - self._well_since >= STEADY or self.down_for < STEADY:
                    self._answered = now
                # Gone after FLUSHALL. A Redis that is full takes it later.
                with contextlib.suppress(StoreError, RedisError):
                    await self._store.mark_format()
            if not self._ends:
                await asyncio.sleep(PERIOD)

    async def _look(self) -> None:
        begun = time.monotonic()
        usage = await self._store.usage()
        if usage.limit_bytes:
            self._memory_reserve = max(self._share * usage.limit_bytes, LEAST_RESERVE)
            self._memory = usage.limit_bytes - usage.used_bytes - self._memory_reserve
            self._memory_words = (
                f"Redis holds {usage.used_bytes // _MIB} MiB, and {self._memory_reserve / _MIB:.0f} of the "
                f"{usage.limit_bytes // _MIB} MiB that it may hold are kept for snapshots, which make room: try again "
                "later, delete experiments, or give Redis more"
            )
        else:
            self._memory = math.inf
        if self._directory is not None:
            with contextlib.suppress(OSError):  # a directory that cannot be looked at says nothing of its disk
                await self._look_at_disk(self._directory, usage)
        self._looked = begun

    async def _look_at_disk(self, directory: Path, usage: Usage) -> None:
        free, written = await asyncio.to_thread(_disk, directory, usage.is_rewriting)
        # A rewrite holds no more than the file did, nor, about, than Redis does; part of it may stand there already.
        rewrite = min(usage.log_bytes, usage.used_bytes)
        kept = self._min_free + max(0, rewrite - written)
        self._disk = free - kept
        self._disk_words = (
            f"the disk of the data directory has {free // _MIB} MiB left, and {kept // _MIB} MiB are kept free: "
            "try again later, or make room on it"
        )
        gain = usage.log_bytes - rewrite
        due = self._disk <= 0 and gain >= max(REWRITE_GAIN, rewrite // 4) and not usage.is_rewriting
        if due and free - rewrite > self._min_free // 2 and time.monotonic() - self._rewritten > REWRITE_PAUSE:
            self._rewritten = time.monotonic()
            await self._store.rewrite_log()


def _disk(directory: Path, is_rewriting: bool) -> tuple[int, int]:
    """Free bytes of the disk a directory is on, and what a rewrite of the append-only file has written of them."""
    found, written = os.statvfs(directory), 0
    for file in directory.glob("temp-rewriteaof*") if is_rewriting else ():
        with contextlib.suppress(FileNotFoundError):
            written += file.stat().st_size
    return found.f_bavail * found.f_frsize, written
