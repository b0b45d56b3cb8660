"""Shares: viewer keys for one experiment, which an admin makes over HTTP, and keys that expire."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.keys import bearer, client_of, guarded, new_key, optimist_keys
from tests.support.processes import Service, until

NAMES = ("shared", "private")
CONFIG = {"generators": ["a"], "metric": {"name": "is", "dimension": 3}, "previews": 4}


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("shares")


@pytest.fixture(scope="module")
def service(directory: Path) -> Iterator[Service]:
    with guarded(directory, "--no-scoring") as (running, key):
        with client_of(running, key) as client:
            for name in NAMES:
                client.post("/v1/experiments", json={"name": name, **CONFIG}).raise_for_status()
        yield running


def status(service: Service, key: str, path: str) -> int:
    return httpx.get(f"{service.url}/v1/experiments{path}", headers=bearer(key)).status_code


def gone(service: Service, key: str) -> None:
    """Wait until a key is refused: API processes read keys every five seconds."""
    until(lambda: status(service, key, "/shared/report") == 401, 15.0)


def made(client: httpx.Client, **wanted: Any) -> dict[str, Any]:
    reply = client.post("/v1/experiments/shared/shares", json=wanted)
    assert reply.status_code == 200, reply.text
    return reply.json()


def test_a_share_shows_one_experiment_and_no_samples_unless_asked(service: Service, directory: Path):
    with client_of(service, new_key(directory, "admin")) as client:
        share, with_samples = made(client), made(client, previews=True, note="for Ada")
    assert status(service, share["key"], "/shared/report") == 200
    assert status(service, share["key"], "/shared/previews") == 403
    assert status(service, share["key"], "/shared/generators/a/modes") == 403
    assert status(service, share["key"], "/shared/generators/a/records") == 403
    assert status(service, with_samples["key"], "/shared/previews") == 200
    assert status(service, with_samples["key"], "/shared/generators/a/records") == 200
    assert status(service, share["key"], "/private/report") == 404
    for key in (share["key"], with_samples["key"]):
        listed = httpx.get(f"{service.url}/v1/experiments", headers=bearer(key)).json()
        assert [one["name"] for one in listed["experiments"]] == ["shared"]
        session = httpx.get(f"{service.url}/v1/session", headers=bearer(key)).json()
        assert (session["role"], session["previews"]) == ("viewer", key == with_samples["key"])
        refused = httpx.post(f"{service.url}/v1/experiments/shared/shares", headers=bearer(key), json={})
        assert refused.status_code == 403


def test_shares_are_listed_without_their_keys_and_end(service: Service, directory: Path):
    """When they are revoked, with the key that made them, and when they expire."""
    maker = new_key(directory, "admin")
    with client_of(service, maker) as client:
        orphan = made(client)
    assert status(service, orphan["key"], "/shared/report") == 200
    assert optimist_keys("revoke", maker, "--data-dir", str(directory)).exit_code == 0
    with client_of(service, new_key(directory, "admin")) as client:
        brief, share = made(client, seconds=1), made(client, seconds=3600, note="for Bob")
        path = "/v1/experiments/shared/shares"
        assert client.get(path).json()["shares"][0] == {**share, "key": None}
        assert share["expires"] - share["created"] == pytest.approx(3600)
        assert client.delete(f"/v1/experiments/private/shares/{share['id']}").status_code == 404
        assert [client.delete(f"{path}/{share['id']}").status_code for _ in range(2)] == [204, 404]
        for ended in (orphan, brief, share):
            gone(service, ended["key"])
        assert brief["id"] not in {one["id"] for one in client.get(path).json()["shares"]}
        assert client.post(path, json={"seconds": 0}).status_code == 422


def test_keys_expire_when_they_are_told_to(service: Service, directory: Path):
    where = ("--data-dir", str(directory))
    restricted = ("--role", "viewer", "--experiment", "shared")
    created = optimist_keys("create", *restricted, "--expires", "7d", *where)
    assert created.exit_code == 0, created.stderr
    key = created.stdout.strip()
    assert status(service, key, "/shared/report") == 200
    listed = json.loads(optimist_keys("list", "--json", *where).stdout)
    record = next(one for one in listed if one["id"] == key.split("_")[1])
    assert record["expires"] - record["created"] == 7 * 86_400
    refused = optimist_keys("create", *restricted, "--expires", "soon", *where)
    assert refused.exit_code == 1
    assert "such as 12h, 7d or 4w" in refused.stderr
