"""A database in a file, which several threads and processes may use and which may be killed at any time."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path


def open_database(file: Path, version: int, make: Callable[[sqlite3.Connection, int], None]) -> sqlite3.Connection:
    """The open database, with tables of this version.

    What was committed survives the process; a power cut may take the last rows, and damages nothing.

    make: makes the tables that are lacking, given the version of those that are there, 0 for none. All that it does is
    one transaction, which no other process comes between. Raises what it raises, and sqlite3.Error.
    """
    base = sqlite3.connect(file, timeout=60.0, check_same_thread=False)
    try:
        base.execute("PRAGMA journal_mode=WAL")
        base.execute("PRAGMA synchronous=NORMAL")
        with base:
            base.execute("BEGIN IMMEDIATE")
            make(base, base.execute("PRAGMA user_version").fetchone()[0])
            base.execute(f"PRAGMA user_version = {version}")
    except BaseException:
        base.close()
        raise
    return base
