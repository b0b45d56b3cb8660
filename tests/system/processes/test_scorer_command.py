"""`optimist scorer`, beside a service that does not score: its metrics, its memory, and what it cannot read."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import numpy as np
import pytest
from redis import Redis

import optimist
from optimist.api.redis_health import MIN_RESERVE
from optimist.store import start_embedded
from optimist_client import FixError, Optimist
from tests.support import warm
from tests.support.processes import Service, append_batch, free_port, scored, scraped, serving, until

WARM = 32 * 2**20
"""Bytes that the scorer may keep; two of the large maps."""


@dataclass(frozen=True)
class Pair:
    """A service, and the scorer beside it on the same Redis."""

    service: Service
    scorer: subprocess.Popen[bytes]
    redis_url: str
    metrics_url: str
    """Of the scorer."""
    log: Path
    """Of the scorer."""

    @contextmanager
    def experiments(self) -> Iterator[Optimist]:
        """A client; in the end no experiment is left."""
        with Optimist(self.service.url) as client:
            try:
                yield client
            finally:
                for name in client.experiments():
                    client.delete_experiment(name)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """The scorer does nothing."""
        self.scorer.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.scorer.send_signal(signal.SIGCONT)

    def append(self, experiment: str, generator: str, rows: np.ndarray, key: str) -> httpx.Response:
        """A batch without a pick."""
        return append_batch(self.service.url, experiment, generator, {"features": rows}, key)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    directory, port = tmp_path_factory.mktemp("pair"), free_port()
    with start_embedded(directory / "redis") as redis:
        command = [*warm.CLI, "scorer", f"--redis-url={redis.url}", f"--metrics-port={port}"]
        log = directory / "scorer.log"
        with log.open("wb") as file:
            environment = {**os.environ, "OPTIMIST_WARM_BYTES": f"{WARM}"}
            scorer = warm.Popen(command, stdout=file, stderr=file, env=environment)
        try:
            with serving(directory, f"--redis-url={redis.url}", "--no-scoring") as service:
                with Redis.from_url(redis.url) as client:
                    client.config_set("appendfsync", "no")
                yield Pair(service, scorer, redis.url, f"http://127.0.0.1:{port}", log)
        finally:
            scorer.terminate()
            ended = scorer.wait(30)
    assert ended == 0
    assert "Traceback" not in log.read_text()


@pytest.mark.long
def test_a_scorer_process_has_metrics_of_its_own(pair: Pair):
    def made(url: str) -> float:
        with contextlib.suppress(httpx.TransportError):  # it is starting
            return scraped(url)("optimist_scoring_seconds_count")
        return 0

    before, told = made(pair.metrics_url), scraped(pair.service.url)("optimist_tells_total")
    with pair.experiments() as client:
        experiment = client.create_experiment("split", ["a"], reference=(np.zeros(4), np.eye(4)))
        experiment.ask().tell(np.eye(5)[:, :4])
        scored(experiment)
        until(lambda: scraped(pair.metrics_url)("optimist_log_entries") == 1)
        assert experiment.report().standings[0].score is not None
        there, here = scraped(pair.metrics_url), scraped(pair.service.url)
    assert (there("optimist_scoring_seconds_count") - before, here("optimist_scoring_seconds_count")) == (1, 0)
    assert (there("optimist_tells_total"), here("optimist_tells_total") - told) == (0, 1)
    assert there("optimist_sweep_timestamp_seconds") > 0


@pytest.mark.long
def test_a_generator_of_which_nothing_can_be_read_has_no_modes(pair: Pair):
    rng = np.random.default_rng(0)
    with pair.experiments() as client, Redis.from_url(pair.redis_url) as redis:
        experiment = client.create_experiment(
            "unreadable", ["a"], metric="rke", dimension=2, kernel={"sigma": 1.0, "features": 8}
        )
        with pair.paused():
            pair.append("unreadable", "a", rng.standard_normal((5, 2)), "bad")
            log = "optimist:{unreadable}:log:0"
            ((entry_id, fields),) = redis.xrange(log)
            redis.delete(log)
            redis.xadd(log, {**fields, b"body": b"nonsense"}, id=entry_id)
        until(lambda: experiment.report().standings[0].warnings)
        for _ in range(2):
            with pytest.raises(FixError, match="no batch of generator 'a' can be read: expected a safetensors body"):
                experiment.modes("a")
        # One that asked all the same.
        redis.publish("optimist:wanted", "unreadable 0 0 modes:0:rke")
        pair.append("unreadable", "a", rng.standard_normal((6, 2)), "good")
        assert experiment.modes("a").samples == 6
    text = pair.log.read_text()
    assert "Traceback" not in text
    assert text.count("is quarantined") == 1


def resident(pid: int) -> float:
    """MiB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) / 1024


@pytest.mark.long
def test_a_scorer_of_twelve_large_maps_keeps_one(pair: Pair):
    """16 MiB each, with 4 rows."""
    dimension, features, experiments = 1024, 2048, 12
    one, each = 2**20, dimension * features * 8
    kernel = {"sigma": 30.0, "features": features}
    batches = [np.random.default_rng(seed).standard_normal((2, 4, dimension)) for seed in range(experiments)]
    assert 2 * each == WARM
    with pair.experiments() as client:
        before = resident(pair.scorer.pid)
        made = [
            client.create_experiment(
                f"x{seed}", ["a"], metric="rke", dimension=dimension, kernel={**kernel, "seed": seed}, batch_size=4
            )
            for seed in range(experiments)
        ]
        for turn in range(2):
            for experiment, batch in zip(made, batches, strict=True):
                experiment.ask().tell(batch[turn])
            for experiment in made:
                scored(experiment)
        until(lambda: 0 < scraped(pair.metrics_url)("optimist_warm_bytes") <= WARM + one)
        # Twelve are 192 MiB. Coarse: what numerics took on the way stays with the process, and an estimate of a curve,
        # which is made after the score, takes up to 60 MiB more for a moment.
        until(lambda: resident(pair.scorer.pid) - before < 130)
        for seed, (experiment, batch) in enumerate(zip(made[:2], batches[:2], strict=True)):
            expected = optimist.score(np.concatenate(batch), "rke", kernel={**kernel, "seed": seed})
            (row,) = experiment.report().standings
            assert row.samples == 8
            assert row.score == pytest.approx(expected.score, rel=1e-12)


LIMIT = 40 * 2**20
D = 512
"""A snapshot is sent in several chunks: a Redis that is full takes one more of anything, not two."""
SAMPLES = np.random.default_rng(0).standard_normal((64, D))


@pytest.mark.long
def test_a_redis_filled_by_batches_has_room_for_the_snapshot_that_trims_them(pair: Pair):
    """Batches are refused early enough for it."""
    keys = itertools.count()

    def append(rows: int) -> httpx.Response:
        key = next(keys)
        return pair.append("full", "ab"[key % 2], SAMPLES[:rows], str(key))

    with pair.experiments() as client, Redis.from_url(pair.redis_url) as redis:

        def used() -> int:
            return redis.info("memory")["used_memory"]

        experiment = client.create_experiment("full", ["a", "b"], reference=(np.zeros(D), np.eye(D)))
        with pair.paused():
            redis.config_set("maxmemory", MIN_RESERVE)
            until(lambda: append(1).status_code == 503)  # the service looks once a second whether there is a limit
            redis.config_set("maxmemory", LIMIT)
            for rows in (64, 8, 1):
                while (refused := append(rows)).status_code != 503:
                    pass
            assert used() < LIMIT - 15 * 2**20
            assert refused.json()["type"] == "urn:optimist:problem:memory-full"
            assert "16 MiB of the 40 MiB" in refused.json()["detail"]
            assert experiment.ask() is not None, "asks may take some of what is kept of tells"
        # Not a batch that slips in beside it, but the logs of both.
        until(lambda: used() < LIMIT // 2)
        assert append(64).status_code == 200
        redis.config_set("maxmemory", 0)
