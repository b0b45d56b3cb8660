"""The service on a Redis that is started again from an older file: real processes, through HTTP."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import numpy as np
import pytest
from redis import Redis
from redis import exceptions as redis_errors

from optimist import Evaluation
from optimist.store.redis_program import find_program
from optimist_client import Optimist, StopError
from tests.support.processes import Service, batch_path, scored, until

REFERENCE = (np.zeros(4), np.eye(4))


class OldRedis:
    """A redis-server that can be started again from its file as it was when `keep` was called."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.socket = directory / "redis.sock"
        self.url = f"unix://{self.socket}"
        self._command = [
            *(find_program().path, "--port", "0", "--unixsocket", str(self.socket), "--dir", str(directory)),
            *("--appendonly", "yes", "--appendfsync", "always", "--save", "", "--aof-use-rdb-preamble", "no"),
        ]
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(self._command, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
        until(self._answers, 20)

    def keep(self) -> None:
        shutil.rmtree(self.directory / "kept", ignore_errors=True)
        kept = [path for path in self.directory.iterdir() if path.name.startswith("appendonly")]
        (self.directory / "kept").mkdir()
        for path in kept:
            copy = shutil.copytree if path.is_dir() else shutil.copy
            copy(path, self.directory / "kept" / path.name)

    def go_back(self) -> None:
        self.stop()
        for path in (self.directory / "kept").iterdir():
            there = self.directory / path.name
            shutil.rmtree(there) if there.is_dir() else there.unlink()
            copy = shutil.copytree if path.is_dir() else shutil.copy
            copy(path, there)
        self.start()

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()
        self.socket.unlink(missing_ok=True)

    def _answers(self) -> bool:
        try:
            with Redis(unix_socket_path=str(self.socket)) as redis:
                return bool(redis.ping())
        except redis_errors.RedisError:
            return False


@pytest.fixture(scope="module")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OldRedis]:
    running = OldRedis(tmp_path_factory.mktemp("redis"))
    yield running
    running.stop()


@pytest.fixture(scope="module")
def service(redis: OldRedis, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    running = Service(tmp_path_factory.mktemp("service"), f"--redis-url={redis.url}").start()
    yield running
    running.stop()


LOST, BACK = "WARNING: Redis does not answer: ", "INFO: Redis answers again, after "


@pytest.mark.long
def test_api_and_scorer_log_the_loss_of_redis_and_its_return_once(service: Service, redis: OldRedis):
    """The first here: a later test's loss may be noticed by both of them, by one or by none."""
    redis.stop()
    until(lambda: service.log().count(LOST) == 2)
    redis.start()
    until(lambda: service.log().count(BACK) == 2)
    assert service.log().count("Redis does not answer") == 2


def test_samples_of_one_generator_are_never_counted_for_another(service: Service, redis: OldRedis):
    with Optimist(service.url) as client:
        experiment = client.create_experiment("mixed", ["a", "b"], reference=REFERENCE, policy="uniform")
        redis.keep()
        lost = experiment.ask(worker="first", generators=["a"])
        assert lost is not None
        redis.go_back()
        standing = experiment.ask(worker="second", generators=["b"])
        assert standing is not None
        assert (standing.number, standing.generator) == (lost.number, "b")
        assert standing.info.nonce != lost.info.nonce
        with pytest.raises(StopError, match="lost"):
            lost.tell(np.ones((5, 4)))
        unnamed = httpx.post(service.url + batch_path(lost).partition("?")[0], json={"features": [[0.0] * 4]})
        assert unnamed.status_code == 422
        assert unnamed.json()["detail"] == "query.nonce: expected a value, got none"
        with pytest.raises(StopError):
            lost.give_up("lost")
        assert standing.tell(np.zeros((5, 4))).generator == "b"
        assert {row.generator: row.samples for row in experiment.report().standings} == {"a": 0, "b": 5}


def test_what_a_scorer_took_of_lost_batches_goes_with_them(service: Service, redis: OldRedis):
    """The lost batches and those that take their place are as many, so that every count is the same again."""
    rng = np.random.default_rng(0)
    batches = {name: rng.normal(size=(12, 5, 4)) for name in ("kept", "lost", "true")}
    evaluation = Evaluation(["a"], metric="fid", reference=REFERENCE, rescore_growth=0.0)
    with Optimist(service.url) as client:
        config = {"reference": REFERENCE, "rescore_growth": 0.0, "stop": False, "max_wait": 30.0}
        experiment = client.create_experiment("taken", ["a"], **config)

        def tell(rows: np.ndarray) -> None:
            pick = experiment.ask()
            assert pick is not None
            pick.tell(rows)

        for rows in batches["kept"]:
            tell(rows)
            evaluation.tell("a", rows)
        redis.keep()
        for rows in batches["lost"]:
            tell(rows)
        scored(experiment)
        redis.go_back()
        for rows in batches["true"]:
            tell(rows)
            evaluation.tell("a", rows)
        scored(experiment)
        [row] = experiment.report().standings
        expected = evaluation.estimates()["a"]
        assert expected is not None
        assert (row.samples, row.scored_samples) == (120, 120)
        assert row.score == pytest.approx(expected.score, rel=1e-12)
        progress = httpx.get(f"{service.url}/v1/experiments/taken/report?after=0").json()["progress"]
        assert progress["told"] == 24


def test_a_batch_of_a_lost_pick_is_not_answered_by_an_equal_one(service: Service, redis: OldRedis):
    """Two workers tell a single 1 for the same number, each for its own pick: one of them counts."""
    with Optimist(service.url) as client:
        config = {"metric": "mean", "range": (0, 1), "policy": "uniform", "batch_size": 1}
        experiment = client.create_experiment("equal", ["a", "b"], **config)
        redis.keep()
        lost = experiment.ask(worker="first", generators=["a"])
        assert lost is not None
        for name in ("a", "b"):
            redis.go_back()
            standing = experiment.ask(worker="second", generators=[name])
            assert standing is not None
            assert standing.number == lost.number
            standing.tell([1.0])
            with pytest.raises(StopError, match="lost"):
                lost.tell([1.0])
            assert [row.samples for row in experiment.report().standings] == [int(name == "a"), int(name == "b")]


def test_run_goes_on_after_its_number_went_to_an_equal_batch(service: Service, redis: OldRedis):
    with Optimist(service.url) as client:
        experiment = client.create_experiment(
            "run-equal", ["a", "b"], metric="mean", range=(0, 1), policy="uniform", batch_size=1, stop=False, budget=12
        )
        redis.keep()
        calls = 0

        def sample(size: int, seed: int) -> np.ndarray:
            nonlocal calls
            calls += 1
            if calls == 1:
                redis.go_back()
                other = experiment.ask(worker="other", generators=["b"])
                assert other is not None
                assert other.number == 1
                other.tell([1.0])
            return np.ones((size, 1))

        report = experiment.run({"a": sample, "b": sample})
        assert (report.samples, report.open_picks, report.state) == (12, 0, "out of budget")
        assert calls == 12


def test_run_goes_on_after_its_pick_was_lost(service: Service, redis: OldRedis):
    with Optimist(service.url) as client:
        experiment = client.create_experiment("run", ["a"], reference=REFERENCE, stop=False, budget=60)
        redis.keep()
        calls = 0

        def sample(size: int, seed: int) -> np.ndarray:
            nonlocal calls
            calls += 1
            if calls == 4:
                redis.go_back()
            return np.random.default_rng(seed).normal(size=(size, 4))

        report = experiment.run({"a": sample})
        assert (report.samples, report.open_picks, report.state) == (60, 0, "out of budget")
        assert calls > 12
