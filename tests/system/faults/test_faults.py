"""Processes killed in the middle of a run: every acknowledged batch is there afterwards, and the run goes on."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from redis import Redis

from optimist import Evaluation
from optimist.store import running_url
from optimist.store.store import FORMAT
from optimist_client import Experiment, Optimist
from optimist_client.models import Report
from tests.support import warm
from tests.support.commands import invoked
from tests.support.processes import Service, append_batch, is_alive, scored, serving, until
from tests.support.profiles import is_full

pytestmark = pytest.mark.faults

FULL = is_full()
HEALED = "was killed by SIGKILL; starting it again"


class Worker(threading.Thread):
    """A loop that remembers what was acknowledged: pick numbers and samples by generator."""

    def __init__(self, url: str, experiment: str) -> None:
        super().__init__(daemon=True)
        self.url = url
        self.experiment = experiment
        self.acknowledged: dict[int, int] = {}
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            with Optimist(self.url, timeout=10, patience=60) as client:
                for pick in client.experiment(self.experiment).picks():
                    reply = pick.tell(np.random.default_rng(pick.seed).standard_normal((pick.size, 4)))
                    assert reply.pick not in self.acknowledged
                    self.acknowledged[reply.pick] = pick.size
        except BaseException as error:
            self.error = error


def check_run(experiment: Experiment, workers: list[Worker]) -> None:
    """The workers go on by themselves to the end; every acknowledged batch counts once, and the budget is reached."""
    for worker in workers:
        worker.join(120)
        assert not worker.is_alive()
        assert worker.error is None
    scored(experiment)
    report = experiment.report()
    acknowledged = {**workers[0].acknowledged, **workers[1].acknowledged}
    assert len(acknowledged) == sum(len(worker.acknowledged) for worker in workers)
    assert sum(acknowledged.values()) == report.samples == 1_500
    assert len(acknowledged) == report.rounds
    assert report.open_picks == 0


def start_run(client: Optimist, url: str) -> tuple[Experiment, list[Worker]]:
    """An experiment of 300 rounds, and two workers on it."""
    experiment = client.create_experiment(
        "run", ["a", "b", "c"], reference=(np.zeros(4), np.eye(4)), budget=1_500, stop=False
    )
    workers = [Worker(url, "run") for _ in range(2)]
    for worker in workers:
        worker.start()
    return experiment, workers


class Appended:
    """An experiment of batches without picks, beside the same batches in memory."""

    def __init__(self, client: Optimist) -> None:
        reference = (np.zeros(4), np.eye(4))
        self._evaluation = Evaluation(["a", "b"], reference=reference)
        self._experiment = client.create_experiment("appended", ["a", "b"], reference=reference)
        self._rng = np.random.default_rng(3)

    def append(self, url: str) -> None:
        """Twelve batches; the estimates come to what they are in memory."""
        for number in range(12):
            generator, batch = "ab"[number % 2], self._rng.standard_normal((400, 4))
            append_batch(url, "appended", generator, {"features": batch}).raise_for_status()
            self._evaluation.tell(generator, batch)
        scored(self)
        standings = {row.generator: row for row in self.report().standings}
        for generator, estimate in self._evaluation.estimates().items():
            assert estimate is not None
            assert standings[generator].score == pytest.approx(estimate.score, rel=1e-9)
            # In memory indices are known, and what differences by them lack is said, too.
            assert set(standings[generator].warnings) <= set(estimate.warnings)

    def report(self) -> Report:
        return self._experiment.report()


@pytest.mark.long
def test_kills_in_the_middle_of_a_run_lose_nothing(tmp_path: Path):
    """Of Redis, which the service starts again, twice; of the service, with which its processes end; of both.

    What else is there goes on from its snapshots to the same report.
    """
    service = Service(tmp_path).start()
    blows = (("redis",), ("redis",), ("service",), ("redis", "service"))[: 4 if FULL else 3]
    try:
        with Optimist(service.url, patience=60) as client:
            appended = Appended(client)
            appended.append(service.url)
            before = appended.report()
            experiment, workers = start_run(client, service.url)
            for number, killed in enumerate(blows, start=1):
                until(lambda goal=60 * number: sum(len(worker.acknowledged) for worker in workers) > goal)
                redis, scorer = service.redis_pid(), service.scorer_pid()
                if "redis" in killed:
                    os.kill(redis, signal.SIGKILL)
                if "service" in killed:
                    service.kill()
                    assert scorer is not None
                    until(lambda ended=(redis, scorer): not any(map(is_alive, ended)))
                    service.start(wait=False)  # at once, on the same directory and port
                    service.wait_until_ready()
                else:
                    until(lambda times=number: service.log().count(HEALED) == times)
                assert not is_alive(redis)
            check_run(experiment, workers)
            assert appended.report() == before
            appended.append(service.url)
    finally:
        service.stop()


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """SIGTERM lets its Redis finish: the lock is left empty, and no socket directory behind."""
    directory = tmp_path_factory.mktemp("first")
    with serving(directory, "--no-scoring") as service:
        runtime = Path(json.loads((directory / "lock").read_text())["runtime"])
        assert runtime.exists()
        yield service
    assert service.process is not None
    assert service.process.returncode == 0
    assert (directory / "lock").read_bytes() == b""
    assert not runtime.exists()


@pytest.mark.long
def test_two_services_never_share_a_directory(first: Service):
    assert first.process is not None
    second = Service(first.directory, "--no-scoring").start(wait=False)
    assert second.process is not None
    assert second.process.wait(60) == 1
    assert f"in use by process {first.process.pid}" in second.log()
    with Optimist(first.url, patience=5) as client:
        assert client.experiments() == []


@pytest.mark.long
def test_the_format_is_marked_again_after_all_was_removed(first: Service):
    """Everything in Redis is removed under a running service: what is written next has its format marked again."""
    url = running_url(first.directory)
    assert url is not None
    with Redis.from_url(url) as redis:
        assert redis.get("optimist:format") == b"%d" % FORMAT
        redis.flushall()
        until(lambda: redis.get("optimist:format") == b"%d" % FORMAT, 20)


def test_a_directory_that_cannot_be_used_is_said_plainly():
    done = warm.run("serve", "--port=0", "--data-dir=/dev/null/x")
    assert done.returncode in (1, 2)
    assert "cannot be used for data" in done.stderr
    assert "Traceback" not in done.stderr


def test_options_that_cannot_be_right_are_said_plainly():
    done = invoked("serve", "--port=99999")
    assert done.exit_code in (1, 2)
    assert "65,535" in done.stderr
    assert isinstance(done.exception, SystemExit), "no traceback"
