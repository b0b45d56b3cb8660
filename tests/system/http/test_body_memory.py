"""What bodies take of the service's memory is what was reserved for them, whatever they unpack to."""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import numpy as np
import pytest

from optimist_client import Optimist, tensors
from tests.support.processes import Service, append_batch, scraped, serving, until

MIB = 2**20
MEMORY = 96 * MIB
SLACK = 24 * MIB
"""What the process may grow beside it: batches on their way to Redis, what malloc keeps, small requests."""
WIDTH = 200
LIMITS = {"OPTIMIST_MAX_MEMORY": str(MEMORY), "OPTIMIST_MAX_BODY": str(64 * MIB), "OPTIMIST_MAX_ROWS": "100000"}
pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def bounded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with serving(tmp_path_factory.mktemp("bounded"), "--no-scoring", environment=LIMITS) as service:
        with Optimist(service.url) as client:
            kernel = {"name": "gaussian", "sigma": 1.0}
            config = {"metric": "rke", "dimension": WIDTH, "kernel": kernel, "allow_extra": True}
            client.create_experiment("x", ["a"], **config)
            pick = client.experiment("x").ask()
            pick.tell(np.ones((2000, WIDTH)))  # what is made once
        yield service


def grown(service: Service, send: Callable[[], object]) -> int:
    """Bytes by which the service's memory grew at most while `send` ran."""
    status = Path(f"/proc/{service.process.pid}/status")

    def field(name: str) -> int:
        return next(int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith(name)) * 1024

    status.with_name("clear_refs").write_text("5")  # the peak begins anew
    before = field("VmRSS")
    send()
    return field("VmHWM") - before


def bfloat16(rows: int) -> bytes:
    size = 2 * rows * WIDTH
    entry = {"dtype": "BF16", "shape": [rows, WIDTH], "data_offsets": [0, size]}
    header = json.dumps({"features": entry}).encode()
    return struct.pack("<Q", len(header)) + header + bytes(size)


def zeros(rows: int, width: int, kind: str) -> np.ndarray:
    return np.zeros((rows, width), kind)


TYPE = tensors.MEDIA_TYPE
COVARIANCE = np.eye(1000) + 0.5
TELL = "/v1/experiments/x/generators/a/batches"
REFERENCE = "/v1/references?name="
# Each of them alone takes more than half of MEMORY, by what is reserved for it.
BODIES: dict[str, tuple[str, str, Callable[[], bytes]]] = {
    "float64": (TELL, TYPE, lambda: tensors.encode({"features": np.ones((12_000, WIDTH))})),
    "float16": (TELL, TYPE, lambda: tensors.encode({"features": zeros(50_000, WIDTH, "f2")})),
    "bfloat16": (TELL, TYPE, lambda: bfloat16(45_000)),
    "JSON": (TELL, "application/json", lambda: json.dumps({"features": [[0] * WIDTH] * 3300}).encode()),
    "JSON of lists": (TELL, "application/json", lambda: b'{"features":[' + b"[0]," * 500_000 + b"[0]]}"),
    "JSON of objects": (TELL, "application/json", lambda: b'{"features":[' + b'{"":0},' * 300_000 + b"{}]}"),
    "JSON elsewhere": ("/v1/experiments", "application/json", lambda: b'{"generators":[' + b"[]," * 700_000 + b"0]}"),
    "covariance": (REFERENCE, TYPE, lambda: tensors.encode({"mean": np.zeros(1000), "covariance": COVARIANCE})),
    "features": (REFERENCE, TYPE, lambda: tensors.encode({"features": zeros(100_000, 20, "f2")})),
}


@pytest.mark.parametrize("kind", BODIES)
def test_bodies_take_no_more_memory_than_is_reserved(bounded: Service, kind: str):
    path, media_type, make = BODIES[kind]
    path += kind.replace(" ", "-") if path == REFERENCE else ""
    body = make()

    def send(number: int) -> int:
        headers = {"content-type": media_type, "idempotency-key": f"{kind} {number}"}
        return httpx.post(bounded.url + path, content=body, headers=headers, timeout=120).status_code

    answers = []
    with ThreadPoolExecutor(6) as threads:
        growth = grown(bounded, lambda: answers.extend(threads.map(send, range(6))))
    assert set(answers) <= {200, 422, 503}
    assert set(answers) & {200, 422}
    assert growth <= MEMORY + SLACK, f"{growth / MIB:.0f} MiB"


def test_a_batch_that_cannot_be_taken_is_not_decoded(bounded: Service):
    """Of a pick that never was, or of another width; the repeat of one that was told is known by its numbers."""
    with httpx.Client(base_url=bounded.url, timeout=120, headers={"content-type": tensors.MEDIA_TYPE}) as http:
        (pick,) = http.post("/v1/experiments/x/picks", headers={"content-type": "application/json"}).json()["picks"]
        sound = tensors.encode({"features": zeros(60_000, WIDTH, "f2")})
        wide = tensors.encode({"features": zeros(60_000, WIDTH + 1, "f2")})
        path = "/v1/experiments/x/picks/{}/batch"
        answers, nonce = [], {"nonce": pick["nonce"]}

        def send() -> None:
            answers.append(http.post(path.format(99), params=nonce, content=sound))
            answers.append(http.post(path.format(pick["number"]), params=nonce, content=wide))

        # Two copies while it is read; decoded it would be a third one.
        assert grown(bounded, send) < 2.5 * len(wide)
        assert [answer.status_code for answer in answers] == [410, 422]
        assert "no pick 99 was given" in answers[0].json()["detail"]
        assert f"expected shape (n, {WIDTH}), got (60000, {WIDTH + 1})" in answers[1].json()["detail"]
        again = [http.post(path.format(pick["number"]), params=nonce, content=sound).json() for _ in range(2)]
        assert [answer["duplicate"] for answer in again] == [False, True]
        other = tensors.encode({"features": zeros(60_001, WIDTH, "f2")})
        assert http.post(path.format(pick["number"]), params=nonce, content=other).status_code == 409


@pytest.mark.parametrize("kind", ["application/x-npz", "application/octet-stream", ""])
def test_other_types_of_bodies_are_refused_by_those_that_are_taken(bounded: Service, kind: str):
    headers = {"content-type": kind, "idempotency-key": "k"}
    refused = httpx.post(bounded.url + TELL, content=b"PK\x03\x04", headers=headers)
    expected = f"expected application/x-safetensors or application/json, got {kind!r}"
    assert (refused.status_code, refused.json()["detail"]) == (415, expected)


def test_a_page_of_records_takes_twice_its_batch_and_counts_until_it_is_read(bounded: Service):
    rows = 24 * MIB // 8192
    records = np.full((rows, 8192), ord("x"), np.uint8)
    records[:, 0] = records[:, -1] = ord('"')
    records[:, 1:5] = list("😀".encode())
    with Optimist(bounded.url) as client:
        client.create_experiment("recorded", ["a"], metric="mean", stop=False, keep_log=True)
    append_batch(bounded.url, "recorded", "a", {"values": np.ones((rows, 1)), "records": records}).raise_for_status()
    path = "/v1/experiments/recorded/generators/a/records"
    pages: list[httpx.Response] = []
    growth = grown(bounded, lambda: pages.append(httpx.get(bounded.url + path, timeout=60).raise_for_status()))
    assert pages[0].links
    assert growth <= 2 * 24 * MIB + SLACK, f"{growth / MIB:.0f} MiB"
    with socket.socket() as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.connect(("127.0.0.1", bounded.port))
        slow.sendall(f"GET {path} HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n".encode())
        assert slow.recv(12) == b"HTTP/1.1 200"
        held = scraped(bounded.url)("optimist_body_bytes")
        assert 8 * MIB <= held < 10 * MIB
    until(lambda: scraped(bounded.url)("optimist_body_bytes") == 0)
