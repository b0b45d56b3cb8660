"""Redis servers that others run: what is refused, what is warned of, and the ways to reach them."""

import asyncio
import logging
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from optimist.records import CannotStart
from optimist.store import Store, connect
from optimist.store.connection import check_server, format_url, wait_for_server
from tests.support.commands import invoked
from tests.support.processes import until
from tests.support.servers import SLOTS, Server, free_port, redis_6, redis_7, single


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    program = redis_6() or redis_7() or pytest.skip("no redis-server here")
    with single(program, tmp_path_factory.mktemp("redis"), "--appendonly", "yes", "--appendfsync", "always") as server:
        yield server


@pytest.fixture
def settings(own: Server) -> Iterator[Server]:
    """The server, whose settings are put back afterwards."""
    yield own
    for name, value in {"maxmemory-policy": "noeviction", "appendonly": "yes", "appendfsync": "always"}.items():
        own.call("CONFIG", "SET", name, value)


async def warnings_of(url: str, caplog: pytest.LogCaptureFixture) -> list[str]:
    async with connect(url) as redis:
        await check_server(redis)
    return [record.message for record in caplog.records if record.levelno == logging.WARNING]


async def test_a_server_that_keeps_all_is_welcome(own: Server, caplog: pytest.LogCaptureFixture):
    assert await warnings_of(own.url, caplog) == []


@pytest.mark.parametrize("policy", ["allkeys-lru", "volatile-lru", "volatile-ttl"])
async def test_a_server_that_evicts_is_refused(settings: Server, policy: str):
    settings.call("CONFIG", "SET", "maxmemory-policy", policy)
    with pytest.raises(
        CannotStart, match=rf"127\.0\.0\.1:{settings.port} .*{policy}.* Set maxmemory-policy noeviction"
    ):
        await wait_for_server(settings.url)


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"appendonly": "no", "save": ""}, "keeps nothing on disk"),
        ({"appendonly": "no", "save": "3600 1"}, "since its last dump is lost"),
        ({"appendfsync": "everysec"}, "in the last seconds is lost"),
        ({"appendfsync": "no"}, "in the last half minute is lost"),
    ],
)
async def test_what_may_be_lost_is_warned_of(
    settings: Server, caplog: pytest.LogCaptureFixture, changed: dict[str, str], expected: str
):
    for name, value in changed.items():
        settings.call("CONFIG", "SET", name, value)
    (warning,) = await warnings_of(settings.url, caplog)
    assert f"Redis at 127.0.0.1:{settings.port} " in warning
    assert expected in warning
    assert "appendonly yes with appendfsync always loses nothing" in warning


@pytest.mark.parametrize(
    ("forbidden", "expected"), [("config", "appendfsync is not known"), ("info", "does not allow INFO")]
)
async def test_what_could_not_be_checked_is_said(
    own: Server, caplog: pytest.LogCaptureFixture, forbidden: str, expected: str
):
    own.call("ACL", "SETUSER", "guest", "reset", "on", ">secret", "~*", "&*", "+@all", f"-{forbidden}")
    (warning,) = await warnings_of(own.url.replace("redis://", "redis://guest:secret@"), caplog)
    assert expected in warning
    assert "secret" not in warning


async def test_an_old_server_is_refused(own: Server):
    async with connect(own.url) as redis:
        read = redis.response_callbacks["INFO"]
        redis.set_response_callback("INFO", lambda *answer, **_: {**read(*answer), "redis_version": "6.0.16"})
        with pytest.raises(CannotStart, match=r"version 6\.0\.16: 6\.2 or newer"):
            await check_server(redis)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (("redis://", "redis://guest:wrong@"), "cannot be reached this way"),
        (("redis://", "redis+cluster://guest:wrong@"), "cannot be reached this way"),
        (("redis://", "redis+cluster://"), "not a cluster there: begin its URL with redis://"),
        (("redis://", "http://"), "expected a redis://"),
        (("redis://", "localhost:"), "expected a redis://"),
        (("127.0.0.1", "127.0.0.1/?ssl_ca_cert=x"), "option that is not known.*ssl_ca_cert"),
        (("redis://", "redis://:hush/hush@"), "^((?!hush).)*cannot be read: expected scheme://user((?!hush).)*$"),
    ],
)
async def test_mistakes_in_the_url_are_said(own: Server, change: tuple[str, str], expected: str):
    async with asyncio.timeout(10):
        with pytest.raises(CannotStart, match=expected):
            await wait_for_server(own.url.replace(*change))


@pytest.mark.parametrize("password", ["hush", "hu/sh", "hush?x"])
async def test_no_password_in_a_url_is_shown(own: Server, password: str):
    url = own.url.replace("redis://", f"redis://guest:{password}@") + "?password=hush"
    assert format_url(url) == own.url
    with pytest.raises(CannotStart, match=r"^((?!hu).)*cannot be re((?!hush|/sh).)*$"):  # reached this way, or read
        await wait_for_server(url)


def test_the_command_line_shows_no_password_in_a_url(own: Server):
    url = own.url.replace("redis://", "redis://guest:hu/sh@") + "?password=hush"
    done = invoked("serve", "--port=0", "--no-scoring", code=1, env={"OPTIMIST_REDIS_URL": url})
    assert "cannot be read" in done.stderr
    assert not re.search("hush|hu|ush", done.output), done.output


@pytest.mark.parametrize("url", ["redis+cluster://127.0.0.1/1", "redis+cluster://127.0.0.1?foo=1", "unix+cluster:///s"])
def test_urls_that_no_cluster_has(url: str):
    with pytest.raises(ValueError, match="Redis"):
        connect(url)


async def test_a_server_that_is_not_there_yet_is_waited_for(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("optimist.store.connection._POLL_SECONDS", 0.05)
    program = redis_6() or redis_7() or pytest.skip("no redis-server here")
    with single(program, tmp_path, "--maxmemory-policy", "allkeys-lru") as server:
        server.kill()
        waiting = asyncio.create_task(wait_for_server(server.url))
        await asyncio.to_thread(until, lambda: caplog.records)
        assert "waiting for Redis: Error 111" in caplog.text
        await asyncio.to_thread(server.start)
        async with asyncio.timeout(10):
            with pytest.raises(CannotStart, match="allkeys-lru"):
                await waiting
    assert len(caplog.records) == 1, "said once, not at every attempt"


@pytest.mark.parametrize(
    "role", [["serve", "--port=0", "--no-scoring"], pytest.param(["scorer"], marks=pytest.mark.long)]
)
def test_no_command_starts_on_a_server_that_evicts(settings: Server, role: list[str]):
    settings.call("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    done = invoked(*role, f"--redis-url={settings.url}", code=1)
    assert "Set maxmemory-policy noeviction" in done.stderr
    assert isinstance(done.exception, SystemExit), "no traceback"


@pytest.mark.long
@pytest.mark.parametrize("scheme", ["rediss", "rediss+cluster"])
async def test_over_tls(tmp_path: Path, certificate: tuple[Path, Path], scheme: str):
    program = redis_7() or pytest.skip("no redis-server 7 here (OPTIMIST_TEST_REDIS names one); 6.2's wheel has no TLS")
    port = free_port()
    options = ["--tls-port", str(port), "--tls-cert-file", str(certificate[0]), "--tls-key-file", str(certificate[1])]
    options += ["--tls-auth-clients", "no"]
    if "cluster" in scheme:
        options += ["--cluster-enabled", "yes", "--tls-cluster", "yes", "--tls-ca-cert-file", str(certificate[0])]
    with single(program, tmp_path, *options) as server:
        if "cluster" in scheme:
            server.call("CLUSTER", "ADDSLOTSRANGE", 0, SLOTS - 1)
            until(lambda: b"cluster_state:ok" in server.call("CLUSTER", "INFO"))
        url = f"{scheme}://127.0.0.1:{port}"
        trusting = f"{url}?ssl_ca_certs={certificate[0]}"
        async with asyncio.timeout(20):
            await wait_for_server(trusting)
        async with connect(trusting) as redis:
            store = Store(redis)
            assert await store.create_experiment("x", "{}", ["a"], growth=0.0, labels=[""])
            async with store.announcements("channel") as stream:
                assert await anext(stream) is None
        async with asyncio.timeout(10):
            with pytest.raises(CannotStart, match=r"cannot be reached this way.*certificate"):
                await wait_for_server(url)
