"""Monitors Redis once a second: whether it responds, and how much memory and disk space is left."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import os
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from redis.exceptions import RedisError

from optimist.api.problems import ApiError
from optimist.insight.metrics import REDIS_BYTES, REDIS_LIMIT_BYTES
from optimist.records import StoreError
from optimist.settings import Settings
from optimist.store import Store, Usage
from optimist.store.clients import Outage

logger = logging.getLogger(__name__)

MIN_RESERVE = 16 * 2**20
"""Minimum bytes of Redis' memory that are reserved for snapshots, however small its `maxmemory` is."""
ROUNDED_UP = 1.25
"""Bytes of Redis' memory per byte of a large body, at most: jemalloc, the allocator of Redis, has four sizes of blocks
from each power of two to the next."""


class RedisHealth:
    """Measures Redis once a second while `monitoring`, and refuses writes for which there is no room.

    On the disk of the embedded Redis it keeps `min_free_bytes` free, plus the space for a rewrite of the append-only
    file, because redis-server exits if it cannot write. If Redis has a `maxmemory`, a fraction of it stays free for
    snapshots: they free memory, but a full Redis would refuse them as well.
    """

    def __init__(self, store: Store, settings: Settings) -> None:
        self._store = store
        self._directory = settings.data_dir if settings.redis_url is None else None
        self._min_free = settings.min_free_bytes
        self._share = settings.memory_reserve
        self._patience = math.inf if self._directory is None else settings.alive_without_redis
        self._answered = time.monotonic()
        self._well_since: float | None = self._answered
        self._rewritten = -math.inf
        self._measuring = asyncio.Lock()
        self._measured_at = -math.inf
        # Bytes available beyond the reserves. Bytes of requests in progress are counted separately.
        self._disk = self._memory = math.inf
        self._memory_reserve = 0.0
        self._kept = 0
        self._underway = 0
        self._disk_message = self._memory_message = ""
        self._logged_at = -math.inf
        self._is_stopping = False
        self._outage = Outage()

    @property
    def down_for(self) -> float:
        """Seconds since Redis last responded reliably; at most about one while it does."""
        return time.monotonic() - self._answered

    def check_alive(self) -> None:
        """Raise `ApiError` 503 if the process should be restarted: its embedded Redis has been down for too long.

        An external Redis is not checked: a restart would not help, and this process waits for Redis by itself.
        """
        if (seconds := self.down_for) >= self._patience:
            detail = f"the redis-server of this service has been down for {seconds:.0f} s; see the service's log"
            raise ApiError(503, "redis-down", "Not alive", detail, action="retry")

    @asynccontextmanager
    async def monitoring(self) -> AsyncGenerator[None]:
        """Measure Redis every second while the context is open."""
        task = asyncio.create_task(self._monitor())
        try:
            yield
        finally:
            self._is_stopping = True
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    @asynccontextmanager
    async def room_for(
        self, size: int, is_repeat: Callable[[], Awaitable[bool]] | None = None, *, reserve: float = 1.0
    ) -> AsyncGenerator[None]:
        """Reserve room for `size` bytes that are stored within the context.

        is_repeat: whether the call was completed before, so that it takes no more room. reserve: the fraction of the
        reserves that must stay free. Raises `ApiError` 507 if the disk, 503 if Redis' memory has too little room.
        """
        await self.check_room(size, is_repeat, reserve=reserve)
        self._underway += size
        try:
            yield
        finally:
            self._underway -= size
            self._disk -= size
            self._memory -= ROUNDED_UP * size

    async def check_room(
        self, size: int, is_repeat: Callable[[], Awaitable[bool]] | None = None, *, reserve: float = 1.0
    ) -> None:
        """Raise `ApiError` as `room_for` does, and reserve nothing."""
        if self._lack(size, reserve) is not None:
            # The last measurement may be a second old. One new measurement serves all who were waiting for it.
            arrived = time.monotonic()
            async with self._measuring:
                if self._measured_at < arrived:
                    await self._measure()
            problem = self._lack(size, reserve)
            if problem is not None and (is_repeat is None or not await is_repeat()):
                if time.monotonic() - self._logged_at > 60.0:
                    self._logged_at = time.monotonic()
                    logger.warning("request refused for lack of room: %s", problem)
                raise problem

    def check_temporary(self, directory: str, size: int) -> None:
        """Raise `ApiError` 507 if there is too little room for a temporary file of `size` more bytes in a directory.

        `min_free_bytes` stay free. On the disk of the embedded Redis its own reserve stays free, too, so that no other
        request is refused for the file. Raises OSError if the disk cannot be measured.
        """
        free, kept = _disk(Path(directory))[0], self._min_free
        if self._directory is not None and os.stat(directory).st_dev == os.stat(self._directory).st_dev:
            kept += self._kept
        if size > free - kept:
            detail = (
                f"the temporary directory of the service has {_mib(free)} left, and {_mib(kept)} are kept free: try "
                "again later, or set TMPDIR to a larger disk"
            )
            raise ApiError(507, "disk-full", "The disk of the service is full", detail, action="retry")

    def _lack(self, size: int, reserve: float) -> ApiError | None:
        size += self._underway
        if size > self._disk + (1.0 - reserve) * self._min_free:
            return ApiError(507, "disk-full", "The disk of the service is full", self._disk_message, action="retry")
        if ROUNDED_UP * size > self._memory + (1.0 - reserve) * self._memory_reserve:
            return ApiError(503, "memory-full", "Redis is full", self._memory_message, action="retry")
        return None

    async def _monitor(self, steady: float = 3.0) -> None:
        """steady: seconds for which Redis must respond after an outage to count as recovered; on a full disk it soon
        stops again."""
        # The flag is needed because a call to Redis may swallow a cancellation (asyncio.wait_for of Python 3.11).
        while not self._is_stopping:
            try:
                async with self._measuring:
                    with self._outage.noticed():
                        await self._measure()
            except (StoreError, RedisError):
                self._well_since = None
            else:
                now = time.monotonic()
                self._well_since = self._well_since or now
                if now - self._well_since >= steady or self.down_for < steady:
                    self._answered = now
                # The mark is missing after FLUSHALL. If Redis is full now, it is written later.
                with contextlib.suppress(StoreError, RedisError):
                    await self._store.mark_format()
            if not self._is_stopping:
                await asyncio.sleep(1.0)

    async def _measure(self) -> None:
        begun = time.monotonic()
        usage = await self._store.usage()
        REDIS_BYTES.set(usage.used_bytes)
        REDIS_LIMIT_BYTES.set(usage.limit_bytes)
        if usage.limit_bytes:
            self._memory_reserve = max(self._share * usage.limit_bytes, MIN_RESERVE)
            self._memory = usage.limit_bytes - usage.used_bytes - self._memory_reserve
            self._memory_message = (
                f"Redis uses {_mib(usage.used_bytes)}, and {_mib(self._memory_reserve)} of the "
                f"{_mib(usage.limit_bytes)} of its maxmemory are reserved for snapshots: try again later, "
                "delete experiments, or raise maxmemory"
            )
        else:
            self._memory = math.inf
        if self._directory is not None:
            with contextlib.suppress(OSError):  # without access to the directory its disk cannot be measured
                await self._measure_disk(self._directory, usage)
        self._measured_at = begun

    async def _measure_disk(self, directory: Path, usage: Usage) -> None:
        free, written = await asyncio.to_thread(_disk, directory, usage.is_rewriting)
        # The rewritten file is no larger than the old file or, roughly, Redis' memory. Part may be written already.
        rewrite = min(usage.log_bytes, usage.used_bytes)
        kept = self._min_free + max(0, rewrite - written)
        self._disk, self._kept = free - kept, kept
        self._disk_message = (
            f"the disk of the data directory has {_mib(free)} left, and {_mib(kept)} are kept free: "
            "try again later, or free disk space"
        )
        gain = usage.log_bytes - rewrite
        # Earlier than other requests, imports are refused.
        due = self._disk <= self._min_free and gain >= max(16 * 2**20, rewrite // 4) and not usage.is_rewriting
        if due and free - rewrite > self._min_free // 2 and time.monotonic() - self._rewritten > 60.0:
            self._rewritten = time.monotonic()
            await self._store.rewrite_log()


def _mib(size: float) -> str:
    return f"{size // 2**20:.0f} MiB"


def _disk(directory: Path, is_rewriting: bool = False) -> tuple[int, int]:
    """Free bytes on the disk of a directory, and bytes that a running rewrite of the append-only file has written."""
    disk, written = os.statvfs(directory), 0
    for file in directory.glob("temp-rewriteaof*") if is_rewriting else ():
        with contextlib.suppress(FileNotFoundError):
            written += file.stat().st_size
    return disk.f_bavail * disk.f_frsize, written
