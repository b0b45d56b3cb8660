"""Feature maps and leases: how large and how long a new experiment's may be, and what becomes of older ones."""

from __future__ import annotations

import time
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from optimist.archive.file import Archive, ArchiveWriter
from optimist.store import running_url
from optimist_client import FixError, Optimist, tensors
from tests.support.configs import on_wire
from tests.support.processes import Service, serving

RKE = {"name": "x", "generators": ["a"], "metric": "rke", "dimension": 10, "kernel": {"sigma": 1.0, "features": 100}}
PAIRS = {**RKE, "metric": "conditional-vendi", "prompt_dimension": 5, "prompts": ["p"], "prompt_kernel": {"sigma": 1.0}}
NYSTROM = {"name": "nystrom", "sigma": 1.0}


@pytest.fixture(scope="module")
def limited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with serving(
        tmp_path_factory.mktemp("limited"), "--no-scoring", environment={"OPTIMIST_MAX_MAP": "1000"}
    ) as service:
        yield service


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (RKE, None),
        ({**RKE, "dimension": 11}, "kernel: expected a feature map of at most 1,000 numbers, got dimension × features"),
        ({**RKE, "kernel": {"sigma": "median", "features": 101}}, "dimension × features = 1,010"),
        ({**RKE, "kernel": {**NYSTROM, "features": 27}}, None),
        ({**RKE, "kernel": {**NYSTROM, "features": 28}}, "(dimension + features) × features = 1,064"),
        ({**RKE, "metric": "vendi", "dimension": 2000, "kernel": {"name": "cosine"}}, None),
        ({**PAIRS, "kernel": {"sigma": 1.0, "features": 66}}, None),
        (
            {**PAIRS, "kernel": {"sigma": 1.0, "features": 67}},
            "at most 1,000 numbers, got (dimension + prompt_dimension) × features = 1,005",
        ),
        ({"name": "x", "generators": ["a"], "metric": "is", "dimension": 2000}, None),
    ],
)
def test_a_new_experiment_has_maps_of_a_limited_size(limited: Service, config: dict[str, Any], expected: str | None):
    with httpx.Client(base_url=limited.url) as client:
        reply = client.post("/v1/experiments", json=on_wire(**config))
        if expected is None:
            assert reply.status_code == 200, reply.text
            client.delete("/v1/experiments/x").raise_for_status()
        else:
            assert reply.status_code == 422
            assert expected in reply.json()["detail"]
            assert client.get("/v1/experiments").json()["experiments"] == [], "nothing is left"


@pytest.mark.long
def test_what_is_there_goes_on_under_a_smaller_limit_but_is_not_imported(
    limited: Service, not_scoring: Service, tmp_path: Path
):
    config = on_wire(**{**RKE, "dimension": 2000})
    httpx.post(f"{not_scoring.url}/v1/experiments", json=config).raise_for_status()
    archive = httpx.get(f"{not_scoring.url}/v1/experiments/x/export").content
    options = (f"--redis-url={running_url(not_scoring.directory)}", "--no-scoring")
    with serving(tmp_path, *options, environment={"OPTIMIST_MAX_MAP": "1000"}) as service:
        assert httpx.post(f"{service.url}/v1/experiments", json=config).status_code == 200
        assert httpx.post(f"{service.url}/v1/experiments/x/picks").json()["picks"]
        httpx.delete(f"{service.url}/v1/experiments/x").raise_for_status()
    refused = httpx.post(f"{limited.url}/v1/import", content=archive, headers={"content-type": "application/zip"})
    assert refused.status_code == 422
    assert "at most 1,000 numbers" in refused.json()["detail"]
    assert httpx.get(f"{limited.url}/v1/experiments").json()["experiments"] == []


def test_landmarks_that_an_archive_brings_are_those_of_its_config(limited: Service):
    """Else the limit would be none: a map is made of what is stored as fitted."""
    config = {**RKE, "kernel": {**NYSTROM, "features": 20}}
    httpx.post(f"{limited.url}/v1/experiments", json=on_wire(**config)).raise_for_status()
    exported = httpx.get(f"{limited.url}/v1/experiments/x/export").content
    httpx.delete(f"{limited.url}/v1/experiments/x").raise_for_status()
    archive = Archive(BytesIO(exported))
    good = {"kernel.sigma": np.array([1.0]), "kernel.landmarks": np.ones((20, 10))}
    for change, status in (
        ({}, 200),
        ({"kernel.landmarks": np.ones((40, 10))}, 422),
        ({"kernel.sigma": np.ones(2)}, 422),
        ({"prompt_kernel.sigma": np.ones(1)}, 422),
    ):
        file = BytesIO()
        with ArchiveWriter(file) as writer:
            writer.add_fitted(tensors.encode({**good, **change}), *archive.contents.experiment.config.metrics)
            writer.finish(archive.contents, archive.history)
        headers = {"content-type": "application/zip"}
        reply = httpx.post(f"{limited.url}/v1/import", content=file.getvalue(), headers=headers)
        assert reply.status_code == status, reply.text
        if status == 422:
            assert "what the first samples fixed" in reply.json()["detail"]
        else:
            httpx.delete(f"{limited.url}/v1/experiments/x").raise_for_status()


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
