"""A client's connections: of forked processes, out of pickles, and past proxies."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler

import pytest

from optimist_client import AsyncOptimist, FixError, Optimist, UnreachableError
from optimist_client.connections import is_of_this_machine
from optimist_client.embedders import OpenAIEmbeddings
from tests.sdk.test_retries import nobody_there
from tests.support.processes import answered_by

PROXIES = ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy", "NO_PROXY", "no_proxy")


class Listing(BaseHTTPRequestHandler):
    """Answers with an empty list, keeps connections, and notes the port and the key of each call."""

    protocol_version = "HTTP/1.1"
    calls: list[tuple[int, str | None]] = []  # noqa: RUF012  emptied by the fixture

    def do_GET(self) -> None:
        self.calls.append((self.client_address[1], self.headers.get("authorization")))
        body = b'{"references": [], "next": null}'
        self.send_response(200)
        self.send_header("content-length", f"{len(body)}")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def url(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    for name in (*PROXIES, "OPTIMIST_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    Listing.calls.clear()
    with answered_by(Listing) as url:
        yield url


FORKED = """
import os, sys
from optimist_client import Optimist
client = Optimist(sys.argv[1])
client.references()
if not (child := os.fork()):
    client.references()
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
client.references()
"""


def test_a_forked_process_has_a_connection_of_its_own(url: str):
    subprocess.run([sys.executable, "-c", FORKED, url], check=True, timeout=60)
    first, forked, again = (port for port, _ in Listing.calls)
    assert forked != first == again


def test_a_pickled_client_asks_with_the_key_of_the_process_that_reads_it(url: str, monkeypatch: pytest.MonkeyPatch):
    with Optimist(url, api_key="a-secret", timeout=7.0) as client:
        pickled = pickle.dumps(client)
    assert b"a-secret" not in pickled
    with pytest.raises(FixError, match=r"OPTIMIST_API_KEY: expected the API key for http.*pickle does not carry"):
        pickle.loads(pickled)
    monkeypatch.setenv("OPTIMIST_API_KEY", "another")
    with pickle.loads(pickled) as read:
        assert read.references() == []
    assert Listing.calls[-1][1] == "Bearer another"
    assert read._transport._timeout == 7.0


async def test_an_asyncio_client_can_be_pickled(url: str):
    async with pickle.loads(pickle.dumps(AsyncOptimist(url))) as client:
        assert await client.references() == []


async def test_this_machine_is_called_without_a_proxy(url: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HTTP_PROXY", nobody_there())
    monkeypatch.setenv("ALL_PROXY", "socks5://127.0.0.1:1")  # which httpx alone cannot use
    with Optimist(url, patience=0.0) as client:
        assert client.references() == []
    async with AsyncOptimist(url.replace("127.0.0.1", "localhost"), patience=0.0) as client:
        assert await client.references() == []
    monkeypatch.delenv("ALL_PROXY")
    with Optimist([url, "http://service.example"], patience=0.0) as client:
        assert client.references() == []


def test_a_proxy_that_breaks_a_call_is_named(url: str, monkeypatch: pytest.MonkeyPatch):
    dead = nobody_there()
    monkeypatch.setenv("http_proxy", dead.replace("//", "//me:hidden@"))
    said = rf"\(calls go through the proxy {dead} of http_proxy; NO_PROXY=service.example makes them go directly\)"
    with Optimist("http://service.example", patience=0.0) as client, pytest.raises(UnreachableError, match=said):
        client.references()
    with pytest.raises(Exception, match=said):
        OpenAIEmbeddings(url="http://service.example", patience=0.0).embed(["a"])
    monkeypatch.setenv("ALL_PROXY", "socks5://127.0.0.1:1")
    monkeypatch.delenv("http_proxy")
    with pytest.raises(FixError, match=r"the proxy socks5://127.0.0.1:1 of ALL_PROXY; NO_PROXY=service.example"):
        Optimist("http://service.example")


def test_a_page_of_a_proxy_names_it(url: str, monkeypatch: pytest.MonkeyPatch):
    class Refusing(Listing):
        def do_GET(self) -> None:
            self.send_error(403, "not from here")

    with answered_by(Refusing) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy)
        with Optimist("http://service.example") as client, pytest.raises(FixError, match=r"HTTP 403 .*of HTTP_PROXY"):
            client.references()


def test_names_and_addresses_of_this_machine():
    for host in ("127.0.0.1", "127.9.9.9", "localhost", "LOCALHOST.", "a.localhost", "0.0.0.0"):
        assert is_of_this_machine(host), host
    for host in ("192.0.2.1", "service.example", "localhost.example", "2001:db8::1"):
        assert not is_of_this_machine(host), host
