"""Memory of a process in MiB, as Linux reports it."""

from __future__ import annotations

import re
from pathlib import Path


def resident(pid: int) -> float:
    """The current memory of the process."""
    return _read(f"/proc/{pid}/status", "VmRSS")


def peak(pid: int) -> float:
    """The peak of its memory since `reset_peak`."""
    return _read(f"/proc/{pid}/status", "VmHWM")


def reset_peak(pid: int) -> float:
    """Reset the peak; return the current memory."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")
    return resident(pid)


def available() -> float:
    """The available memory of this machine."""
    return _read("/proc/meminfo", "MemAvailable")


def _read(path: str, field: str) -> float:
    found = re.search(rf"{field}:\s+(\d+) kB", Path(path).read_text())
    assert found is not None, f"{path} has no {field}"
    return int(found[1]) / 1024
