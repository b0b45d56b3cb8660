"""Redis' memory runs full: batches are refused early enough for the snapshot that makes room again."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from pathlib import Path

import httpx
import numpy as np
from processes import serving, until
from redis import Redis

from optimist_client import Optimist, tensors

LIMIT = 48 * 2**20
D = 256
BODY = tensors.encode({"features": np.random.default_rng(0).standard_normal((256, D))})


def test_a_redis_filled_by_batches_has_room_for_the_snapshot_that_trims_them(tmp_path: Path):
    with serving(tmp_path, "--no-scoring") as service, Optimist(service.url) as client:
        experiment = client.create_experiment("full", ["a", "b"], reference=(np.zeros(D), np.eye(D)))
        socket = f"{json.loads((tmp_path / 'lock').read_text())['runtime']}/redis.sock"
        keys = itertools.count()

        def append() -> httpx.Response:
            key = next(keys)
            url = f"{service.url}/v1/experiments/full/generators/{'ab'[key % 2]}/batches"
            headers = {"content-type": tensors.MEDIA_TYPE, "idempotency-key": str(key)}
            return httpx.post(url, content=BODY, headers=headers, timeout=60)

        with Redis(unix_socket_path=socket) as redis:
            redis.config_set("maxmemory", LIMIT)
            until(lambda: append().status_code == 503)
            full = redis.info("memory")["used_memory"]
        refused = append()
        assert refused.json()["type"] == "urn:optimist:problem:memory-full"
        assert "16 of the 48 MiB" in refused.json()["detail"]
        assert full < LIMIT - 15 * 2**20
        assert experiment.ask() is not None, "asks may take some of what is kept of tells"
        scorer = subprocess.Popen([sys.executable, "-m", "optimist.cli", "score", f"--redis-url=unix://{socket}"])
        try:
            until(lambda: append().status_code == 200)
        finally:
            scorer.terminate()
            scorer.wait(30)
