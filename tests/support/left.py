"""What tests may have left behind in their process: processes that run, and ports that listen."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path

from tests.support import warm
from tests.support.processes import children, command_line, is_alive

LISTENS = "0A"
"""TCP_LISTEN of the kernel, as /proc/net/tcp has it."""


TRACKER = "resource_tracker"
"""Of multiprocessing, and of joblib's own: one of each ends with the process that has ever started a pool."""


def left_processes() -> list[str]:
    """The commands of the processes that this one has started, or adopted, and that have not ended."""
    running = [pid for pid in children(os.getpid()) if is_alive(pid) and pid != warm.Warm.process_id()]
    commands = [command_line(pid).replace(b"\0", b" ").decode().strip() for pid in running]
    return [command for command in commands if TRACKER not in command]


def end_pool() -> None:
    """End the processes that joblib keeps for the next computation, if it has any."""
    if (loky := sys.modules.get("joblib.externals.loky")) is not None:
        loky.get_reusable_executor(reuse=True).shutdown(wait=True, kill_workers=True)


def left_ports() -> list[int]:
    """The TCP ports on which this process listens."""
    if sys.platform != "linux":
        return []
    held = set()
    for file in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):  # the one that lists them
            held.add(os.readlink(file))
    tables = [Path("/proc/net", table) for table in ("tcp", "tcp6")]
    sockets = [line.split() for table in tables if table.exists() for line in table.read_text().splitlines()]
    return [
        int(words[1].rpartition(":")[2], 16)
        for words in sockets
        if words[3] == LISTENS and f"socket:[{words[9]}]" in held
    ]
