"""HTTP clients: each process has its own, and this machine's addresses are called without a proxy."""

from __future__ import annotations

import contextlib
import os
import re
import socket
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from ipaddress import ip_address
from typing import Any, Generic, TypeVar
from urllib.request import getproxies, proxy_bypass

import httpx

from optimist_client.errors import FixError

Http = TypeVar("Http", httpx.Client, httpx.AsyncClient)


class OwnClient(Generic[Http]):
    """An httpx client for some URLs. A process that is forked gets another one: two cannot share a connection."""

    def __init__(self, kind: Callable[..., Http], urls: Sequence[str], **settings: Any) -> None:
        """Raises FixError for a proxy in the environment that cannot be used."""
        self._kind, self._urls, self._settings = kind, urls, settings
        self._client, self._process = self._made(), os.getpid()

    @property
    def client(self) -> Http:
        """The client of this process; the closed one after it was closed."""
        if self._process != os.getpid() and not self._client.is_closed:
            self._client, self._process = self._made(), os.getpid()
        return self._client

    def _made(self) -> Http:
        try:
            return self._kind(**self._settings, **_without_proxies(self._urls))
        except (ImportError, ValueError) as error:  # a proxy of SOCKS without its package, or of an unknown scheme
            if not (named := " ".join(note for url in self._urls if (note := proxy_note(url)))):
                raise
            raise FixError(f"{error}{named}") from None


def proxy_note(url: str) -> str:
    """The proxy that calls of this URL go through, by its variable, as the end of a message; "" if they go directly."""
    target = httpx.URL(url)
    proxies = getproxies()
    scheme = next((name for name in (target.scheme, "all") if proxies.get(name)), None)
    if scheme is None or is_of_this_machine(target.host) or proxy_bypass(target.host):
        return ""
    names = [f"{scheme}_proxy", f"{scheme}_proxy".upper()]
    variable = next((name for name in names if os.environ.get(name)), "a setting of this system")
    proxy = re.sub(r"//[^/@]*@", "//", proxies[scheme])  # without a password
    return f" (calls go through the proxy {proxy} of {variable}; NO_PROXY={target.host} makes them go directly)"


def retry_after(headers: Mapping[str, str]) -> float | None:
    """The seconds of a header `Retry-After`, a number or a date; None without a valid one."""
    text = headers.get("retry-after", "")
    try:
        seconds = float(text)
    except ValueError:
        try:
            seconds = (parsedate_to_datetime(text).astimezone(UTC) - datetime.now(UTC)).total_seconds()
        except ValueError:
            return None
    return max(seconds, 0.0) if seconds < float("inf") else None


def is_of_this_machine(host: str) -> bool:
    """True if a host is a name or an address of this machine. No name is looked up."""
    name = host.lower().rstrip(".")
    if name == "localhost" or name.endswith(".localhost") or name == socket.gethostname().lower():
        return True
    with contextlib.suppress(ValueError, OSError):
        family = socket.AF_INET if ip_address(name).version == 4 else socket.AF_INET6
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((name, 0))  # which only an address of this machine permits
            return True
    return False


def _without_proxies(urls: Sequence[str]) -> dict[str, Any]:
    """Arguments for an httpx client that calls this machine directly, and others as the environment says."""
    if not getproxies():
        return {}
    hosts = [httpx.URL(url).host for url in urls]
    direct = [host for host in hosts if is_of_this_machine(host)]
    if len(direct) == len(hosts):  # then a proxy that cannot be used does no harm
        return {"trust_env": False, "verify": httpx.create_ssl_context()}
    return {"mounts": {f"all://[{host}]" if ":" in host else f"all://{host}": None for host in direct}}
