"""One message to one receiver: its body, its signature, and a connection to an address that is allowed.

Headers and signatures follow Standard Webhooks, for which there are libraries in many languages.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import socket
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Any, cast
from urllib.parse import urlsplit

import httpcore
import httpx
from pydantic import BaseModel, ConfigDict
from pydantic.networks import IPvAnyNetwork

from optimist.experiments.events import Event
from optimist_client.errors import FixError
from optimist_client.models import Report
from optimist_client.models.webhooks import MessageFormat, signing_key

TIMEOUT = 5.0
"""Seconds that a message may take, from the search for the receiver's address to the head of its answer."""
TRANSLATED = IPv6Network("64:ff9b::/96")
"""Addresses of NAT64, whose last 32 bits are an IPv4 address."""
UNICAST = IPv6Network("2000::/3")
"""All addresses of IPv6 that are given to hosts of the Internet: `ipaddress` calls more of them global."""
PROTOCOLS = IPv4Network("192.0.0.0/24")
"""Addresses for protocols: `ipaddress` of Python 3.11 calls some of them global."""
Address = IPv4Address | IPv6Address
_names = ThreadPoolExecutor(4, "names")
"""Threads of their own to look names up in: a server of names that hangs keeps no other work waiting."""


class Webhook(BaseModel):
    """A receiver of messages, as it is stored."""

    model_config = ConfigDict(frozen=True)

    url: str
    format: MessageFormat
    secret: str | None = None
    maker: str = ""
    """Id of the access key that set it, with which it ends; "" where none was needed."""

    @property
    def host(self) -> str:
        """The host and port of the URL, which may be shown."""
        return urlsplit(self.url).netloc


class NotAllowed(Exception):
    """The receiver is at an address that no message may go to."""


def is_allowed(address: Address, networks: Iterable[IPvAnyNetwork]) -> bool:
    """True if a message may go to an address: it is public, or in one of these networks."""
    if any(address in network for network in networks):
        return True
    if isinstance(address, IPv6Address):
        inner = [address.ipv4_mapped, address.sixtofour, *(address.teredo or ())]
        inner += [IPv4Address(int(address) & 0xFFFFFFFF)] if address in TRANSLATED else []
        if not all(is_allowed(part, networks) for part in inner if part is not None):
            return False
        if address.ipv4_mapped is not None or address in TRANSLATED:
            return True  # it is the IPv4 address that is connected to
        return address.is_global and address in UNICAST
    return address.is_global and not address.is_multicast and address not in PROTOCOLS


def addresses(host: str, port: int) -> list[Address]:
    """The addresses of a host. Raises OSError where it has none."""
    entries = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [ip_address(str(place[0]).partition("%")[0]) for *_, place in entries]


def check_receiver(url: str, networks: Sequence[IPvAnyNetwork]) -> None:
    """Raise FixError if a URL names a host of which an address is not allowed. One that has none now may have later."""
    parts = urlsplit(url)
    assert parts.hostname is not None
    try:
        receivers = addresses(parts.hostname, parts.port or 0)
    except (OSError, UnicodeError):
        return
    if not all(is_allowed(receiver, networks) for receiver in receivers):
        raise FixError(
            "webhook: expected a host with public addresses only. OPTIMIST_WEBHOOK_NETWORKS allows others: "
            f"{','.join(map(str, receivers))}"
        )


class CheckedBackend(httpcore.AsyncNetworkBackend):
    """Connections to hosts of which every address is allowed, by the very address that was checked."""

    def __init__(self, networks: Sequence[IPvAnyNetwork]) -> None:
        self._networks = networks
        self._plain = cast("httpcore.AsyncNetworkBackend", httpcore.AnyIOBackend())

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109  it is httpcore's interface
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """A connection to the first address that answers. Raises NotAllowed, OSError, ConnectError."""
        receivers = await asyncio.get_running_loop().run_in_executor(_names, addresses, host, port)
        if not all(is_allowed(receiver, self._networks) for receiver in receivers):
            raise NotAllowed
        failed: Exception = httpcore.ConnectError("no address")
        for receiver in receivers:
            try:
                return await self._plain.connect_tcp(str(receiver), port, timeout, local_address, socket_options)
            except httpcore.ConnectError as error:
                failed = error
        raise failed

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


@cache
def _certificates() -> Any:
    return httpx.create_ssl_context()


async def post(webhook: Webhook, id_: str, body: bytes, networks: Sequence[IPvAnyNetwork]) -> tuple[bool, str]:
    """Send a message once. Returns whether the receiver has accepted it, and how it ended, in words.

    No redirect is followed, no proxy is used, and of the answer only the head is read.
    """
    headers = [("content-type", "application/json"), ("user-agent", "Optimist")]
    if webhook.secret is not None:
        headers += signed(webhook.secret, id_, int(time.time()), body).items()
    try:
        async with (
            asyncio.timeout(TIMEOUT),
            httpcore.AsyncConnectionPool(_certificates(), network_backend=CheckedBackend(networks)) as pool,
            pool.stream("POST", webhook.url, headers=headers, content=body) as answer,
        ):
            return 200 <= answer.status < 300, f"answered {answer.status}"
    except NotAllowed:
        return False, "the host has an address that is not public"
    except socket.gaierror:
        return False, "no address of the host was found"
    except TimeoutError:
        return False, f"no answer within {TIMEOUT:g} s"
    except (OSError, UnicodeError, httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException) as error:
        return False, type(error).__name__


def signed(secret: str, id_: str, at: int, body: bytes) -> dict[str, str]:
    """The headers by which a receiver knows a message. at: when it is sent, in Unix seconds."""
    text = b".".join((id_.encode(), str(at).encode(), body))
    signature = base64.b64encode(hmac.digest(signing_key(secret), text, hashlib.sha256)).decode()
    return {"webhook-id": id_, "webhook-timestamp": str(at), "webhook-signature": f"v1,{signature}"}


def body_of(webhook: Webhook, event: Event, namespace: str, report: Report, longest: int = 2_000) -> bytes:
    """The body of a message: what became of an experiment, and what its report says of it in `longest` characters."""
    said = report.answer if len(report.answer) <= longest else f"{report.answer[: longest - 1]}…"
    if webhook.format == "slack":
        return json.dumps({"text": f"*{report.experiment}* is {event.kind}. {_plain(said)}"}).encode()
    told = {
        "namespace": namespace,
        "experiment": report.experiment,
        "event": event.kind,
        "answer": said,
        "best": report.decision.best,
        "confidence": report.decision.confidence,
        "samples": report.samples,
        "budget": report.budget,
        "cost": report.cost,
    }
    at = datetime.fromtimestamp(event.at, UTC).isoformat(timespec="seconds")
    return json.dumps({"type": f"experiment.{event.kind.replace(' ', '_')}", "timestamp": at, "data": told}).encode()


def _plain(text: str) -> str:
    """The text as Slack shows it: without mentions and links of whoever names generators."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
