"""`optimist serve --workers 2`: what holds for both processes together, and what each of them has to itself."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import socket
from pathlib import Path

import httpx
import numpy as np
import pytest

from optimist_client import Optimist, tensors
from tests.support.begun import begun, held
from tests.support.keys import bearer, guarded, new_key
from tests.support.processes import Service, is_alive, serving, until

CONFIG = {"generators": ["a"], "metric": {"name": "is", "dimension": 3}}
CONNECTIONS = 16
"""New connections of which the kernel gives each process at least one, but for once in 30,000 times."""
BODY = tensors.encode({"probabilities": np.full((25_000, 3), 1 / 3, np.float32)})
LARGE = 2_500_000
PATH = "/v1/experiments/x/generators/a/batches"


def all_up(service: Service) -> None:
    """Wait until every process takes connections: the first one does so by itself."""
    until(lambda: "2 API processes" in service.log())


def ready(service: Service) -> set[int]:
    """What `/readyz` answers on many connections."""
    return {httpx.get(f"{service.url}/readyz", timeout=60).status_code for _ in range(CONNECTIONS)}


def is_unready_without(service: Service, scorer: int | None) -> bool:
    """Whether no process was ready while the service knew of no scorer; False if another one was faster."""
    assert service.process is not None
    if scorer is None:
        return False
    os.kill(scorer, signal.SIGKILL)
    until(lambda: 503 in ready(service))
    service.process.send_signal(signal.SIGSTOP)  # so that no other scorer is heard of
    try:
        seen = ready(service)
        assert httpx.get(f"{service.url}/healthz").status_code == 200
    finally:
        service.process.send_signal(signal.SIGCONT)
    assert seen in ({200}, {503})
    return seen == {503}


@pytest.mark.long
@pytest.mark.faults
def test_a_signal_that_any_of_its_threads_takes_ends_the_service(tmp_path: Path):
    """The kernel chooses the thread, and not always the first one: after SIGCONT, for example."""
    with serving(tmp_path, "--workers=2", "--no-scoring") as service:
        all_up(service)
        assert service.process is not None
        pid = service.process.pid
        other = next(thread for thread in map(int, os.listdir(f"/proc/{pid}/task")) if thread != pid)
        assert ctypes.CDLL(None).tgkill(pid, other, signal.SIGTERM) == 0
        assert service.process.wait(60) == 0


@pytest.mark.long
@pytest.mark.faults
def test_none_is_ready_without_the_scorer_and_all_end_when_the_service_is_killed(tmp_path: Path):
    with serving(tmp_path, "--workers=2") as service:
        all_up(service)
        assert ready(service) == {200}
        until(lambda: is_unready_without(service, service.scorer_pid()))
        until(lambda: ready(service) == {200})
        children = [*service.api_pids(), service.scorer_pid(), service.redis_pid()]
        assert len(children) == 4
        service.kill()
        until(lambda: not any(is_alive(pid) for pid in children if pid is not None))


@pytest.mark.long
@pytest.mark.faults
def test_they_share_the_memory_for_bodies_and_answer_what_they_have_begun(tmp_path: Path):
    with serving(tmp_path, "--workers=2", "--no-scoring", environment={"OPTIMIST_MAX_MEMORY": "3000000"}) as service:
        all_up(service)
        with Optimist(service.url) as client:
            client.create_experiment("x", **CONFIG)

        # What one holds leaves none for the others, until it is killed.
        with begun(service, PATH, LARGE, bytes(LARGE - 8), key="lost"):
            until(lambda: held(service) == LARGE - 8)
            for number in range(CONNECTIONS):
                with begun(service, PATH, LARGE, key=f"refused-{number}") as refused:
                    assert refused.recv(65536).startswith(b"HTTP/1.1 503")
            for pid in service.api_pids():
                os.kill(pid, signal.SIGKILL)
            until(lambda: held(service) == 0)

        several = [begun(service, PATH, len(BODY), BODY[:-8], key=f"begun-{number}") for number in range(3)]
        until(lambda: held(service) == 3 * (len(BODY) - 8))
        service.process.send_signal(signal.SIGTERM)
        until(lambda: not service.accepts())
        for connection in several:
            connection.sendall(BODY[-8:])
            assert connection.recv(65536).startswith(b"HTTP/1.1 200")
            connection.close()
        assert service.process.wait(30) == 0
        assert "Traceback" not in service.log()

        service.start()
        with Optimist(service.url) as client:
            assert client.experiment("x").report().samples == 3 * 25_000


@pytest.mark.long
def test_each_has_the_rate_of_a_key_and_together_they_have_its_open_picks(tmp_path: Path):
    # One request in each process, and the next after a thousand seconds.
    limits = {"OPTIMIST_RATE_LIMIT": "0.001", "OPTIMIST_MAX_KEY_PICKS": "3"}
    with guarded(tmp_path, "--workers=2", "--no-scoring", environment=limits) as (service, admin):
        all_up(service)
        created = httpx.post(
            f"{service.url}/v1/experiments", json={"name": "x", **CONFIG}, headers=bearer(admin), timeout=60
        )
        assert created.status_code == 200, created.text
        worker = bearer(new_key(tmp_path, "worker"))
        answers = [
            httpx.post(f"{service.url}/v1/experiments/x/picks", json={"count": 2}, headers=worker, timeout=60)
            for _ in range(2 * CONNECTIONS)
        ]
        answered = [answer.json()["picks"] for answer in answers if answer.status_code == 200]
        assert [answer.status_code for answer in answers].count(429) == 2 * CONNECTIONS - 2
        assert [len(picks) for picks in answered] == [2, 1]


@pytest.mark.long
def test_each_grants_its_part_of_the_memory_of_a_key(tmp_path: Path):
    limits = {"OPTIMIST_MAX_MEMORY": "3000000", "OPTIMIST_MEMORY_SHARE": "0.3"}
    with guarded(tmp_path, "--workers=2", "--no-scoring", environment=limits) as (service, admin):
        all_up(service)
        httpx.post(f"{service.url}/v1/experiments", json={"name": "x", **CONFIG}, headers=bearer(admin), timeout=60)
        # One in each process: 600 kB are two thirds of the key's memory, but more than half of it in one process.
        several: list[socket.socket] = []

        def both() -> bool:
            """Begin another body; whether each process holds one. A busy process may take no connection for a while."""
            several.append(begun(service, PATH, len(BODY), access=admin, key=f"{len(several)}"))
            with contextlib.suppress(ConnectionError):
                several[-1].sendall(BODY[:-8])
            return held(service, admin) == 2 * (len(BODY) - 8)

        until(both)
        ready(service)  # by now all others are refused
        answers = []
        for connection in several:
            with connection, contextlib.suppress(ConnectionError):
                connection.sendall(BODY[-8:])
                answers.append(connection.recv(65536)[9:12])
        assert answers.count(b"200") == 2
        assert set(answers) <= {b"200", b"503"}
