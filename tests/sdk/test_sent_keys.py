"""Access keys as clients send them: what cannot be sent is refused at once, and no error repeats a key."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from optimist_client import AsyncOptimist, FixError, NotFoundError, Optimist, OptimistError
from tests.support.commands import invoked
from tests.support.processes import Service, answered_by

SECRET = "optimist_0123456789ab_AbCdEfGhIjKlMnOpQrStUvWxYz0123456789-AbCdEf"


class Mirror(BaseHTTPRequestHandler):
    """Sends back the headers that it was sent, with the status that the path begins with."""

    def do_GET(self) -> None:
        self.send_response(int(self.path.split("/")[1]))
        self.end_headers()
        self.wfile.write(str(self.headers).encode())

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def mirror() -> Iterator[str]:
    with answered_by(Mirror) as url:
        yield url


@pytest.fixture(params=["blocking", "asyncio"])
def is_async(request: pytest.FixtureRequest) -> bool:
    return request.param == "asyncio"


async def refused(is_async: bool, url: str, key: str | None = SECRET, patience: float = 60.0) -> OptimistError:
    """What a call of the service at this URL raises."""
    try:
        if is_async:
            async with AsyncOptimist(url, api_key=key, patience=patience) as client:
                await client.experiment("x")
        else:
            with Optimist(url, api_key=key, patience=patience) as client:
                client.experiment("x")
    except OptimistError as error:
        return error
    pytest.fail("nothing was raised")


def said(error: BaseException) -> str:
    return f"{error} {error!r} {''.join(traceback.format_exception(error))}"


def never_retried(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("it was tried again")

    monkeypatch.setattr("optimist_client.drivers.BlockingTransport.sleep", refuse)
    monkeypatch.setattr("optimist_client.async_driver.AsyncTransport.sleep", refuse)


@pytest.mark.parametrize("key", [f"{SECRET}\n", f" {SECRET}\r\n\t"])
async def test_white_space_around_a_key_is_removed(
    key: str, mirror: str, is_async: bool, monkeypatch: pytest.MonkeyPatch
):
    """As a secret that is mounted as a file ends with a newline."""
    for given in (key, None, "\n"):
        monkeypatch.setenv("OPTIMIST_API_KEY", key)
        error = await refused(is_async, f"{mirror}/404", given)
        assert isinstance(error, NotFoundError)
        assert "authorization: Bearer …\n" in str(error).replace("\r", "")


@pytest.mark.parametrize("wrong", ["\n", "\x00", " ", "é", "\u2028", "\x7f"])
async def test_a_key_that_cannot_be_sent_is_refused_before_any_request(
    wrong: str, is_async: bool, monkeypatch: pytest.MonkeyPatch
):
    never_retried(monkeypatch)
    error = await refused(is_async, "http://127.0.0.1:9", f"{SECRET}{wrong}{SECRET}")
    assert isinstance(error, FixError)
    assert f"character {len(SECRET) + 1} of" in str(error)
    assert SECRET not in said(error)


async def test_an_unknown_certificate_is_refused_at_once_with_what_to_set(
    certificate: tuple[Path, Path], is_async: bool, monkeypatch: pytest.MonkeyPatch
):
    never_retried(monkeypatch)
    with answered_by(Mirror, certificate) as url:
        error = await refused(is_async, url)
        assert isinstance(error, FixError)
        assert "self-signed certificate" in str(error)
        assert "set SSL_CERT_FILE to a file (PEM)" in str(error)
        assert "\n" not in str(error)
        assert SECRET not in said(error)
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))
        assert isinstance(await refused(is_async, f"{url}/404"), NotFoundError)


async def test_https_where_the_service_speaks_http_is_refused_at_once(
    shared: Service, is_async: bool, monkeypatch: pytest.MonkeyPatch
):
    never_retried(monkeypatch)
    error = await refused(is_async, shared.url.replace("http", "https"))
    assert isinstance(error, FixError)
    assert str(error) == f"the service speaks http there: use {shared.url}"
    assert SECRET not in said(error)


WRONG = {
    "user and password": f"http://me:{SECRET}@127.0.0.1:9",
    "user": f"http://{SECRET}@127.0.0.1:9",
    "an unescaped slash": f"http://me:{SECRET[:20]}/{SECRET[20:]}@127.0.0.1:9",
    "another scheme": f"ftp://me:{SECRET}@127.0.0.1:9",
    "no scheme": f"me:{SECRET}@127.0.0.1:9",
    "an option": f"http://127.0.0.1:9?key={SECRET}",
    "a fragment": f"http://127.0.0.1:9/#{SECRET}",
    "a port": f"http://127.0.0.1:{SECRET}",
    "the key": SECRET,
    "nobody there": "http://127.0.0.1:9",
}


@pytest.mark.parametrize("case", WRONG)
async def test_no_error_repeats_a_key_of_a_wrong_url(case: str, is_async: bool):
    error = await refused(is_async, WRONG[case], patience=0.0)
    assert SECRET[10:20] not in said(error)
    assert SECRET[20:] not in said(error)


@pytest.mark.parametrize("status", [301, 400, 401, 403, 404, 409, 410, 422, 429, 500, 502, 503, 504, 507])
async def test_no_error_repeats_a_key_that_the_other_end_sends_back(status: int, mirror: str, is_async: bool):
    error = await refused(is_async, f"{mirror}/{status}", patience=0.0)
    assert "authorization" in str(error).lower()
    assert SECRET not in said(error)
    assert error.problem is None or SECRET not in repr(error.problem)


@pytest.mark.parametrize("case", [*sorted(WRONG.keys() - {"nobody there"}), "a bad key", "401", "403", "a certificate"])
def test_no_command_prints_a_key(case: str, mirror: str, certificate: tuple[Path, Path]):
    with answered_by(Mirror, certificate) as secure:
        url = {**WRONG, "a certificate": secure}.get(case, f"{mirror}/{case}")
        env = {"OPTIMIST_API_KEY": f"{SECRET}\x01" if case == "a bad key" else SECRET}
        done = invoked("list", "--url", url, env=env, code=1)
    assert done.output
    assert isinstance(done.exception, SystemExit), "no traceback"
    assert SECRET[10:20] not in done.output
    assert SECRET[20:] not in done.output.replace("\n", "")
