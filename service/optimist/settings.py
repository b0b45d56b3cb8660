"""Settings of the service, from OPTIMIST_* environment variables; the command line overrides them."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict


def default_data_directory() -> Path:
    """Where the embedded Redis keeps its data: $XDG_DATA_HOME/optimist, by default ~/.local/share/optimist."""
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "optimist"


def quarter_of_memory() -> int:
    """A quarter of the machine's memory in bytes, or of what this process's container may use where that is less."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    with contextlib.suppress(OSError, ValueError):  # no Linux, no control groups, or "max"
        memory = min(memory, int(Path("/sys/fs/cgroup/memory.max").read_text()))
    return memory // 4


class Settings(BaseSettings):
    """What one process of the service needs to know."""

    model_config = SettingsConfigDict(env_prefix="OPTIMIST_", frozen=True)

    host: str = "127.0.0.1"
    """Address to listen on."""
    port: int = Field(8000, ge=0, le=65535)
    """Port to listen on; 0: a free one."""
    redis_url: str | None = None
    """redis://, rediss:// or unix:// of a running server; None starts an embedded one on `data_directory`."""
    data_directory: Path = Field(default_factory=default_data_directory)
    """Where the embedded Redis keeps its data."""
    scoring: bool = True
    """Whether this process scores generators too; without it, `optimist score` must run elsewhere."""
    device: str = "cpu"
    """Where a scorer's numbers live: cpu, cuda, or cuda:<i>."""
    warm_bytes: int = Field(default_factory=quarter_of_memory, ge=0)
    """Bytes of statistics that a scorer keeps between batches; those used longest ago are read from Redis again.

    Beyond it come those it works on, at most two at once, and what their numerics take. A quarter of the memory.
    """
    max_body: int = Field(256 * 2**20, ge=1024)
    """Largest request body, in bytes."""
    max_archive: int = Field(64 * 2**30, ge=1024)
    """Largest archive that is imported, in bytes; it lies in the temporary directory meanwhile, not in memory."""
    max_rows: int = Field(65_536, ge=1)
    """Most rows in one batch."""
    max_dimension: int = Field(16_384, ge=1)
    """Widest feature vector."""
