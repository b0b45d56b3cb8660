"""Settings of the service, from OPTIMIST_* environment variables; the command line overrides them."""

from __future__ import annotations

import contextlib
import ipaddress
import os
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

HostName = Annotated[str, StringConstraints(pattern=r"^([\w.-]+|\[[0-9A-Fa-f:.]+\])(:\d+)?$")]
"""A host as it stands in addresses, with its port where that is not the default."""


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
    """Whether the service starts a scorer, a process of its own; without it, `optimist score` must run elsewhere."""
    device: str = "cpu"
    """Where a scorer's numbers live: cpu, cuda, or cuda:<i>."""
    warm_bytes: int = Field(default_factory=quarter_of_memory, ge=0)
    """Bytes of statistics, feature maps and references that a scorer keeps between batches.

    Those used longest ago are dropped, and made again from what Redis holds. Beyond it come those it works on, at most
    two at once, and what their numerics take. A quarter of the memory.
    """
    require_keys: bool = False
    """Whether callers need an access key on a loopback address, too, as behind a proxy; elsewhere they always do."""
    insecure: bool = False
    """Whether everybody who reaches the service may do everything, wherever it listens."""
    tls_certificate: Path | None = None
    """PEM file, to serve https without a proxy."""
    tls_key: Path | None = None
    """PEM file with the certificate's key."""
    rate_limit: float | None = Field(None, gt=0)
    """Requests a second that each access key has in each process; None: any number."""
    max_connections: int = Field(1000, ge=1)
    """Most connections at once; others are told to come back."""
    head_timeout: float = Field(15.0, gt=0)
    """Seconds within which the head of a request must have come."""
    body_timeout: float = Field(30.0, gt=0)
    """Seconds for which a body may pause: in all, but each 64 KiB that come give back one of them."""
    answer_timeout: float = Field(60.0, gt=0)
    """Seconds for which a client may take nothing of an answer."""
    max_memory: int = Field(2 * 2**30, ge=1024)
    """Bytes of memory for the bodies of all requests together, decoded; those beyond are told to come back.

    Beside it each request may take 256 KiB, so that small batches are always taken.
    """
    memory_share: float = Field(0.25, gt=0, le=1)
    """The part of that memory which requests with one access key may take together, unless one alone needs more."""
    min_free_bytes: int = Field(256 * 2**20, ge=0)
    """Bytes of the embedded Redis' disk that stay free, beside what a rewrite of its append-only file takes; what would
    leave less is put off with 507."""
    alive_without_redis: float = Field(60.0, gt=0)
    """Seconds for which `/healthz` answers 200 while the embedded Redis is down; then 503 until it is back."""
    memory_reserve: float = Field(0.1, ge=0, lt=1)
    """Share of Redis' `maxmemory`, and at least 16 MiB, that stays free for snapshots; what would leave less is put off
    with 503."""
    max_json: int = Field(16 * 2**20, ge=1024)
    """Largest JSON body, in bytes: parsed, it takes many times as much."""
    max_body: int = Field(256 * 2**20, ge=1024)
    """Largest request body, in bytes."""
    max_archive: int = Field(64 * 2**30, ge=1024)
    """Largest archive that is imported, in bytes; it lies in the temporary directory meanwhile, not in memory."""
    max_rows: int = Field(65_536, ge=1)
    """Most rows in one batch."""
    max_dimension: int = Field(16_384, ge=1)
    """Widest feature vector."""
    max_map: int = Field(2**25, ge=1)
    """Most numbers in the feature map of a new experiment: dimension × features, of 8 bytes each.

    A scorer has two of them at once in its hands, beyond those that `warm_bytes` counts.
    """
    max_generators: int = Field(1000, ge=1, le=1000)
    """Most generators of one experiment, those that were retired included."""
    max_experiments: int = Field(10_000, ge=1)
    """Most experiments, and most references, of one namespace."""
    max_open_picks: int = Field(10_000, ge=1)
    """Most picks of an experiment on their way at once."""
    max_worker_picks: int = Field(100, ge=1)
    """Most of them that one worker has, by the name that it asks under."""
    max_key_picks: int = Field(2000, ge=1)
    """Most of them that were asked for with one access key; callers without keys count as one."""
    max_lease: float = Field(3600.0, ge=1)
    """Longest lease of a new experiment, in seconds; picks of older experiments are leased for no longer either."""
    image_hosts: Annotated[tuple[HostName, ...], NoDecode] = ()
    """Hosts, separated by commas, whose images the dashboard loads at once: `images.example.org,10.0.0.5:9000`.

    All other images that sample ids name are loaded when somebody asks for them.
    """
    metrics: Annotated[tuple[str, ...], NoDecode] = ()
    """Modules, separated by commas, that register metrics of your own; API and scorers import them when they start.

    They must be installed, or be on PYTHONPATH: `OPTIMIST_METRICS=acme.metrics`.
    """
    log_format: Literal["text", "json"] = "text"
    """How to log: lines for people, or one JSON object each."""
    log_requests: bool = False
    """Whether every request is logged."""

    @field_validator("image_hosts", "metrics", mode="before")
    @classmethod
    def _split(cls, names: Any) -> Any:
        return split(names) if isinstance(names, str) else names

    @property
    def is_open(self) -> bool:
        """Whether callers need no access key."""
        return self.insecure or (is_loopback(self.host) and not self.require_keys)


def split(names: str) -> tuple[str, ...]:
    """The names in a text that separates them by commas."""
    return tuple(name.strip() for name in names.split(",") if name.strip())


def is_loopback(host: str) -> bool:
    """Whether a name or address is one that only this machine can mean."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
