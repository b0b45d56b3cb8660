"""What one client can cost: sizes, rates, slow connections, and the memory of all bodies together."""

from __future__ import annotations

import contextlib
import json
import socket
import struct
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import numpy as np
import pytest

from optimist.api.middleware.access import Rates
from optimist.api.problems import ApiError
from optimist_client import Optimist, tensors
from tests.support.begun import held
from tests.support.edited import changed
from tests.support.keys import client_of, guarded, new_key
from tests.support.processes import TENSORS, Service, append_batch, serving, until

LIMITS = {
    "OPTIMIST_HEAD_TIMEOUT": "1",
    "OPTIMIST_BODY_TIMEOUT": "1",
    "OPTIMIST_MAX_JSON": "20000",
    "OPTIMIST_MAX_MEMORY": "1000000",
    "OPTIMIST_MAX_GENERATORS": "3",
    "OPTIMIST_MAX_EXPERIMENTS": "4",
    "OPTIMIST_MAX_OPEN_PICKS": "5",
}
CONFIG = {"generators": ["a"], "metric": {"name": "is", "dimension": 3}}
HEALTH = b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\n"


def head(path: str, length: int, kind: str = "application/json") -> bytes:
    """The head of a request with a body of so many bytes."""
    lines = f"POST {path} HTTP/1.1", "host: 127.0.0.1", f"content-type: {kind}", f"content-length: {length}", "", ""
    return "\r\n".join(lines).encode()


@pytest.fixture(scope="module")
def limited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with serving(tmp_path_factory.mktemp("limited"), "--no-scoring", environment=LIMITS) as service:
        with Optimist(service.url) as client:
            client.create_experiment("x", **CONFIG)
        yield service


@pytest.fixture
def connection(limited: Service) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", limited.port), timeout=30) as connected:
        yield connected


def read_to_end(connection: socket.socket) -> bytes:
    """What comes until the service closes the connection, however it does."""
    received = b""
    try:
        while piece := connection.recv(65536):
            received += piece
    except ConnectionResetError:
        pass
    return received


def drip(connection: socket.socket, piece: bytes) -> None:
    """Send a piece now and then, until the service has had enough."""

    def send() -> None:
        try:
            while True:
                connection.sendall(piece)
                time.sleep(0.1)
        except OSError:
            pass

    threading.Thread(target=send, daemon=True).start()


def test_a_head_that_never_ends_is_cut_off(connection: socket.socket):
    connection.sendall(HEALTH)
    drip(connection, b"x: y\r\n")
    assert read_to_end(connection) == b""


def test_a_connection_that_asks_for_nothing_is_closed(connection: socket.socket):
    assert read_to_end(connection) == b""


def test_so_is_one_that_asked_once_and_then_sends_line_ends(connection: socket.socket):
    connection.sendall(HEALTH + b"\r\n")
    drip(connection, b"\r\n")
    assert read_to_end(connection).count(b"HTTP/1.1 200") == 1


def test_a_head_has_a_size(connection: socket.socket):
    with contextlib.suppress(ConnectionError):
        connection.sendall(HEALTH + (b"x: " + b"y" * 1000 + b"\r\n") * 4000 + b"\r\n")
    assert read_to_end(connection) == b""


def test_so_has_one_that_comes_whole(connection: socket.socket):
    """In one piece, so that it never is a head that has not ended; a smaller one is answered."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2**20)
    line = b"x: " + b"y" * 995 + b"\r\n"
    connection.sendall(HEALTH + 60 * line + b"\r\n")
    answer = b""
    while not answer.endswith(b"}"):
        answer += connection.recv(65536)
    assert answer.startswith(b"HTTP/1.1 200")
    with contextlib.suppress(ConnectionError):
        connection.sendall(HEALTH + 70 * line + b"\r\n")
    assert read_to_end(connection) == b""


def test_a_body_that_stops_is_answered_and_its_pick_stays_open(limited: Service, connection: socket.socket):
    with Optimist(limited.url) as client:
        pick = client.experiment("x").ask(worker="slow")
        path = f"/v1/experiments/x/picks/{pick.number}/batch?nonce={pick.info.nonce}"
        connection.sendall(head(path, 100_000, tensors.MEDIA_TYPE))
        drip(connection, b"z")
        assert connection.recv(65536).startswith(b"HTTP/1.1 408")
        assert pick.tell(np.eye(3)).samples >= 3


def test_what_came_quickly_is_no_reserve_for_a_long_pause(connection: socket.socket):
    """At one second for each 64 KiB, this one could have rested for a minute."""
    connection.settimeout(20)
    connection.sendall(head("/v1/references?name=big", 1_000_000, tensors.MEDIA_TYPE) + b"\0" * 950_000)
    received = connection.recv(65536)
    assert received.startswith(b"HTTP/1.1 408"), received


def test_a_slow_body_keeps_nobody_waiting(limited: Service, connection: socket.socket):
    connection.sendall(head("/v1/experiments", 1000) + b"{")
    assert httpx.get(f"{limited.url}/v1/experiments/x/report").status_code == 200


def test_a_header_of_many_tensors_is_refused_before_it_is_read(limited: Service):
    entry = {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}
    header = json.dumps({f"{n}": entry for n in range(1500)}).encode()
    reply = httpx.post(
        f"{limited.url}/v1/experiments/x/generators/a/batches",
        content=struct.pack("<Q", len(header)) + header,
        headers={"content-type": tensors.MEDIA_TYPE, "idempotency-key": "k"},
    )
    assert reply.status_code == 422
    assert "header of at most" in reply.json()["detail"]


def test_json_has_a_size_of_its_own(limited: Service):
    rows = [[0.25, 0.25, 0.5]] * 2000
    for kind in ("application/json", "text/plain", ""):
        reply = httpx.post(
            f"{limited.url}/v1/experiments/x/generators/a/batches",
            content=str(rows).encode(),
            headers={"content-type": kind, "idempotency-key": "k"},
        )
        assert reply.status_code == 413, kind
        assert "at most 20000 bytes" in reply.json()["detail"]


def test_an_announced_size_is_refused_before_it_comes(connection: socket.socket):
    connection.sendall(head("/v1/experiments", 10**12) + b"{")
    assert connection.recv(65536).startswith(b"HTTP/1.1 413")


def test_bodies_share_a_memory(limited: Service, connection: socket.socket):
    """One that lies there keeps others out that would not fit beside it, for no longer than it may take."""
    connection.sendall(head("/v1/references?name=big", 990_000, tensors.MEDIA_TYPE) + b"\0" * 980_000)
    request = {"content": tensors.encode({"features": np.zeros((400, 30))}), "headers": TENSORS}
    until(lambda: held(limited) >= 970_000)
    refused = httpx.post(f"{limited.url}/v1/references?name=small", **request)
    assert refused.status_code == 503
    assert refused.headers["retry-after"] == "1"
    assert connection.recv(65536).startswith(b"HTTP/1.1 408")
    assert httpx.post(f"{limited.url}/v1/references?name=small", **request).status_code == 200
    until(lambda: held(limited) == 0)


def test_an_archive_that_needs_more_memory_than_there_is_is_refused(limited: Service):
    whole = httpx.get(f"{limited.url}/v1/experiments/x/export").content
    large = changed(whole, {}, {"unused": bytes(2**18)})
    answer = httpx.post(f"{limited.url}/v1/import", params={"name": "large"}, content=large)
    assert (answer.status_code, answer.json()["action"]) == (413, "fix")
    assert "memory" in answer.json()["detail"]
    assert httpx.get(f"{limited.url}/v1/experiments/large").status_code == 404


def test_experiments_and_generators_have_a_number(limited: Service):
    with httpx.Client(base_url=limited.url) as client:
        config = {**CONFIG, "name": "y", "generators": ["a", "b", "c", "d"]}
        assert "at most 3" in client.post("/v1/experiments", json=config).json()["detail"]
        for name in ("b", "c"):
            assert client.post("/v1/experiments/x/generators", json={"name": name}).status_code == 200
        assert client.post("/v1/experiments/x/generators", json={"name": "d"}).status_code == 422
        made = [client.post("/v1/experiments", json={**CONFIG, "name": f"e{n}"}).status_code for n in range(4)]
        assert made == [200, 200, 200, 422]
        # What is there can be opened all the same.
        assert client.post("/v1/experiments", json={**CONFIG, "name": "e0"}).status_code == 200


def test_picks_on_their_way_have_a_number(limited: Service):
    with httpx.Client(base_url=limited.url) as client:
        client.post("/v1/experiments", json={**CONFIG, "name": "e0"}).raise_for_status()
        first = client.post("/v1/experiments/e0/picks", json={"count": 3}).json()["picks"]
        rest = client.post("/v1/experiments/e0/picks", json={"count": 3}).json()
        assert (len(first), len(rest["picks"])) == (3, 2)
        none = client.post("/v1/experiments/e0/picks", json={}).json()
        assert none["picks"] == []
        assert none["retry_after"] > 0
        client.delete(f"/v1/experiments/e0/picks/{first[0]['number']}").raise_for_status()
        assert len(client.post("/v1/experiments/e0/picks", json={}).json()["picks"]) == 1


@pytest.mark.long
def test_each_key_has_a_rate_of_its_own(tmp_path: Path):
    with guarded(tmp_path, "--no-scoring", environment={"OPTIMIST_RATE_LIMIT": "0.5"}) as (service, first):
        second = new_key(tmp_path, "viewer")
        with client_of(service, first) as one, client_of(service, second) as other:
            assert one.get("/v1/session").status_code == 200
            refused = one.get("/v1/session")
            assert refused.status_code == 429
            assert 1 <= int(refused.headers["retry-after"]) <= 2
            assert refused.json()["action"] == "retry"
            assert other.get("/v1/session").status_code == 200
            assert one.get("/healthz").status_code == 200


def test_a_bucket_fills_at_its_rate():
    now = 0.0
    rates = Rates(10.0, lambda: now)
    for _ in range(20):
        rates.take("a")
    with pytest.raises(ApiError) as refused:
        rates.take("a")
    assert refused.value.headers == {"retry-after": "1"}
    rates.take("b")
    now = 0.55
    for _ in range(5):
        rates.take("a")
    with pytest.raises(ApiError):
        rates.take("a")


@pytest.mark.long
def test_a_client_that_does_not_read_is_cut_off(tmp_path: Path):
    """Of an export that is larger than all buffers on its way; others are answered meanwhile, and after."""
    with serving(tmp_path, "--no-scoring", environment={"OPTIMIST_ANSWER_TIMEOUT": "1"}) as service:
        with Optimist(service.url) as client:
            client.create_experiment("big", ["a"], metric="is", dimension=1000, keep_log=True)
        for _ in range(5):
            append_batch(service.url, "big", "a", {"probabilities": np.eye(1000)}).raise_for_status()
        with socket.socket() as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.settimeout(60)
            connection.connect(("127.0.0.1", service.port))
            connection.sendall(b"GET /v1/experiments/big/export HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n")
            # It is answered, as far as the service is concerned, when the connection is gone.
            answered = 'optimist_request_seconds_count{route="/v1/experiments/{name}/export"} 1.0'
            until(lambda: answered in httpx.get(f"{service.url}/metrics", timeout=30).text)
            received = read_to_end(connection)
        assert b"content-length: 40" in received
        assert len(received) < 30_000_000
