"""The scorer that `optimist serve` starts: killed, left behind, told to end, and what the service shows of it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import numpy as np
import pytest
from redis import Redis

from optimist.store import start_embedded
from optimist_client import Experiment, Optimist
from tests.support import warm
from tests.support.processes import Service, is_alive, scored, scraped, serving, until
from tests.support.profiles import is_full

REFERENCE = (np.zeros(4), np.eye(4))
TURNS = 2 if is_full() else 1


def status(service: Service) -> int:
    return httpx.get(f"{service.url}/readyz", timeout=60).status_code


def claims(url: str) -> dict[bytes, bytes]:
    with Redis.from_url(url) as redis:
        return redis.hgetall("optimist:{x}:claims")


def tell(experiment: Experiment, rounds: int) -> None:
    for _ in range(rounds):
        pick = experiment.ask()
        pick.tell(np.random.default_rng(pick.seed).standard_normal((pick.size, 4)))


@pytest.mark.long
def test_torch_is_the_scorers_alone_and_no_command_line_holds_the_url(tmp_path: Path):
    """As a user's shell starts it: no fork of `tests.support.warm`."""
    with serving(tmp_path, popen=subprocess.Popen) as service:
        until(lambda: scraped(service.url)("scorer_process_resident_memory_bytes") > 0)
        scorer = service.scorer_pid()
        assert scorer is not None
        assert "libtorch" not in Path(f"/proc/{service.process.pid}/maps").read_text()
        until(lambda: "libtorch" in Path(f"/proc/{scorer}/maps").read_text())
        assert b"redis" not in Path(f"/proc/{scorer}/cmdline").read_bytes()
        with Optimist(service.url) as client:
            experiment = client.create_experiment("x", ["a"], reference=REFERENCE)
            tell(experiment, 1)
            assert scored(experiment).standings[0].samples > 0


@pytest.mark.long
@pytest.mark.faults
def test_a_scorer_that_is_killed_is_started_again_and_nothing_is_lost(tmp_path: Path):
    """Meanwhile the service is not ready. In the end the scorer lets go of its generators."""
    with start_embedded(tmp_path / "redis") as redis, serving(tmp_path, f"--redis-url={redis.url}") as service:

        def made() -> float:
            return scraped(service.url)("optimist_scoring_seconds_count", metric="fid")

        assert status(service) == 200
        with Optimist(service.url, patience=60) as client:
            experiment = client.create_experiment("x", ["a", "b"], reference=REFERENCE, stop=False, max_wait=0.1)
            for turn in range(1, TURNS + 1):
                before = made()
                tell(experiment, 10)
                scored(experiment)
                until(lambda before=before: made() > before)  # it says what it has done once a second
                counted, killed = made(), service.scorer_pid()
                assert killed is not None
                os.kill(killed, signal.SIGKILL)
                # The next scorer is stopped as it starts, so that none gets to work meanwhile.
                until(lambda killed=killed: service.scorer_pid() not in (None, killed))
                following = service.scorer_pid()
                assert following is not None
                os.kill(following, signal.SIGSTOP)
                try:
                    until(lambda: status(service) == 503)
                    assert httpx.get(f"{service.url}/readyz", timeout=60).json()["type"].endswith("no-scorer")
                    assert httpx.get(f"{service.url}/healthz", timeout=60).status_code == 200
                finally:
                    os.kill(following, signal.SIGCONT)
                tell(experiment, 10)  # the service goes on meanwhile
                scored(experiment)
                until(lambda counted=counted: made() > counted)
                assert not is_alive(killed)
                assert scraped(service.url)("optimist_scorer_restarts_total") == turn
                said = f"the scorer (process {killed}) was killed by SIGKILL; starting it again"
                assert service.log().count(said) == 1
            rounds, samples = 20 * TURNS, 100 * TURNS
            until(lambda: scraped(service.url)("optimist_log_entries") == rounds)
            look = experiment.report()
            assert (look.rounds, look.open_picks, look.samples) == (rounds, 0, samples)
            assert sum(row.samples for row in look.standings) == samples
            assert all(row.score is not None for row in look.standings)
            assert scraped(service.url)("optimist_tells_total") == rounds
        until(lambda: status(service) == 200)
        assert claims(redis.url)
        check_orderly_end(service, redis.url)
        assert service.log().count("starting it again") == TURNS


def check_orderly_end(service: Service, redis_url: str) -> None:
    """The service is told to end: its scorer lets go of its generators."""
    scorer = service.scorer_pid()
    assert scorer is not None
    service.stop()
    assert service.process.returncode == 0
    assert not is_alive(scorer)
    assert claims(redis_url) == {}


@pytest.mark.long
@pytest.mark.faults
def test_it_ends_when_its_service_is_killed_as_it_starts(tmp_path: Path):
    """At work: in test_faults."""
    service = Service(tmp_path).start(wait=False)
    until(service.scorer_pid)
    scorer = service.scorer_pid()
    service.kill()
    assert scorer is not None
    until(lambda: not is_alive(scorer))


@pytest.mark.long
def test_it_is_told_to_end_as_it_starts(tmp_path: Path):
    with start_embedded(tmp_path / "redis") as redis:
        service = Service(tmp_path, f"--redis-url={redis.url}").start(wait=False)
        until(service.scorer_pid)
        scorer = service.scorer_pid()
        assert scorer is not None
        service.stop()
        # The scorer is begun before the service handles signals.
        assert service.process.returncode in (0, -signal.SIGTERM)
        until(lambda: not is_alive(scorer))
        assert claims(redis.url) == {}
        assert "starting it again" not in service.log()


@pytest.mark.long
def test_a_device_that_is_not_here_is_said_at_the_start(tmp_path: Path):
    """The other commands: tests/beside/test_settings.py."""
    done = warm.run("serve", "--device=cuda:99", "--port=0", f"--data-dir={tmp_path}")
    assert done.returncode == 1
    assert "device 'cuda:99' is not here" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.long
def test_a_service_whose_scorer_cannot_begin_says_so_and_ends(tmp_path: Path):
    """It listens before that: the scorer starts beside it."""
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text('raise ImportError("no torch here")')
    path = ":".join([str(tmp_path), *sys.path])
    service = Service(tmp_path / "data", environment={"PYTHONPATH": path}, popen=subprocess.Popen)
    service.start(wait=False)
    assert service.process.wait(60) == 1
    assert "no torch here" in service.log()
    assert service.log().rstrip().endswith("ended with exit code 1")
