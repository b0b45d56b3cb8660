"""Every worker runs the same program: with an admin's key it creates the experiment, with a worker's it opens it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import httpx
import numpy as np
import pytest
from markdown_it import MarkdownIt

from optimist_client import ConflictError, FixError, Optimist
from optimist_client.metrics import FID, KID, RKE, Gaussian
from tests.support.keys import bearer, guarded, new_key
from tests.support.places import ROOT
from tests.support.processes import Service

README = ROOT / "README.md"
NAMES = ["old", "new"]
REAL = np.random.default_rng(0).standard_normal((40, 4))
OTHER = REAL + 1e-9
SEVERAL: dict[str, Any] = {
    "metric": FID(reference=REAL),
    "watch": [RKE(kernel=Gaussian(sigma=4)), KID(reference=REAL)],
    "costs": {"old": 1, "new": np.float64(2)},
    "tags": ["first"],
}
"""Settings of many forms, and two references: moments, and rows."""


@pytest.fixture(scope="module")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Service, str]]:
    """A service that asks for keys, and an admin's."""
    with guarded(tmp_path_factory.mktemp("keyed")) as made:
        yield made


def program(service: Service, key: str) -> subprocess.CompletedProcess[str]:
    """Run the README's program with this key."""
    (code,) = (
        token.content
        for token in MarkdownIt().parse(README.read_text())
        if token.type == "fence" and token.content.startswith("import numpy") and "Optimist(" in token.content
    )
    code = code.replace("http://127.0.0.1:8000", service.url)
    environment = {**os.environ, "OPTIMIST_API_KEY": key}
    return subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=300)


@pytest.mark.long
def test_the_program_of_the_readme_runs_with_a_workers_key(keyed: tuple[Service, str]):
    service, admin = keyed
    bound = new_key(service.directory, "worker", "default", "my-checkpoints")
    early = program(service, bound)
    assert early.returncode == 1
    assert "ask an admin to create it, then run this again" in early.stderr
    for key in (admin, bound):
        done = program(service, key)
        assert done.returncode == 0, done.stderr
        assert "\nBest: " in done.stdout


@pytest.fixture
def worker(keyed: tuple[Service, str]) -> str:
    return new_key(keyed[0].directory, "worker")


@pytest.fixture
def bound(keyed: tuple[Service, str], name: str) -> str:
    """A worker's key for the test's experiment alone."""
    return new_key(keyed[0].directory, "worker", "default", name)


def test_workers_open_what_an_admin_created_and_create_nothing(
    keyed: tuple[Service, str], name: str, worker: str, bound: str
):
    service, admin = keyed
    with Optimist(service.url, api_key=worker) as client:
        with pytest.raises(FixError, match=f"sees no experiment called '{name}' .* ask an admin to create it") as no:
            client.create_experiment(name, NAMES, **SEVERAL)
        assert no.value.problem.status == 403
        with pytest.raises(FixError, match="ask an admin to create it"):  # without anything to upload
            client.create_experiment(name, NAMES, metric="is", dimension=3)
    with Optimist(service.url, api_key=admin) as client:
        created = client.create_experiment(name, NAMES, **SEVERAL).info
    for key in (worker, bound, admin):
        again = {**SEVERAL, "tags": ["second"]}  # tags are no part of the question
        with Optimist(service.url, api_key=key) as client:
            opened = client.create_experiment(name, tuple(NAMES), **again)
            assert (opened.info.instance, opened.info.config.tags) == (created.instance, ["first"])
            pick = opened.ask()
            pick.tell(REAL[: pick.size])


CHANGED: list[tuple[dict[str, Any], str]] = [
    ({"generators": [*NAMES, "newer"]}, r"in generators \(\['old', 'new'\], not \['old', 'new', 'newer'\]\): choose"),
    ({"delta": 0.1, "seed": 3}, r"in delta \(0.05, not 0.1\), seed \(0, not 3\): choose"),
    ({"costs": None}, r"costs \(\{'new': 2.0, 'old': 1.0\}, not None\)"),
    (
        {"metric": FID(reference=OTHER)},
        r"in the contents of reference '[\w-]+-reference' \(SHA-256 \w{12}…, not \w{12}…\)",
    ),
    ({"metric": "is", "dimension": 3, "watch": []}, r"metric \(.*(?i:fid).*\), .*watch \(\['rke', 'kid'\], not \[\]\)"),
    (
        {"watch": [RKE(kernel=Gaussian(sigma=5)), KID(reference=REAL)]},
        r"in watch\.rke\.kernel\.sigma \(4.0, not 5.0\): choose",
    ),
    ({"watch": [RKE(kernel=Gaussian(sigma=4))]}, r"in watch \(\['rke', 'kid'\], not \['rke'\]\): choose"),
    (
        {"watch": [RKE(kernel=Gaussian(sigma=4)), KID(reference=OTHER)], "delta": 0.1},
        r"in delta \(.*\), the contents of reference '[\w-]+-reference-2'",
    ),
]  # fmt: skip


def test_a_changed_program_is_told_what_differs(keyed: tuple[Service, str], name: str, worker: str):
    service, admin = keyed
    with Optimist(service.url, api_key=admin) as client:
        client.create_experiment(name, NAMES, **SEVERAL)
        before = client.references()
    for key in (worker, admin):
        for change, said in CHANGED:
            settings = {"generators": NAMES, **SEVERAL, **change}
            with Optimist(service.url, api_key=key) as client, pytest.raises(ConflictError, match=said):
                client.create_experiment(name, **settings)
    with Optimist(service.url, api_key=admin) as client:
        assert client.references() == before


def test_a_reference_that_stands_is_not_sent_again(keyed: tuple[Service, str], name: str):
    service, admin = keyed

    def received() -> float:
        """How many references were sent."""
        text = httpx.get(f"{service.url}/metrics", headers=bearer(admin), timeout=60).text
        counted = 'optimist_requests_total{method="POST",route="/v1/references"'
        return sum(float(line.rpartition(" ")[2]) for line in text.splitlines() if line.startswith(counted))

    with Optimist(service.url, api_key=admin) as client:
        client.create_experiment(name, NAMES, reference=REAL)
        client.delete_experiment(name)
        sent = received()
        assert sent > 0
        client.create_experiment(name, NAMES, reference=REAL)
        assert received() == sent
        client.delete_experiment(name)
        with pytest.raises(ConflictError, match="exists with other contents"):
            client.create_experiment(name, NAMES, reference=OTHER)
