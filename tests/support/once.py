"""What takes long to make and never changes: the first of pytest's workers makes it, and the others wait for it."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from pathlib import Path

import pytest


def place_of_all_workers(temporary: pytest.TempPathFactory) -> Path:
    """The directory for temporary files of this run, which its workers have in common."""
    base = temporary.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


def made_once(folder: Path, make: Callable[[Path], object]) -> Path:
    """This folder, filled by the first process that asks for it."""
    folder.mkdir(parents=True, exist_ok=True)
    with folder.with_name(f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (made := folder.with_name(f"{folder.name}.made")).exists():
            make(folder)
            made.touch()
    return folder
