"""The clock of Redis is set back by an hour: no caller waits for that hour."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import numpy as np
import pytest

from optimist.store import open_store
from optimist.store.redis_program import find_program
from optimist_client import Optimist
from tests.chaos.processes import Clock
from tests.support.processes import Service, scored, serving, until
from tests.support.servers import Server

HOUR = 3600
REFERENCE = np.zeros(4), np.eye(4)


class Clocked(Server):
    """A redis-server whose clock can be set."""

    def __init__(self, directory: Path) -> None:
        self._clock = Clock(directory)
        environment = self._clock.environment or pytest.skip("no C compiler here")
        super().__init__(find_program().path, directory, "--save", "", environment=environment)

    def set(self, seconds: int) -> None:
        """Set the clock this many seconds later than the real time."""
        before, _ = self.call("TIME")
        self._clock.set(seconds)
        assert self.call("TIME")[0] != before


@pytest.fixture(scope="module")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clocked]:
    server = Clocked(tmp_path_factory.mktemp("redis"))
    yield server
    server.stop()


@pytest.fixture(scope="module")
def service(redis: Clocked, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with serving(tmp_path_factory.mktemp("service"), f"--redis-url={redis.url}") as service:
        yield service


@pytest.mark.long
@pytest.mark.faults
def test_turns_and_leases_end_though_the_clock_was_set_back(service: Service, redis: Clocked):
    with Optimist(service.url) as client:
        experiment = client.create_experiment("x", ["a", "b"], reference=REFERENCE, lease=1.0)

        def ask() -> httpx.Response:
            return httpx.post(f"{service.url}/v1/experiments/x/picks", json={}, timeout=20)

        assert experiment.ask(worker="gone") is not None

        async def leave_a_turn() -> None:
            async with open_store(redis.url) as store:
                done = await store.exchange("x", wants_state=True, who="a replica that dies")
                assert done.state is not None

        asyncio.run(leave_a_turn())
        redis.set(-HOUR)
        assert ask().status_code == 200
        until(lambda: experiment.report().open_picks == 0, 20)

        # A turn that is never released, by contrast: the ask is postponed and does not keep waiting.
        taken, kept = threading.Event(), threading.Event()

        def keep_the_turn() -> None:
            while not kept.wait(0.02):
                redis.call("SET", "optimist:{x}:opening_lock", "another", "PX", 500)
                taken.set()

        keeper = threading.Thread(target=keep_the_turn)
        keeper.start()
        assert taken.wait(10)
        try:
            refused = ask()
        finally:
            kept.set()
            keeper.join()
        assert (refused.status_code, refused.json()["action"]) == (503, "retry")
        assert ask().status_code == 200


@pytest.mark.long
@pytest.mark.faults
def test_a_dead_scorer_s_generators_are_taken_over_though_the_clock_was_set_back(service: Service, redis: Clocked):
    batch = np.random.default_rng(0).standard_normal((5, 4))
    with Optimist(service.url) as client:
        experiment = client.create_experiment("y", ["a", "b"], reference=REFERENCE, max_wait=0.1, stop=False)

        def tell(rounds: int) -> None:
            for k in range(rounds):
                pick = experiment.ask()
                assert pick is not None
                pick.tell(batch + k)

        tell(4)
        scored(experiment)
        scorer = service.scorer_pid()
        assert scorer is not None
        os.kill(scorer, signal.SIGKILL)
        redis.set(-2 * HOUR)
        tell(8)
        scored(experiment, 60)
