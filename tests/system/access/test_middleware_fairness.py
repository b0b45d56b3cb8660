"""What one caller does in the middleware keeps no other out, and lets nobody in who should not be."""

from __future__ import annotations

import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from optimist.api.middleware.access import COOKIE
from optimist.api.problems import ApiError
from optimist.api.references import checked
from optimist.references.real_data import BLOCK, NEGATIVE
from optimist_client import tensors
from tests.support.begun import begun, held
from tests.support.configs import on_wire
from tests.support.keys import bearer, client_of, guarded, new_key, optimist_keys
from tests.support.processes import TENSORS, Service, until

LIMITS = {
    "OPTIMIST_MAX_MEMORY": "8000000",
    "OPTIMIST_MAX_DIMENSION": "50",
    # Nothing here waits for a body that has stopped.
    "OPTIMIST_BODY_TIMEOUT": "300",
}
CONFIG: dict[str, Any] = {"generators": ["a"], "metric": {"name": "is", "dimension": 10}, "allow_extra": True}
KERNEL = {"name": "gaussian", "sigma": 1.0}


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("middleware")


@pytest.fixture(scope="module")
def locked(directory: Path) -> Iterator[tuple[Service, str]]:
    with guarded(directory, "--no-scoring", environment=LIMITS) as (service, key):
        with client_of(service, key) as http:
            http.post("/v1/experiments", json={"name": "x", **CONFIG}).raise_for_status()
        yield service, key


def batch(rows: int) -> bytes:
    return tensors.encode({"probabilities": np.full((rows, 10), 0.1)})


def told(http: httpx.Client, rows: int) -> int:
    """What a tell of so many rows, of 80 bytes, is answered."""
    (pick,) = http.post("/v1/experiments/x/picks", json={}).json()["picks"]
    return http.post(
        f"/v1/experiments/x/picks/{pick['number']}/batch?nonce={pick['nonce']}", content=batch(rows), headers=TENSORS
    ).status_code


@pytest.mark.long
def test_a_key_that_is_revoked_while_a_body_comes_is_good_for_nothing(locked: tuple[Service, str], directory: Path):
    """Whatever the route reads it with; one that is still good may take as long."""
    service, key = locked
    revoked = new_key(directory, "admin")
    paths = ["/v1/experiments/x/generators/a/batches", "/v1/references?name=late", "/v1/import"]
    paths.append("/v1/experiments/x/picks/1/batch?nonce=aa")
    body = batch(5)
    with ExitStack() as stack:
        slow = [stack.enter_context(begun(service, path, len(body), body[:-8], access=revoked)) for path in paths]
        slow.append(stack.enter_context(begun(service, paths[0], len(body), body[:-8], access=key)))
        assert optimist_keys("revoke", revoked.split("_")[1], "--data-dir", str(directory)).exit_code == 0
        until(lambda: httpx.get(f"{service.url}/v1/session", headers=bearer(revoked)).status_code == 401)
        for connection in slow:
            connection.sendall(body[-8:])
        *answers, good = [connection.recv(65536) for connection in slow]
        for answer in answers:
            assert answer.startswith(b"HTTP/1.1 401"), answer
            assert b"www-authenticate: Bearer" in answer
        assert good.startswith(b"HTTP/1.1 200"), good


def test_what_a_body_announces_is_reserved_of_its_keys_memory_alone(locked: tuple[Service, str], directory: Path):
    """Of two large bodies with one key the second is refused before it is received, while the first is not answered."""
    service, admin = locked
    body, path = batch(15_000), "/v1/experiments/x/generators/a/batches"
    with client_of(service, admin) as client, ExitStack() as open_ones:

        def begin(number: int, key: str = admin) -> socket.socket:
            """A connection on which a body is announced, and nothing of it has come."""
            return open_ones.enter_context(begun(service, path, len(body), access=key, key=f"{number}"))

        def end(connection: socket.socket) -> bytes:
            connection.sendall(body)
            return connection.recv(65536)[9:12]

        first = begin(1)
        client.get("/v1/session")  # by now it has been read
        refused = begin(2).makefile("rb")
        assert refused.readline()[9:12] == b"503"
        assert any(b"other requests with this key use its share" in line for line in refused)
        assert client.post(path, content=batch(3), headers={**TENSORS, "idempotency-key": "small"}).status_code == 200
        assert end(begin(3, new_key(directory, "admin"))) == b"200"
        assert end(first) == b"200"
        assert end(begin(4)) == b"200"


@pytest.mark.parametrize(
    "others",
    ["a[]=1; {}", "{}; =; odd", 'x="; {}', "b@d:name=1; {}", f"{COOKIE}=of-another; {{}}", f'{COOKIE}="; {{}}'],
)
def test_odd_cookies_of_the_host_sign_nobody_out(locked: tuple[Service, str], others: str):
    service, key = locked
    cookie = others.format(f"{COOKIE}={key}")
    assert httpx.get(f"{service.url}/v1/session", headers={"cookie": cookie}).status_code == 200
    assert httpx.get(f"{service.url}/v1/session", headers={"cookie": others.format("y=z")}).status_code == 401


def test_experiments_have_a_width(locked: tuple[Service, str], not_scoring: Service):
    """Those that are made, by their features, prompts or classes, and those that are imported."""
    service, key = locked
    pairs = {"generators": ["a"], "metric": "conditional-vendi", "kernel": KERNEL, "prompt_kernel": KERNEL}
    pairs["prompts"] = ["a cat"]
    with client_of(service, key) as http:
        for wide in (
            {**CONFIG, "metric": {"name": "is", "dimension": 51}},
            {"generators": ["a"], "metric": "vendi", "kernel": KERNEL, "dimension": 51},
            {**pairs, "dimension": 5, "prompt_dimension": 51},
        ):
            refused = http.post("/v1/experiments", json=on_wire(name="wide", **wide))
            assert refused.status_code == 422, refused.text
            assert "expected at most 50 columns, got 51" in refused.json()["detail"]
        assert http.post(
            "/v1/experiments", json=on_wire(name="fits", **pairs, dimension=5, prompt_dimension=50)
        ).is_success
        with httpx.Client(base_url=not_scoring.url) as other:
            wide = {"name": "wide", **CONFIG, "metric": {"name": "is", "dimension": 51}}
            other.post("/v1/experiments", json=wide).raise_for_status()
            archive = other.get("/v1/experiments/wide/export").content
        refused = http.post("/v1/import", content=archive, headers={"content-type": "application/zip"})
        assert refused.status_code == 422
        assert "expected at most 50 columns, got 51" in refused.json()["detail"]


@pytest.mark.long
def test_references_of_clients_that_left_are_not_computed(not_scoring: Service):
    """They wait for their turn behind a long one; a batch that is checked in a thread waits for none of them."""
    service = not_scoring
    with httpx.Client(base_url=service.url, timeout=60) as http:
        http.post("/v1/experiments", json={"name": "x", **CONFIG}).raise_for_status()
        rows = 15_000
        long = tensors.encode({"features": np.zeros((rows, 1000), np.float16)})
        short = tensors.encode({"mean": np.zeros(300), "covariance": np.eye(300)})
        with begun(service, "/v1/references?name=long", len(long), long) as first, ExitStack() as rest:
            alone = 16 * rows * 1000  # its features as float64, twice, and the rest
            until(lambda: held(service) > alone)
            alone = held(service)
            for n in range(4):
                rest.enter_context(begun(service, f"/v1/references?name=short-{n}", len(short), short))
            until(lambda: held(service) > alone + 4 * len(short))
            assert told(http, 20_000) == 200
            rest.close()
            until(lambda: held(service) <= alone)
            assert first.recv(65536).startswith(b"HTTP/1.1 200")
        listed = http.get("/v1/references").json()["references"]
        (stored,) = (one for one in listed if one["name"].startswith(("long", "short-")))
        assert (stored["name"], stored["samples"]) == ("long", rows)
        assert "Traceback" not in service.log()
        http.delete("/v1/experiments/x").raise_for_status()


@pytest.mark.parametrize("negative", [0.0, 0.9e-5, 1.1e-5])
def test_a_covariance_may_be_negative_by_what_rounding_does(negative: float):
    """To 1e-5 of its largest entry; this one is larger than two blocks, and its least eigenvalue is in none of them."""
    d = 2 * BLOCK + 3
    odd = np.full((d, 1), d**-0.5)
    covariance = np.eye(d) - odd @ odd.T
    covariance -= negative * np.abs(covariance).max() * odd @ odd.T
    arrays = {"mean": np.zeros(d), "covariance": covariance}
    if negative > NEGATIVE:
        with pytest.raises(ApiError, match="no negative eigenvalue, found one below"):
            checked(arrays, d, None)
    else:
        assert len(checked(arrays, d, None).mean) == d


FINE = (200, 204, 404, 409, 410)


@pytest.mark.long
def test_clients_that_leave_and_experiments_that_go_leave_no_traceback(not_scoring: Service):
    """Bodies cut in the middle on every kind of route, and all that is asked of an experiment while it is deleted."""
    body = batch(5)
    answers: Counter[tuple[str, int]] = Counter()
    done = threading.Event()
    with httpx.Client(base_url=not_scoring.url, timeout=60) as http:
        config = {"name": "x", **CONFIG, "max_wait": 0.2}

        def work(client: httpx.Client) -> None:
            asked = client.post("/v1/experiments/x/picks", json={"worker": f"{threading.get_ident()}"})
            named = [(pick["number"], pick["nonce"]) for pick in asked.json().get("picks", [])]
            replies = {"ask": asked}
            for number, nonce in named or [(1, "aa")]:
                path = f"/v1/experiments/x/picks/{number}"
                replies["tell"] = client.post(f"{path}/batch?next=true&nonce={nonce}", content=body, headers=TENSORS)
                replies["give up"] = client.delete(path)
            replies["report"] = client.get("/v1/experiments/x/report")
            replies["charts"] = client.get("/v1/experiments/x/report?after=0")
            replies["list"] = client.get("/v1/experiments")
            answers.update((what, reply.status_code) for what, reply in replies.items())

        def workers() -> None:
            with httpx.Client(base_url=not_scoring.url, timeout=60) as client:
                while not done.is_set():
                    work(client)

        threads = [threading.Thread(target=workers) for _ in range(3)]
        for thread in threads:
            thread.start()
        paths = ("picks/1/batch", "generators/a/batches", "picks")
        for turn in range(15):
            http.post("/v1/experiments", json=config).raise_for_status()
            for path in (*(f"/v1/experiments/x/{path}" for path in paths), "/v1/references?name=r", "/v1/import"):
                begun(not_scoring, path, 1000, b"cut").close()
            if turn % 2:
                time.sleep(0.02)
            http.delete("/v1/experiments/x").raise_for_status()
        done.set()
        for thread in threads:
            thread.join()
        assert {status for what, status in answers if what == "list"} == {200}
        # Charts are read in several steps, between which the experiment may have been made again: then 503, ask again.
        assert answers.keys() - {("charts", 503)} <= {(what, status) for what, _ in answers for status in FINE}
        assert len({what for what, _ in answers}) == 6
        assert "Traceback" not in not_scoring.log()
