"""The source of this installation, and the command that adds an extra to it."""

from __future__ import annotations

import json
import shlex
from importlib import import_module
from pathlib import Path
from typing import Any

_SOURCE = Path(__file__).parents[3]
"""The checkout, where the package is used in its place (`pip install -e`)."""
_VERSIONS = "constraints.txt"
"""The file of a checkout with the versions that were tested."""


def checkout() -> Path | None:
    """The folder with the sources of this install, which may have been copied from there; None if there is none."""
    folder = _SOURCE if _is_checkout(_SOURCE) else _local(_origin())
    return folder if folder is not None and _is_checkout(folder) else None


def install_hint(extras: str) -> str:
    """The command that adds these extras (`"server,scoring"`) to this install.

    An install from an index is extended from the index, any other one from what it was made of.
    """
    origin = _origin()
    folder = checkout()
    if folder is not None:
        source, versions = (".", _VERSIONS) if folder == Path.cwd() else (folder, folder / _VERSIONS)
        pinned = f"-c {shlex.quote(f'{versions}')} " if (folder / _VERSIONS).is_file() else ""
        return f"pip install {pinned}{'-e ' if folder == _SOURCE else ''}'{source}[{extras}]'"
    if not origin:
        return f"pip install 'optimist[{extras}]'"
    if (archive := _local(origin)) is None:
        return f"pip install 'optimist[{extras}] @ {origin}'"
    return f"pip install '{archive}[{extras}]'" if archive.is_file() else f"pip install '.[{extras}]' in a checkout"


def need(module: str, extra: str, what: str = "this") -> Any:
    """An optional module. Raises ModuleNotFoundError, which names the `extra` to install for `what` needs it."""
    try:
        return import_module(module)
    except ModuleNotFoundError as missing:
        message = f"{what} needs {missing.name}: {install_hint(extra)}"
        raise ModuleNotFoundError(message, name=missing.name) from missing


def missing(error: ModuleNotFoundError) -> str:
    """The message where a package that the `optimist` command needs is missing. Raises the error if it is our own."""
    if error.name is None or error.name.partition(".")[0] == "optimist":
        raise error
    return f"the optimist command needs {error.name}: {install_hint('server,scoring')}"


def _is_checkout(folder: Path) -> bool:
    return (folder / "pyproject.toml").is_file() and (folder / "clients" / "python" / "optimist_client").is_dir()


def _origin() -> str:
    """The URL that pip installed the package from (PEP 610); empty for an index, and where pip does not know."""
    from importlib.metadata import PackageNotFoundError, distribution  # loads the parser of mails, and is rarely needed

    try:
        recorded = distribution("optimist").read_text("direct_url.json")
    except PackageNotFoundError:
        return ""
    origin = json.loads(recorded or "{}")
    version_control = origin.get("vcs_info", {}).get("vcs")
    return f"{version_control}+{origin['url']}" if version_control else origin.get("url", "")


def _local(url: str) -> Path | None:
    from urllib.parse import urlsplit
    from urllib.request import url2pathname  # loads a client of HTTP

    return Path(url2pathname(urlsplit(url).path)) if url.startswith("file:") else None
