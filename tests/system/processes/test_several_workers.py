"""`optimist serve --workers 2`: both answer and count together, one stands in for the other, they end in order."""

from __future__ import annotations

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import httpx
import numpy as np
import pytest

from optimist_client import Optimist, tensors
from tests.support.processes import Service, batch_path, is_alive, scraped, serving, until

REFERENCE = (np.zeros(4), np.eye(4))
ROUNDS = 12


def rounds(service: Service, count: int) -> None:
    """Each round on a connection of its own, told twice: the second tell is a repeat, whichever process it reaches."""
    for _ in range(count):
        with Optimist(service.url, patience=60) as client:
            pick = client.experiment("x").ask()
        body = tensors.encode({"features": np.random.default_rng(pick.seed).standard_normal((pick.size, 4))})
        answers = [
            httpx.post(service.url + batch_path(pick), content=body, headers={"content-type": tensors.MEDIA_TYPE})
            for _ in range(2)
        ]
        assert [answer.status_code for answer in answers] == [200, 200]


def by_process(service: Service) -> dict[str, float]:
    """The processor time of each API process, by its name."""
    text = httpx.get(f"{service.url}/metrics", timeout=60).text
    lines = [line for line in text.splitlines() if line.startswith("process_cpu_seconds_total{")]
    return {line.split('"')[1]: float(line.rpartition(" ")[2]) for line in lines}


@pytest.mark.long
@pytest.mark.faults
def test_two_api_processes_are_one_service(tmp_path: Path):
    with serving(tmp_path, "--workers=2") as service:
        assert service.process is not None
        first = service.api_pids()
        assert len(first) == 2
        with Optimist(service.url) as client:
            client.create_experiment("x", ["a", "b"], reference=REFERENCE, stop=False, max_wait=0.1)
        rounds(service, ROUNDS)
        total = scraped(service.url)
        assert total("optimist_tells_total") == total("optimist_tells_duplicate_total") == ROUNDS
        assert list(by_process(service)) == ["api-1", "api-2"]
        until(lambda: scraped(service.url)("optimist_scoring_seconds_count", metric="fid") > 0)

        os.kill(first[0], signal.SIGKILL)
        rounds(service, ROUNDS)
        until(lambda: len(service.api_pids()) == 2)
        assert first[1] in service.api_pids()
        total = scraped(service.url)
        assert total("optimist_tells_total") == total("optimist_tells_duplicate_total") == 2 * ROUNDS
        assert total("optimist_api_restarts_total") == 1
        with Optimist(service.url, patience=60) as client:
            assert client.experiment("x").report().rounds == 2 * ROUNDS

        children = [*service.api_pids(), service.scorer_pid(), service.redis_pid()]
        service.stop()
        assert service.process.returncode == 0
        assert not any(is_alive(pid) for pid in children if pid is not None)
        assert "Traceback" not in service.log()
        assert service.log().count("starting it again") == 1


def connect(service: Service, count: int = 64) -> list[int]:
    """The statuses of requests at the same moment, each on a new connection. Raises one that has no answer in 30 s."""
    with ThreadPoolExecutor(count) as pool:
        return [*pool.map(lambda _: httpx.get(f"{service.url}/v1/experiments", timeout=30).status_code, range(count))]


@pytest.mark.long
@pytest.mark.faults
def test_new_connections_are_answered_while_a_process_is_stopped_dead_or_starting(tmp_path: Path):
    with serving(tmp_path, "--workers=2", "--no-scoring") as service, ExitStack() as resumed:
        assert service.process is not None

        def stop(pid: int) -> None:
            os.kill(pid, signal.SIGSTOP)
            resumed.callback(os.kill, pid, signal.SIGCONT)

        answered = [200] * 64
        first, second = service.api_pids()
        os.kill(first, signal.SIGSTOP)
        assert connect(service) == answered
        # No successor is started meanwhile: the parent is stopped, which has the socket open.
        stop(service.process.pid)
        os.kill(first, signal.SIGKILL)
        assert connect(service) == answered
        os.kill(service.process.pid, signal.SIGCONT)
        until(lambda: len(service.api_pids()) == 2)
        (starting,) = {*service.api_pids()} - {second}
        stop(starting)
        assert connect(service) == answered


@pytest.mark.long
def test_a_second_service_cannot_share_the_port(tmp_path: Path, not_scoring: Service):
    for host in ("127.0.0.1", "localhost"):
        refused = Service(tmp_path, "--workers=2", f"--host={host}", port=not_scoring.port).start(wait=False)
        assert refused.process.wait(60) == 1
    assert "Address already in use" in refused.log()
