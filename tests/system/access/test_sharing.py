"""Shares: viewer keys for one experiment, which an admin makes over HTTP, and keys that expire."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from redis import Redis

from optimist.store import running_url
from tests.support.keys import bearer, client_of, new_key, optimist_keys
from tests.support.processes import Service, until

SPACE = "shares"
CONFIG = {"generators": ["a"], "metric": {"name": "is", "dimension": 3}, "previews": 4}


@pytest.fixture(scope="module")
def admin(asking: Service, directory: Path) -> Iterator[httpx.Client]:
    """Of a namespace that has both experiments."""
    with client_of(asking, new_key(directory, "admin", SPACE)) as client:
        for name in ("shared", "private"):
            client.post("/v1/experiments", json={"name": name, **CONFIG}).raise_for_status()
        yield client


def status(asking: Service, key: str, path: str) -> int:
    return httpx.get(f"{asking.url}/v1/experiments{path}", headers=bearer(key)).status_code


def gone(asking: Service, key: str) -> None:
    """Wait until a share is refused: at most five seconds where the key that made it has ended."""
    until(lambda: status(asking, key, "/shared/report") == 401, 15.0)


def made(client: httpx.Client, **wanted: Any) -> dict[str, Any]:
    reply = client.post("/v1/experiments/shared/shares", json=wanted)
    assert reply.status_code == 200, reply.text
    return reply.json()


def test_a_share_shows_one_experiment_and_no_samples_unless_asked(asking: Service, admin: httpx.Client):
    share, with_samples = made(admin), made(admin, previews=True, note="for Ada")
    paths = "/shared/previews", "/shared/generators/a/records"
    assert [status(asking, with_samples["key"], path) for path in paths] == [200, 200]
    assert [status(asking, share["key"], path) for path in (*paths, "/shared/generators/a/modes")] == [403] * 3
    assert [status(asking, share["key"], path) for path in ("/shared/report", "/private/report")] == [200, 404]
    for key in (share["key"], with_samples["key"]):
        listed = httpx.get(f"{asking.url}/v1/experiments", headers=bearer(key)).json()
        assert [one["name"] for one in listed["experiments"]] == ["shared"]
        session = httpx.get(f"{asking.url}/v1/session", headers=bearer(key)).json()
        assert (session["role"], session["previews"]) == ("viewer", key == with_samples["key"])
        refused = httpx.post(f"{asking.url}/v1/experiments/shared/shares", headers=bearer(key), json={})
        assert refused.status_code == 403


def test_shares_are_listed_without_their_keys_and_end(asking: Service, admin: httpx.Client, directory: Path):
    """When they are revoked, with the key that made them, and when they expire."""
    maker = new_key(directory, "admin", SPACE)
    with client_of(asking, maker) as client:
        orphan = made(client)
    assert status(asking, orphan["key"], "/shared/report") == 200
    assert optimist_keys("revoke", maker, "--data-dir", str(directory)).exit_code == 0
    brief, share = made(admin, seconds=1), made(admin, seconds=3600, note="for Bob")
    path = "/v1/experiments/shared/shares"
    assert admin.get(path).json()["shares"][0] == {**share, "key": None}
    assert share["expires"] - share["created"] == pytest.approx(3600)
    assert admin.delete(f"/v1/experiments/private/shares/{share['id']}").status_code == 404
    assert [admin.delete(f"{path}/{share['id']}").status_code for _ in range(2)] == [204, 404]
    for ended in (orphan, brief, share):
        gone(asking, ended["key"])
    assert brief["id"] not in {one["id"] for one in admin.get(path).json()["shares"]}
    assert admin.post(path, json={"seconds": 0}).status_code == 422


def test_a_share_ends_with_its_experiment_and_opens_none_of_the_same_name(asking: Service, admin: httpx.Client):
    body = {"name": "short-lived", **CONFIG}
    path = "/v1/experiments/short-lived"
    admin.post("/v1/experiments", json=body).raise_for_status()
    key = admin.post(f"{path}/shares", json={}).json()["key"]
    assert status(asking, key, "/short-lived/report") == 200
    admin.delete(path).raise_for_status()
    assert status(asking, key, "/short-lived/report") == 401
    admin.post("/v1/experiments", json=body).raise_for_status()
    assert status(asking, key, "/short-lived/report") == 401
    assert admin.get(f"{path}/shares").json()["shares"] == []


def test_a_share_of_another_experiment_cannot_be_claimed(asking: Service, admin: httpx.Client):
    key, _, _ = made(admin)["key"].rpartition(":")
    assert status(asking, f"{key}:private", "/private/report") == 401
    assert status(asking, key.replace(f":{SPACE}", ""), "/shared/report") == 401


def test_an_experiment_has_at_most_100_live_shares(asking: Service, admin: httpx.Client, directory: Path):
    admin.post("/v1/experiments", json={"name": "popular", **CONFIG}).raise_for_status()
    path = "/v1/experiments/popular/shares"
    made = [admin.post(path, json={"seconds": 3600 if i else 1}).json() for i in range(100)]
    until(lambda: time.time() > made[0]["expires"], 5.0)
    # The one that has ended makes room for one more.
    assert [admin.post(path, json={"seconds": 3600}).status_code for _ in range(2)] == [200, 422]
    with Redis.from_url(running_url(directory)) as redis:
        assert redis.hlen(f"optimist:{{{SPACE}/popular}}:share_keys") == 100
        assert 3000 < redis.ttl(f"optimist:{{{SPACE}/popular}}:share_keys") <= 3600


def test_keys_expire_when_they_are_told_to(asking: Service, admin: httpx.Client, directory: Path):
    where = ("--data-dir", str(directory))
    restricted = ("--role", "viewer", "--namespace", SPACE, "--experiment", "shared")
    created = optimist_keys("create", *restricted, "--expires", "7d", *where)
    assert created.exit_code == 0, created.stderr
    key = created.stdout.strip()
    assert status(asking, key, "/shared/report") == 200
    listed = json.loads(optimist_keys("list", "--json", *where).stdout)
    record = next(one for one in listed if one["id"] == key.split("_")[1])
    assert record["expires"] - record["created"] == 7 * 86_400
    refused = optimist_keys("create", *restricted, "--expires", "soon", *where)
    assert refused.exit_code == 1
    assert "such as 12h, 7d or 4w" in refused.stderr
