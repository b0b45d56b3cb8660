"""Shares of connections: of each access key, and of each address while its connections have shown none."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from optimist.server.connections import Connections
from tests.support.keys import bearer, client_of, guarded, new_key
from tests.support.processes import Service, until

MOST, SHARE = 20, 5


class Held:
    """A connection that is only counted."""

    def __init__(self, connections: Connections, address: str, key: str | None = None) -> None:
        self._connections = connections
        self.is_idle = True
        self.is_open = True
        self.has_room = connections.open(self, address)
        if key is not None:
            self.ask(key)

    def ask(self, key: str) -> bool:
        self.is_idle = False
        return self._connections.admit(self, key)

    def close(self) -> None:
        self._connections.close(self)
        self.is_open = False


def test_the_connection_that_is_idle_for_the_longest_makes_room():
    connections = Connections(MOST, SHARE / MOST)
    busy = Held(connections, "a", "one")
    silent = [Held(connections, "a") for _ in range(SHARE + 2)]
    assert [one.is_open for one in silent] == [False] * 2 + [True] * SHARE, "of its own address"
    others = [Held(connections, address) for address in "bcde" for _ in range(SHARE)]
    assert all(one.has_room for one in others)
    assert sum(one.is_open for one in [*silent, *others]) == MOST - 1
    assert not any(one.is_open for one in silent), "of all addresses"
    assert busy.is_open
    assert Held(connections, "a", "one").has_room


def test_requests_of_a_key_beyond_its_share_are_refused_and_nobody_elses():
    connections = Connections(MOST, SHARE / MOST)
    held = [Held(connections, "proxy", "one") for _ in range(SHARE)]
    more = Held(connections, "proxy")
    assert not more.ask("one")
    more.close()
    assert Held(connections, "proxy").ask("two")
    held[3].is_idle = True
    assert Held(connections, "proxy").ask("one")
    assert [one.is_open for one in held] == [True, True, True, False, True]
    assert held[0].ask("two"), "a proxy sends requests with several keys over one connection"
    assert Held(connections, "proxy").ask("one")


def test_without_keys_only_the_limit_of_all_holds():
    connections = Connections(MOST, SHARE / MOST)
    held = [Held(connections, "a", "") for _ in range(MOST)]
    assert all(one.has_room and one.is_open for one in held)
    assert not Held(connections, "a").has_room


def test_what_has_ended_is_forgotten():
    connections = Connections(MOST, SHARE / MOST)
    for _ in range(2):
        held = [Held(connections, "a", key) for key in ("one", "two") for _ in range(SHARE)]
        assert all(one.has_room and one.is_open for one in held)
        for one in held:
            one.close()
            one.close()


@pytest.fixture(scope="module")
def asking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Service, Path]]:
    directory = tmp_path_factory.mktemp("few-connections")
    environment = {"OPTIMIST_MAX_CONNECTIONS": str(MOST), "OPTIMIST_CONNECTION_SHARE": str(SHARE / MOST)}
    with guarded(directory, "--no-scoring", environment=environment) as (service, _):
        yield service, directory


def test_idle_connections_of_nobody_leave_room_for_those_with_keys(asking: tuple[Service, Path]):
    service, directory = asking
    with client_of(service, new_key(directory, "admin")) as client, contextlib.ExitStack() as stack:
        assert client.get("/v1/experiments").status_code == 200
        for _ in range(2 * MOST):
            stack.enter_context(socket.create_connection(("127.0.0.1", service.port), timeout=10))
            assert client.get("/v1/experiments").status_code == 200, "on a connection that was there before"
        assert httpx.get(f"{service.url}/v1/experiments", headers=client.headers).status_code == 200


@pytest.mark.long
def test_asks_of_one_key_that_wait_leave_room_for_others(asking: tuple[Service, Path]):
    service, directory = asking
    key, other = new_key(directory, "admin", "one"), new_key(directory, "admin", "two")
    config = {
        "name": "w",
        "generators": ["a", "b"],
        "metric": {"name": "mean"},
        "max_wait": 60,
        "rescore_growth": 0,
        "warmup": 1,
    }
    ask = b'{"worker":"%d"}'
    head = b"POST /v1/experiments/w/picks HTTP/1.1\r\nhost: 127.0.0.1:%d\r\nauthorization: Bearer %s\r\n"
    head += b"content-type: application/json\r\ncontent-length: %d\r\n\r\n%s"
    with client_of(service, key) as client, client_of(service, other) as neighbour, contextlib.ExitStack() as stack:
        assert client.post("/v1/experiments", json=config).status_code == 200
        for generator in "ab":  # whose estimates never come
            path = f"/v1/experiments/w/generators/{generator}/batches"
            told = client.post(path, json={"values": [[1.0], [2.0]]}, headers={"idempotency-key": generator})
            assert told.status_code == 200

        def waiting(number: int) -> socket.socket:
            connection = stack.enter_context(socket.create_connection(("127.0.0.1", service.port), timeout=10))
            body = ask % number
            connection.sendall(head % (service.port, key.encode(), len(body), body))
            return connection

        client.close()
        for number in range(SHARE):
            waiting(number)

        def refused() -> bool:
            answer = httpx.get(f"{service.url}/v1/experiments", headers=bearer(key))
            assert answer.status_code in (200, 503)
            return answer.status_code == 503

        until(refused)
        answer = httpx.get(f"{service.url}/v1/experiments", headers=bearer(key))
        assert answer.json()["action"] == "retry"
        assert (answer.headers["connection"], answer.headers["retry-after"]) == ("close", "1")
        assert b" 503 " in waiting(SHARE).recv(4096)
        assert neighbour.get("/v1/experiments").status_code == 200
