"""Redis runs full: what it has no room for is refused whole, and the service goes on by itself when there is room."""

from __future__ import annotations

import httpx
import numpy as np
from redis import Redis

from optimist.store import running_url
from optimist_client import Optimist, Pick, tensors
from tests.support.processes import Service, batch_path, scored


def test_a_full_redis_refuses_batches_whole_and_recovers(service: Service, client: Optimist, name: str, reference):
    batch = np.random.default_rng(0).standard_normal((5, 4))
    url = running_url(service.directory)
    assert url is not None
    experiment = client.create_experiment(name, ["a", "b"], reference=reference, seed=1)
    first, second = experiment.ask(worker="1"), experiment.ask(worker="2")

    def tell(pick: Pick) -> httpx.Response:
        return httpx.post(
            service.url + batch_path(pick),
            content=tensors.encode({"features": batch}),
            headers={"content-type": tensors.MEDIA_TYPE},
            timeout=30,
        )

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
