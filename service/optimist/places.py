"""The folder of files that can be made again."""

from __future__ import annotations

import os
from pathlib import Path


def cache_directory() -> Path:
    """The cache directory: `OPTIMIST_CACHE`, else `optimist` in the XDG cache directory."""
    if chosen := os.environ.get("OPTIMIST_CACHE"):
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "optimist"
