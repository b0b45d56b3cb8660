"""Charts after Redis has gone back in time: of what was lost since, nothing stays."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass

import httpx
import numpy as np
import pytest
from redis import Redis

from optimist.store import running_url
from optimist.store.keys import experiment_key
from optimist_client import Optimist
from optimist_client.models import Progress, Report
from tests.support.pages import OpenPage
from tests.support.processes import Service, append_batch

REFUSED = "Failed to load resource"
GENERATORS = ["good", "bad", "worse"]
pytestmark = pytest.mark.long


@dataclass
class Site:
    """A service, and the Redis that it works on."""

    http: httpx.Client
    redis: Redis

    def tell(self, name: str, generator: str, batches: int, rows: int, score: float) -> None:
        """Batches of a generator, and an estimate of it such as a scorer would have published then."""
        for _ in range(batches):
            arrays = {"probabilities": np.eye(3)[np.arange(rows) % 3]}
            append_batch(str(self.http.base_url).rstrip("/"), name, generator, arrays).raise_for_status()
        told = self.redis.hget(experiment_key(name, "counts"), "told")
        assert isinstance(told, bytes)
        point = json.dumps([batches * rows, score, score - 0.1, score + 0.1])
        curve = experiment_key(name, f"curve:{GENERATORS.index(generator)}:is")
        self.redis.rpush(curve, f"{told.decode()} {batches} {point}")

    def saved(self) -> dict[bytes, bytes]:
        """All that Redis holds."""
        keys: list[bytes] = list(self.redis.scan_iter())
        return {key: value for key in keys if isinstance(value := self.redis.dump(key), bytes)}

    def go_back(self, saved: dict[bytes, bytes]) -> None:
        """Let Redis hold this again, and nothing else."""
        with self.redis.pipeline(transaction=True) as pipeline:
            pipeline.flushall()
            for key, value in saved.items():
                pipeline.restore(key, 0, value)
            pipeline.execute()

    def progress(self, name: str, told: int) -> Progress:
        """All of it, once the service has seen so many batches: it answers as of a second ago."""
        deadline = time.monotonic() + 30
        while True:
            report = Report.model_validate(self.http.get(f"/v1/experiments/{name}/report?after=0").json())
            assert report.progress is not None
            if report.progress.told == told:
                assert [one.batches[-1] for one in report.progress.generators] == [s.batches for s in report.standings]
                return report.progress
            assert time.monotonic() < deadline, "waited too long"
            time.sleep(0.05)


@pytest.fixture(scope="module")
def service(mortal: Service) -> Service:
    return mortal


@pytest.fixture
def site(service: Service) -> Iterator[Site]:
    url = running_url(service.directory)
    assert url is not None
    with httpx.Client(base_url=service.url, timeout=30) as http, Redis.from_url(url) as redis:
        yield Site(http, redis)
        redis.flushall()


@pytest.mark.parametrize(
    ("generator", "batches", "rows"),
    # The last: the same batches up to where the page was, as far as their number and size go.
    [("worse", 5, 7), ("bad", 21, 5)],
    ids=["fewer", "alike"],
)
def test_lost_rounds_leave_the_charts(
    open_page: OpenPage, site: Site, generator: str, batches: int, rows: int, request: pytest.FixtureRequest
):
    name = request.node.callspec.id
    with Optimist(str(site.http.base_url)) as client:
        client.create_experiment(name, GENERATORS, metric="is", dimension=3, stop=False)
    site.tell(name, "good", 20, 5, score=1.5)
    earlier = site.saved()
    site.tell(name, "bad", 20, 5, score=2.5)
    site.progress(name, 40)  # this service knows the progress curve by now
    page = open_page(f"{site.http.base_url}/#/e/{name}?how=open", expected=REFUSED)
    shown = """([samples, scores]) => {
      const data = (plot) => document.getElementById(plot)?.data ?? [];
      const drawn = data("plot-estimates").map((line) => [line.name, line.y]).sort();
      return JSON.stringify([data("plot-shares")[0]?.x, drawn]) === JSON.stringify([samples, scores]);
    }"""
    page.wait_for_function(shown, arg=[list(range(5, 201, 5)), [["bad", [2.5]], ["good", [1.5]]]])
    page.context.set_offline(True)
    site.go_back(earlier)
    site.tell(name, generator, batches, rows, score=3.5)
    progress = site.progress(name, 20 + batches)
    samples = [*range(5, 101, 5), *(100 + rows * batch for batch in range(1, batches + 1))]
    assert progress.samples == samples
    assert {one.generator: one.curve.scores for one in progress.generators if one.curve.scores} == {
        "good": [1.5],
        generator: [3.5],
    }
    page.context.set_offline(False)
    page.wait_for_function(shown, arg=[samples, sorted([["good", [1.5]], [generator, [3.5]]])])
