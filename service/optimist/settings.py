"""Settings of the service. They are read from OPTIMIST_* environment variables; the command line overrides them."""

from __future__ import annotations

import contextlib
import ipaddress
import os
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import quote

from pydantic import (
    Field,
    SecretStr,
    StringConstraints,
    ValidationInfo,
    field_serializer,
    field_validator,
)
from pydantic.networks import IPvAnyNetwork
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from optimist_client.errors import FixError
from optimist_client.models.webhooks import MessageFormat, WebhookUrl, signing_key

HostName = Annotated[str, StringConstraints(pattern=r"^([\w.-]+|\[[0-9A-Fa-f:.]+\])(:\d+)?$")]
"""The host part of a URL: a name or IP address, with a port unless it is the default one."""


def default_data_dir() -> Path:
    """The directory for the embedded Redis' data: $XDG_DATA_HOME/optimist, by default ~/.local/share/optimist."""
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "optimist"


def quarter_of_memory() -> int:
    """A quarter of the machine's memory in bytes, or of the container's memory limit if that is less."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    with contextlib.suppress(OSError, ValueError):  # not Linux, no control groups, or "max" (no limit)
        memory = min(memory, int(Path("/sys/fs/cgroup/memory.max").read_text()))
    return memory // 4


class Settings(BaseSettings):
    """The settings of one process of the service."""

    model_config = SettingsConfigDict(env_prefix="OPTIMIST_", frozen=True)

    host: str = "127.0.0.1"
    """Address to listen on."""
    port: int = Field(8000, ge=0, le=65535)
    """Port to listen on; 0 selects a free port."""
    redis_password: SecretStr | None = None
    """Password of Redis, for a URL that has none. Command lines can be read by other users: give it as a variable."""
    redis_url: str | None = None
    """URL of a running Redis server (redis://, rediss:// or unix://) or cluster (redis+cluster://).

    If it is not set, the service starts an embedded Redis on `data_dir`.
    """
    data_dir: Path = Field(default_factory=default_data_dir)
    """Directory in which the embedded Redis keeps its data."""
    workers: int = Field(1, ge=1, le=256)
    """Number of API processes of `optimist serve` that share the port, one for each core that requests can have.

    Whichever of them is free accepts the next connection. All use the same Redis and the same scorer.
    """
    scoring: bool = True
    """Whether the service starts a scorer as a separate process. If not, run `optimist scorer` elsewhere."""
    device: str = "cpu"
    """Device on which a scorer computes: cpu, cuda, or cuda:<i>."""
    warm_bytes: int = Field(default_factory=quarter_of_memory, ge=0)
    """Bytes of statistics, feature maps and references that a scorer caches between batches.

    The least recently used ones are dropped first and rebuilt from Redis when they are needed again. The limit does not
    include the ones in use (at most two at a time) or the temporary memory of computations. By default a quarter of the
    memory.
    """
    require_keys: bool = False
    """Whether callers need an access key even on a loopback address, for example behind a proxy.

    On all other addresses a key is always needed, unless `insecure` is set.
    """
    insecure: bool = False
    """Whether to disable access control: anyone who can reach the service may do everything."""
    tls_certificate: Path | None = None
    """PEM file with the TLS certificate, to serve HTTPS without a proxy."""
    tls_key: Path | None = None
    """PEM file with the certificate's private key."""
    rate_limit: float | None = Field(None, gt=0)
    """Maximum requests per second for each access key in each API process; by default no limit."""
    max_connections: int = Field(1000, ge=1)
    """Maximum number of simultaneous connections; further ones are answered with 503. Each of several API processes
    takes its part of them."""
    connection_share: float = Field(0.25, gt=0, le=1)
    """The fraction of `max_connections` that one access key may have; and one address, of connections without a key.

    An idle connection makes room for a new one; without any, requests are answered with 503."""
    head_timeout: float = Field(15.0, gt=0)
    """Seconds within which the request line and headers must arrive."""
    body_timeout: float = Field(30.0, gt=0)
    """Seconds for which a request body may pause in total. Each 64 KiB received restores one second of this budget."""
    answer_timeout: float = Field(60.0, gt=0)
    """Seconds after which a connection is closed if the client reads nothing of its response."""
    max_memory: int = Field(2 * 2**30, ge=1024)
    """Bytes of memory for the decoded bodies of all requests together; requests beyond it are answered with 503.

    The first 256 KiB of each request are not counted, so that small batches are always accepted.
    """
    memory_share: float = Field(0.25, gt=0, le=1)
    """The fraction of `max_memory` that requests with one access key may use together. A key's only request may exceed
    it. Each of several API processes grants its part of it."""
    min_free_bytes: int = Field(256 * 2**20, ge=0)
    """Bytes to keep free on the embedded Redis' disk, in addition to the space for a rewrite of its append-only file.

    Writes that would leave less are refused with 507.
    """
    alive_without_redis: float = Field(60.0, gt=0)
    """Seconds for which `/healthz` still answers 200 while the embedded Redis is down. After that it answers 503 until
    Redis is back."""
    memory_reserve: float = Field(0.1, ge=0, lt=1)
    """Fraction of Redis' `maxmemory` to keep free for snapshots, but at least 16 MiB. Writes that would leave less are
    refused with 503."""
    max_json: int = Field(16 * 2**20, ge=1024)
    """Largest JSON body, in bytes. It has its own limit because parsed JSON takes many times as much memory."""
    max_body: int = Field(256 * 2**20, ge=1024)
    """Largest request body, in bytes."""
    max_reference: int = Field(4 * 2**30, ge=1024)
    """Largest reference with its rows, in bytes. It is kept in the temporary directory as it comes, and a scorer
    holds it in memory."""
    max_archive: int = Field(8 * 2**30, ge=1024)
    """Largest archive that can be imported, in bytes. It is kept in the temporary directory (`TMPDIR`) meanwhile, on
    whose disk `min_free_bytes` stay free."""
    max_rows: int = Field(65_536, ge=1)
    """Maximum number of rows in one batch."""
    max_dimension: int = Field(16_384, ge=1)
    """Maximum dimension of a feature vector."""
    max_map: int = Field(2**25, ge=1)
    """Maximum number of entries (dimension × features, 8 bytes each) in the feature map of a new experiment.

    A scorer holds up to two feature maps at once in addition to those that `warm_bytes` counts.
    """
    max_generators: int = Field(1000, ge=1, le=1000)
    """Maximum number of generators in one experiment, including retired ones."""
    max_experiments: int = Field(10_000, ge=1)
    """Maximum number of experiments, and of references, in one namespace."""
    max_open_picks: int = Field(10_000, ge=1)
    """Maximum number of open picks in one experiment."""
    max_worker_picks: int = Field(100, ge=1)
    """Maximum number of open picks of one worker in an experiment. Workers are told apart by the name they ask with."""
    max_key_picks: int = Field(2000, ge=1)
    """Maximum number of open picks in an experiment for one access key. All callers without a key count as one."""
    max_lease: float = Field(3600.0, ge=1)
    """Longest lease in seconds that a new experiment may set. Picks of all others get no longer lease either."""
    hint_after: int = Field(20_000, ge=0)
    """Number of samples from which on the report of an undecided experiment says what would decide it."""
    webhook: WebhookUrl | None = Field(None, repr=False)
    """URL to which a message goes when an experiment is decided, provisional, out of budget, or idle for a day.

    Command lines can be read by other users: give a URL that holds a secret, such as Slack's, as a variable.
    """
    webhook_format: MessageFormat = "json"
    """Format of these messages: signed JSON (json), or a line of text for an incoming webhook of Slack (slack)."""
    webhook_secret: SecretStr | None = Field(None, validate_default=True)
    """Secret by which these messages are signed: 24 to 64 bytes in base64 (`openssl rand -base64 32`)."""
    webhook_networks: Annotated[tuple[IPvAnyNetwork, ...], NoDecode] = ()
    """Networks, separated by commas, to which any messages may go though they are not public: `10.1.2.0/24`."""
    image_hosts: Annotated[tuple[HostName, ...], NoDecode] = ()
    """Hosts whose images the dashboard loads immediately, separated by commas: `images.example.org,10.0.0.5:9000`.

    The dashboard loads images from other hosts only when the user requests them.
    """
    metrics: Annotated[tuple[str, ...], NoDecode] = ()
    """Modules, separated by commas, that register metrics or goals of your own.

    API and scorers import them when they start. They must be installed, or be on PYTHONPATH:
    `OPTIMIST_METRICS=acme.metrics`.
    """
    log_format: Literal["text", "json"] = "text"
    """Log format: readable lines (text) or one JSON object per line (json)."""
    log_requests: bool = False
    """Whether to log every request."""

    @field_validator("redis_url")
    @classmethod
    def _with_password(cls, url: str | None, info: ValidationInfo) -> str | None:
        password: SecretStr | None = info.data.get("redis_password")
        if url is None or password is None or has_password(url):
            return url
        scheme, separator, rest = url.partition("://")
        user, _, place = rest.rpartition("@")
        return f"{scheme}{separator}{user}:{quote(password.get_secret_value(), safe='')}@{place}"

    @field_validator("webhook_secret")
    @classmethod
    def _signs(cls, secret: SecretStr | None, info: ValidationInfo) -> SecretStr | None:
        if secret is not None:
            signing_key(secret.get_secret_value())
        elif info.data.get("webhook") is not None and info.data.get("webhook_format") == "json":
            raise FixError("expected what messages are signed with, got none: openssl rand -base64 32")
        return secret

    @field_serializer("webhook_secret", when_used="json-unless-none")
    def _ordered(self, secret: SecretStr) -> str:
        """The secret itself: a process that is started gets its settings by its standard input, which nobody reads."""
        return secret.get_secret_value()

    @field_validator("image_hosts", "metrics", "webhook_networks", mode="before")
    @classmethod
    def _split(cls, names: Any) -> Any:
        return split(names) if isinstance(names, str) else names

    @property
    def is_open(self) -> bool:
        """True if the service accepts requests without an access key."""
        return self.insecure or (is_loopback(self.host) and not self.require_keys)


def has_password(url: str) -> bool:
    """True if a URL of Redis has a password, before its host or among its options."""
    return ":" in url.partition("://")[2].rpartition("@")[0] or "password=" in url


def split(names: str) -> tuple[str, ...]:
    """The names in a text that separates them by commas."""
    return tuple(name.strip() for name in names.split(",") if name.strip())


def load(modules: Iterable[str]) -> None:
    """Import modules that declare metrics or goals, by name. Raises `FixError`, naming the module, where that fails."""
    for module in modules:
        try:
            import_module(module)
        except Exception as error:
            raise FixError(f"OPTIMIST_METRICS: cannot import {module!r}: {error}") from error


def is_loopback(host: str) -> bool:
    """True if a host name or address refers to this machine itself (loopback)."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
