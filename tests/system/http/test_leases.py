"""The longest lease: of new experiments it is demanded, in older and imported ones it is kept to."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from optimist.store import running_url
from optimist_client import FixError, Optimist
from tests.support.processes import Service, serving

CONFIG = {"generators": ["a"], "metric": {"name": "is", "dimension": 3}}
MOST, EARLIER = 600, 3600


@pytest.fixture(scope="module")
def services(not_scoring: Service, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Service, Service]]:
    """Two on one Redis: one that allows leases of an hour, and one of ten minutes."""
    options = (f"--redis-url={running_url(not_scoring.directory)}", "--no-scoring")
    now = {"OPTIMIST_MAX_LEASE": str(MOST)}
    with serving(tmp_path_factory.mktemp("now"), *options, environment=now) as service:
        yield not_scoring, service


def lease_of(service: Service, name: str) -> float:
    """The lease that its config has."""
    return httpx.get(f"{service.url}/v1/experiments/{name}", timeout=30).json()["config"]["lease"]


def leased_for(service: Service, name: str) -> float:
    """Seconds until the newest open pick's lease ends."""
    report = httpx.get(f"{service.url}/v1/experiments/{name}/report?after=0", timeout=30).json()
    return report["progress"]["picks"][-1]["deadline"] - time.time()


def test_a_new_experiment_may_not_lease_its_picks_for_longer(services: tuple[Service, Service]):
    with Optimist(services[1].url) as client:
        with pytest.raises(FixError, match="lease: expected at most 600 seconds, got 601") as refused:
            client.create_experiment("too-long", **CONFIG, lease=MOST + 1)
        assert refused.value.problem.status == 422
        with pytest.raises(FixError, match="lease: expected at most 600 seconds, got 900, the default"):
            client.create_experiment("too-long", **CONFIG)
        client.create_experiment("long-enough", **CONFIG, lease=MOST)
    assert lease_of(services[1], "long-enough") == MOST


def test_older_and_imported_ones_go_on_with_shorter_leases(services: tuple[Service, Service], tmp_path: Path):
    before, service = services
    config = {**CONFIG, "lease": EARLIER, "keep_log": True}
    with Optimist(before.url) as older, Optimist(service.url) as client:
        experiment = older.create_experiment("older", **config)
        experiment.ask(worker="early")
        assert leased_for(before, "older") > EARLIER - 400
        same = client.create_experiment("older", **config)  # the config is still the one it was made with
        same.ask(worker="late")
        assert 0 < leased_for(service, "older") <= MOST
        archive = tmp_path / "older.optimist"
        same.export(archive)
        imported = client.import_experiment(archive, name="imported")
        assert lease_of(service, "older") == lease_of(service, "imported") == EARLIER
        number = imported.ask(worker="late").number
        assert 0 < leased_for(service, "imported") <= MOST
        assert imported.ask(worker="late").number == number, "it is renewed"
