"""Embeddings on disk, by the digest of what was embedded: one SQLite file of a bounded size."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
from numpy.typing import NDArray

BYTES = 4 * 2**30
"""Default size: 4 GiB are 500,000 embeddings of 2,048 numbers."""
_VERSION = 1
"""Of the tables."""
_KEPT = 0.9
"""The part that is left when the oldest embeddings are dropped."""

Rows = NDArray[np.float32]


class EmbeddingCache:
    """Rows of float32 by embedder and SHA-256. Several processes may share a file, and may be killed at any time.

    When the rows exceed `limit` bytes, those that were not used for longest are dropped.
    """

    def __init__(self, file: Path, limit: int = BYTES) -> None:
        """Raises OSError or sqlite3.Error if the file cannot be opened."""
        file.parent.mkdir(parents=True, exist_ok=True)
        self._limit = limit
        try:
            self._base = _opened(file)
        except sqlite3.OperationalError:  # locked, or no space
            raise
        except sqlite3.DatabaseError:  # what is damaged can be made again
            file.unlink()
            self._base = _opened(file)
        self._bytes = self._total()

    def read(self, embedder: str, digests: Sequence[bytes], width: int) -> dict[bytes, Rows]:
        """The rows of `width` finite numbers that are there, by digest. Others are taken as not there, so that they are
        made anew: of a write that was torn, or of another embedder with the same name.
        """
        found: dict[bytes, Rows] = {}
        for digest in digests:
            asked = "SELECT row FROM embeddings WHERE embedder = ? AND digest = ?"
            kept = self._base.execute(asked, (embedder, digest)).fetchone()
            if kept is not None and isinstance(kept[0], bytes) and len(kept[0]) == 4 * width:
                row = np.frombuffer(kept[0], "<f4")
                if np.isfinite(row).all():
                    found[digest] = row
        if found:
            now = time.time()
            with self._base:
                used = ((now, embedder, digest) for digest in found)
                self._base.executemany("UPDATE uses SET used = ? WHERE embedder = ? AND digest = ?", used)
        return found

    def write(self, embedder: str, rows: Mapping[bytes, Rows]) -> None:
        """Keep rows, all or none of them."""
        now = time.time()
        with self._base:
            made = ((embedder, digest, row.astype("<f4").tobytes()) for digest, row in rows.items())
            self._base.executemany("INSERT OR REPLACE INTO embeddings VALUES (?, ?, ?)", made)
            used = ((embedder, digest, 4 * row.size, now) for digest, row in rows.items())
            self._base.executemany("INSERT OR REPLACE INTO uses VALUES (?, ?, ?, ?)", used)
        self._bytes += sum(4 * row.size for row in rows.values())
        if self._bytes > self._limit:
            self._drop()

    def _total(self) -> int:
        return self._base.execute("SELECT coalesce(sum(size), 0) FROM uses").fetchone()[0]

    def _drop(self) -> None:
        kept, last = int(_KEPT * self._limit), None
        with self._base:
            total = self._total()
            sizes = self._base.execute("SELECT used, sum(size) FROM uses GROUP BY used ORDER BY used").fetchall()
            for used, size in sizes:
                if total <= kept:
                    break
                total, last = total - size, used
            if last is not None:
                self._base.execute(
                    "DELETE FROM embeddings WHERE (embedder, digest) IN "
                    "(SELECT embedder, digest FROM uses WHERE used <= ?)",
                    (last,),
                )
                self._base.execute("DELETE FROM uses WHERE used <= ?", (last,))
        self._bytes = total

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._base.close()


def _opened(file: Path) -> sqlite3.Connection:
    """The database, whose tables are made anew if they are of another version."""
    base = sqlite3.connect(file, timeout=60.0, check_same_thread=False)
    try:
        # What was committed survives the process; a power cut may take the last rows, and damages nothing.
        base.execute("PRAGMA journal_mode=WAL")
        base.execute("PRAGMA synchronous=NORMAL")
        with base:
            base.execute("BEGIN IMMEDIATE")
            if base.execute("PRAGMA user_version").fetchone()[0] != _VERSION:
                base.execute("DROP TABLE IF EXISTS embeddings")
                base.execute("DROP TABLE IF EXISTS uses")
            key = "embedder TEXT, digest BLOB, {}, PRIMARY KEY (embedder, digest)"
            base.execute(f"CREATE TABLE IF NOT EXISTS embeddings ({key.format('row BLOB')})")
            # Beside the rows: noting a use would write the whole row again.
            base.execute(f"CREATE TABLE IF NOT EXISTS uses ({key.format('size INT, used REAL')}) WITHOUT ROWID")
            base.execute(f"PRAGMA user_version = {_VERSION}")
    except BaseException:
        base.close()
        raise
    return base
