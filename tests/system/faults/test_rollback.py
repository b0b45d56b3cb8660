"""The service on a Redis that is started again from an older file: real processes, through HTTP."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import httpx
import numpy as np
import pytest

from optimist import Evaluation
from optimist.store.redis_program import find_program
from optimist_client import Optimist, StopError
from tests.support.processes import Service, batch_path, scored, serving, until
from tests.support.servers import Server

REFERENCE = (np.zeros(4), np.eye(4))


class OldRedis(Server):
    """A redis-server that can be started again from its file as it was when `keep` was called."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        options = "--appendonly", "yes", "--appendfsync", "always", "--save", "", "--aof-use-rdb-preamble", "no"
        super().__init__(find_program().path, directory, *options)

    def keep(self) -> None:
        shutil.rmtree(self._directory / "kept", ignore_errors=True)
        found = list(self._directory.glob("appendonly*"))
        (self._directory / "kept").mkdir()
        for path in found:
            copy = shutil.copytree if path.is_dir() else shutil.copy
            copy(path, self._directory / "kept" / path.name)

    def go_back(self) -> None:
        self.kill()
        for path in (self._directory / "kept").iterdir():
            there = self._directory / path.name
            shutil.rmtree(there) if there.is_dir() else there.unlink()
            copy = shutil.copytree if path.is_dir() else shutil.copy
            copy(path, there)
        self.start()


@pytest.fixture(scope="module")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OldRedis]:
    running = OldRedis(tmp_path_factory.mktemp("redis"))
    yield running
    running.stop()


@pytest.fixture(scope="module")
def service(redis: OldRedis, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with serving(tmp_path_factory.mktemp("service"), f"--redis-url={redis.url}") as running:
        yield running


LOST, BACK = "WARNING: Redis does not answer: ", "INFO: Redis answers again, after "


@pytest.mark.long
def test_api_and_scorer_log_the_loss_of_redis_and_its_return_once(service: Service, redis: OldRedis):
    """The first here: a later test's loss may be noticed by both of them, by one or by none."""
    redis.kill()
    until(lambda: service.log().count(LOST) == 2)
    redis.start()
    until(lambda: service.log().count(BACK) == 2)
    assert service.log().count("Redis does not answer") == 2


@pytest.mark.long
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
    """Two workers tell a single 1 for the same number, each for its own pick: one of them counts, whatever the other
    one tells."""
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
            assert (standing.number, standing.generator) == (lost.number, name)
            assert standing.info.nonce != lost.info.nonce
            with pytest.raises(StopError, match="lost"):
                lost.tell([0.5])
            with pytest.raises(StopError):
                lost.give_up("lost")
            unnamed = httpx.post(service.url + batch_path(lost).partition("?")[0], json={"values": [[0.5]]})
            assert (unnamed.status_code, unnamed.json()["detail"]) == (422, "query.nonce: expected a value, got none")
            standing.tell([1.0])
            with pytest.raises(StopError, match="lost"):
                lost.tell([1.0])
            assert [row.samples for row in experiment.report().standings] == [int(name == "a"), int(name == "b")]


@pytest.mark.parametrize("taken", [True, False])
def test_run_goes_on_after_its_pick_was_lost(service: Service, redis: OldRedis, taken: bool):
    """And its number went to an equal batch, or to none."""
    with Optimist(service.url) as client:
        config = {"metric": "mean", "range": (0, 1), "policy": "uniform", "batch_size": 1, "stop": False, "budget": 12}
        experiment = client.create_experiment(f"run-{taken}".lower(), ["a", "b"], **config)
        redis.keep()
        calls = 0

        def sample(size: int, seed: int) -> np.ndarray:
            nonlocal calls
            calls += 1
            if calls == (1 if taken else 4):
                redis.go_back()
                if taken:
                    other = experiment.ask(worker="other", generators=["b"])
                    assert other is not None
                    assert other.number == 1
                    other.tell([1.0])
            return np.ones((size, 1))

        report = experiment.run({"a": sample, "b": sample})
        assert (report.samples, report.open_picks, report.state) == (12, 0, "out of budget")
        assert calls == 12 if taken else calls > 12
