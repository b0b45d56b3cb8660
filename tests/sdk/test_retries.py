"""What the client makes of a service that is busy, slow, or not there."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler

import pytest

from optimist_client import (
    AsyncOptimist,
    BusyError,
    FixError,
    NotFoundError,
    Optimist,
    OptimistError,
    RetryError,
    StopError,
    UnreachableError,
    errors,
)
from tests.support.processes import answered_by


@contextmanager
def answering(*statuses: int) -> Iterator[str]:
    """URL of a server that answers with these, the last one for ever; 200 is an empty list."""
    left = list(statuses)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(left.pop(0) if len(left) > 1 else left[0])
            self.end_headers()
            self.wfile.write(b'{"references": [], "next": null}')

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    with answered_by(Handler) as url:
        yield url


async def test_a_busy_service_is_asked_again_until_it_answers():
    with answering(503, 429, 200) as url, Optimist(url) as client:
        assert client.references() == []
    with answering(502, 504, 200) as url:
        async with AsyncOptimist(url) as client:
            assert await client.references() == []


def nobody_there() -> str:
    """URL of a port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as unused:
        return f"http://127.0.0.1:{unused.getsockname()[1]}"


async def test_a_replica_that_cannot_be_reached_is_left_for_the_next_one():
    dead = nobody_there()
    with (
        answering(200, 503) as first,
        answering(200, 404) as spare,
        Optimist([dead, f"{first}/", spare], patience=0.0) as client,
    ):
        assert client.references() == []
        assert client._transport._url("/v1") == f"{first}/v1"
        assert client.references() == []
        with pytest.raises(NotFoundError):  # from the replica that answered last: no other one is asked
            client.references()
        assert client._transport._url("/v1") == f"{spare}/v1"
    with answering(200) as url:
        async with AsyncOptimist([dead, url], patience=0.0) as client:
            assert await client.references() == []


def test_no_replica_can_be_reached():
    dead = nobody_there()
    with (
        Optimist([dead, nobody_there()], patience=0.1) as client,
        pytest.raises(UnreachableError, match=f"{dead} or h"),
    ):
        client.references()
    with answering(429) as busy, Optimist([busy, dead], patience=0.1) as client, pytest.raises(BusyError):
        client.references()  # too many requests of this key, whichever replica gets them
    with pytest.raises(ValueError, match="expected at least one"):
        Optimist([])


def test_a_service_that_stays_busy_is_said_to_be():
    with answering(503) as url, Optimist(url, patience=0.1) as client:
        with pytest.raises(BusyError, match=r"within 0.1 s: the service answered 503") as failure:
            client.references()
        assert isinstance(failure.value, RetryError)


def test_a_service_that_does_not_answer_in_time_is_unreachable():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with Optimist(url, timeout=0.1, patience=0.0) as client, pytest.raises(UnreachableError, match="ReadTimeout"):
            client.references()


def test_every_error_says_what_to_do_and_is_in_the_tree():
    kinds = [getattr(errors, name) for name in errors.__all__ if name != "OptimistError"]
    assert {kind.action for kind in kinds} == {"retry", "fix", "stop"}
    tree = errors.__doc__ or ""
    for kind in kinds:
        assert issubclass(kind, OptimistError)
        assert issubclass(kind, {"retry": RetryError, "fix": FixError, "stop": StopError}[kind.action])
        assert f"─ {kind.__name__} " in tree
