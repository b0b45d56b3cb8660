"""The disk of the embedded Redis, or its memory, runs full: what has no room is refused whole, and room alone heals."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import numpy as np
import pytest
from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry

from optimist.store import running_url
from optimist_client import BusyError, Optimist, Pick, tensors
from tests.support.processes import TENSORS, Service, batch_path, scored, until

BATCH = np.random.default_rng(0).standard_normal((5, 4))
BODY = tensors.encode({"features": BATCH})


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small disk of its own."""
    directory = tmp_path / "disk"
    directory.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=96m", "tmpfs", directory], capture_output=True)
    if mounted.returncode:
        pytest.skip("no right to mount a small disk here")
    try:
        yield directory
    finally:
        subprocess.run(["umount", directory], check=True)


def fill(disk: Path, left: int = 0) -> Path:
    """Leave so many bytes on it; the file that takes the others."""
    found = os.statvfs(disk)
    path = disk / "others"
    with path.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, found.f_bavail * found.f_frsize - left)
    return path


@contextmanager
def serving(disk: Path, **settings: str) -> Iterator[Service]:
    service = Service(disk, "--no-scoring", environment=settings)
    service._log = disk.parent / "service.log"  # the disk will be full
    service.start()
    try:
        yield service
    finally:
        service.stop()


def socket_of(disk: Path) -> str:
    return f"{json.loads((disk / 'lock').read_text())['runtime']}/redis.sock"


def tell(service: Service, pick: Pick) -> httpx.Response:
    return httpx.post(service.url + batch_path(pick), content=BODY, headers=TENSORS, timeout=60)


def append(service: Service) -> int:
    url = f"{service.url}/v1/experiments/full/generators/a/batches"
    headers = {**TENSORS, "idempotency-key": os.urandom(8).hex()}
    return httpx.post(url, content=BODY, headers=headers, timeout=60).status_code


def status(service: Service, path: str) -> int:
    with contextlib.suppress(httpx.TransportError):
        return httpx.get(f"{service.url}{path}", timeout=60).status_code
    return 0


@pytest.mark.long
def test_growth_is_refused_while_the_disk_still_has_room_for_redis(disk: Path, reference):
    least = str(16 * 2**20)
    with serving(disk, OPTIMIST_MIN_FREE_BYTES=least) as service, Optimist(service.url, patience=0.5) as client:
        experiment = client.create_experiment("full", ["a", "b"], reference=reference)
        first, second, third = (experiment.ask(worker=str(k)) for k in range(3))
        assert tell(service, first).status_code == 200
        before = service.redis_pid()
        others = fill(disk, left=8 * 2**20)
        until(lambda: append(service) == 507)
        refused = tell(service, second)
        assert refused.headers["content-type"] == "application/problem+json"
        assert int(refused.headers["retry-after"]) >= 1
        assert refused.json()["action"] == "retry"
        assert "16 MiB are kept free" in refused.json()["detail"]
        for post in (
            lambda: client.create_reference("other", mean=reference[0], covariance=reference[1]),
            lambda: client.create_experiment("other", ["a"], metric="is", dimension=4),
            lambda: second.tell(BATCH),
        ):
            with pytest.raises(BusyError, match=r"507.*disk"):
                post()
        again = tell(service, first)
        assert (again.status_code, again.json()["duplicate"]) == (200, True), "an answer takes no room"
        third.give_up("no room")
        report = experiment.report()
        assert report.open_picks == 1
        assert (service.redis_pid(), status(service, "/healthz"), status(service, "/readyz")) == (before, 200, 200)
        others.unlink()
        assert tell(service, second).status_code == 200, "at once, though the last look was of a full disk"


@pytest.mark.long
def test_what_was_removed_leaves_the_file_of_redis_when_its_disk_is_short(disk: Path, reference):
    with serving(disk, OPTIMIST_MIN_FREE_BYTES=str(40 * 2**20)) as service, Optimist(service.url) as client:
        client.create_experiment("full", ["a", "b"], reference=reference)
        with Redis(unix_socket_path=socket_of(disk)) as redis:
            # As experiments that were deleted leave it: 40 MiB of what is no longer there. At once, as a rewrite that
            # began in between would leave too little for another one.
            with redis.pipeline(transaction=True) as pipeline:
                for _ in range(10):
                    pipeline.set("deleted", bytes(4 * 2**20))
                pipeline.delete("deleted")
                pipeline.execute()
            others = fill(disk, left=30 * 2**20)
            until(lambda: redis.info("persistence")["aof_current_size"] < 2**20)
        until(lambda: append(service) == 200)
        assert others.exists()


@pytest.mark.long
@pytest.mark.faults
def test_redis_on_a_full_disk_is_started_until_there_is_room(disk: Path, reference):
    settings = {"OPTIMIST_MIN_FREE_BYTES": "0", "OPTIMIST_ALIVE_WITHOUT_REDIS": "2"}
    with serving(disk, **settings) as service, Optimist(service.url) as client:
        experiment = client.create_experiment("full", ["a", "b"], reference=reference)
        first, second = experiment.ask(worker="1"), experiment.ask(worker="2")
        assert tell(service, first).status_code == 200
        before = service.redis_pid()
        others = fill(disk)

        socket = socket_of(disk)

        def is_known() -> bool:
            # A redis-server on a full disk dies of any write.
            with contextlib.suppress(RedisError), Redis(unix_socket_path=socket, retry=Retry(NoBackoff(), 0)) as redis:
                redis.set("written", "to the disk")
            return service.log().count("starting it again") > 5 and status(service, "/healthz") == 503

        until(is_known)
        others.unlink()
        until(lambda: status(service, "/healthz") == 200)
        assert tell(service, second).status_code == 200
        assert service.redis_pid() != before
        report = experiment.report()
        assert (report.rounds, report.samples, report.open_picks) == (2, 10, 0)


def test_a_full_redis_refuses_batches_whole_and_recovers(service: Service, client: Optimist, name: str, reference):
    batch = np.random.default_rng(0).standard_normal((5, 4))
    url = running_url(service.directory)
    assert url is not None
    experiment = client.create_experiment(name, ["a", "b"], reference=reference, seed=1)
    first, second = experiment.ask(worker="1"), experiment.ask(worker="2")

    def tell(pick: Pick) -> httpx.Response:
        body = tensors.encode({"features": batch})
        return httpx.post(service.url + batch_path(pick), content=body, headers=TENSORS, timeout=30)

    assert tell(first).status_code == 200
    before = experiment.report()
    with Redis.from_url(url) as redis:
        redis.config_set("maxmemory", 1)
        keys = {key: redis.dump(key) for key in redis.keys(f"*{{{name}}}:log*")}
        for _ in range(2):
            refused = tell(second)
            assert refused.status_code == 503
            assert int(refused.headers["retry-after"]) >= 1
            assert refused.headers["content-type"] == "application/problem+json"
        again = tell(first)
        assert (again.status_code, again.json()["duplicate"]) == (200, True), "an answer takes no room"
        during = experiment.report()
        assert {key: redis.dump(key) for key in redis.keys(f"*{{{name}}}:log*")} == keys
        redis.config_set("maxmemory", 0)
    assert (during.samples, during.rounds, during.open_picks) == (5, 1, 1)
    assert (before.samples, before.rounds, before.open_picks) == (5, 1, 1)
    told = tell(second)
    assert (told.status_code, told.json()["duplicate"]) == (200, False)
    # From here on as if nothing had been: the SDK asks and tells, and the scorer scores.
    for k in range(4):
        pick = experiment.ask()
        pick.tell(batch + k)
    after = scored(experiment)
    assert (after.samples, after.rounds, after.open_picks) == (30, 6, 0)
