"""Trials of corrections of several tenants, and what one leaves behind whose process is killed."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import httpx
import numpy as np
import pytest
from redis import Redis

from optimist.store import running_url
from optimist.store.copies import COPY_SECONDS
from tests.support.keys import client_of, guarded, new_key
from tests.support.processes import Service, until

CONFIG = {"generators": ["a", "b"], "metric": {"name": "mean"}, "stop": False}


def make(http: httpx.Client, name: str, batches: int) -> None:
    http.post("/v1/experiments", json={"name": name, **CONFIG}).raise_for_status()
    for number in range(batches):
        body, key = {"values": np.ones((5, 1)).tolist()}, {"idempotency-key": f"{number}"}
        http.post(f"/v1/experiments/{name}/generators/a/batches", json=body, headers=key).raise_for_status()


def trial(http: httpx.Client, name: str) -> httpx.Response:
    return http.post(f"/v1/experiments/{name}/corrections", params={"trial": True}, json={"reason": "r"}, timeout=90)


def copies(redis: Redis, part: str = "*") -> list[bytes]:
    found = list(map(bytes, redis.keys(f"optimist:*~/*:{part}")))
    return [key for key in found if b":import:" not in key]


def redis_of(service: Service) -> Redis:
    url = running_url(service.directory)
    assert url is not None
    return Redis.from_url(url)


def test_of_each_key_one_trial_waits_and_only_for_those_of_its_namespace(tmp_path: Path):
    """Without a scorer a trial takes 20 s, unless its experiment is deleted, by which it ends."""
    with ExitStack() as stack:
        service, key = stack.enter_context(guarded(tmp_path, "--no-scoring"))
        one = stack.enter_context(client_of(service, key))
        other = stack.enter_context(client_of(service, new_key(tmp_path, "admin", "elsewhere")))
        redis = stack.enter_context(redis_of(service))
        threads = stack.enter_context(ThreadPoolExecutor(4))
        make(one, "x", 2)
        make(other, "y", 0)
        refused = threading.Semaphore(0)

        def attempt() -> httpx.Response:
            answer = trial(one, "x")
            if answer.status_code == 429:
                refused.release()
            return answer

        attempts = [threads.submit(attempt) for _ in range(4)]
        for _ in range(2):
            assert refused.acquire(timeout=60)
        until(lambda: copies(redis, "config"))
        answer = trial(other, "y")
        assert (answer.status_code, answer.json()["scored"]) == (200, True)
        assert copies(redis, "config"), "the first one goes on"
        one.delete("/v1/experiments/x").raise_for_status()
        assert copies(redis) == []
        answers = sorted((each.result() for each in attempts), key=lambda answer: answer.status_code)
        assert [answer.status_code for answer in answers] == [404, 404, 429, 429]
        # Of the trial that ran, and of the one that waited for it, in whatever order they came.
        ended = {answer.json()["detail"].partition(" during ")[0] for answer in answers[:2]}
        assert ended == {"the experiment was deleted", "there is no such experiment"}
        assert "another trial waits with the same access key" in answers[2].json()["detail"]
        assert int(answers[2].headers["retry-after"]) >= 1
        assert copies(redis) == []


@pytest.mark.long
def test_what_a_killed_trial_leaves_ends_and_is_deleted(tmp_path: Path):
    with ExitStack() as stack:
        service = Service(tmp_path, "--no-scoring").start()
        stack.callback(service.stop)
        one = stack.enter_context(httpx.Client(base_url=service.url, timeout=60))
        make(one, "x", 2)
        thread = threading.Thread(target=lambda: _cut(one))
        thread.start()
        with redis_of(service) as redis:
            until(lambda: copies(redis, "config"))
            (counts,) = copies(redis, "counts")
            assert 0 < redis.ttl(counts) <= COPY_SECONDS
        service.kill()
        thread.join()
        again = Service(tmp_path).start()
        stack.callback(again.stop)
        with redis_of(again) as redis:
            redis.expire(counts, 1)  # not to wait for it
            until(lambda: copies(redis) == [])
        names = httpx.get(f"{again.url}/v1/experiments").json()["experiments"]
        assert [each["name"] for each in names] == ["x"]


def _cut(http: httpx.Client) -> None:
    try:
        trial(http, "x")
    except httpx.TransportError:
        return
    raise AssertionError("the trial was answered")
