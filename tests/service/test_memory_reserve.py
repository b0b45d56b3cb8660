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

LIMIT = 40 * 2**20
D = 512
"""A snapshot is sent in several chunks: a Redis that is full takes one more of anything, not two."""
SAMPLES = np.random.default_rng(0).standard_normal((64, D))


def test_a_redis_filled_by_batches_has_room_for_the_snapshot_that_trims_them(tmp_path: Path):
    with serving(tmp_path, "--no-scoring") as service, Optimist(service.url) as client:
        experiment = client.create_experiment("full", ["a", "b"], reference=(np.zeros(D), np.eye(D)))
        socket = f"{json.loads((tmp_path / 'lock').read_text())['runtime']}/redis.sock"
        keys = itertools.count()

        def append(rows: int) -> httpx.Response:
            key, body = next(keys), tensors.encode({"features": SAMPLES[:rows]})
            url = f"{service.url}/v1/experiments/full/generators/{'ab'[key % 2]}/batches"
            headers = {"content-type": tensors.MEDIA_TYPE, "idempotency-key": str(key)}
            return httpx.post(url, content=body, headers=headers, timeout=60)

        with Redis(unix_socket_path=socket) as redis:

            def used() -> int:
                return redis.info("memory")["used_memory"]

            redis.config_set("maxmemory", LIMIT)
            for rows in (64, 8, 1):
                while append(rows).status_code != 503:
                    pass
            assert used() < LIMIT - 15 * 2**20
            refused = append(1)
            assert refused.json()["type"] == "urn:optimist:problem:memory-full"
            assert "16 of the 40 MiB" in refused.json()["detail"]
            assert experiment.ask() is not None, "asks may take some of what is kept of tells"
            scorer = subprocess.Popen([sys.executable, "-m", "optimist.cli", "scorer", f"--redis-url=unix://{socket}"])
            try:
                # Not a batch that slips in beside it, but the logs of both.
                until(lambda: used() < LIMIT // 2)
            finally:
                scorer.terminate()
                scorer.wait(30)
        assert append(64).status_code == 200
