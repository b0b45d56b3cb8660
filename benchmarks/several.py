"""What five watched metrics cost: rounds per second, and processor time of API and scorer, beside FID alone.

    python benchmarks/several.py [--quick] [--seconds 2] [--repeats 5] [--dimension 64]

Two experiments on one service, on an embedded Redis with `appendfsync always`, driven in turns within one run by one
worker, by the same raw client:

- FID alone: batches hold `features` (n, d).
- six metrics: FID decides; watched are IS (`probabilities`, 10 classes), RKE and KID (of the same `features`; KID with
  2,000 real rows), a mean (`latency`) and FID of a second embedding (`dinov2`, d columns). A round is one tell with all
  four arrays, which also takes the next pick.

Both are measured with the default settings, where asks wait for the estimates of the deciding metric that are due, and
with `max_wait` 0 and `rescore_growth` 1, where the way of a batch is measured alone. A period ends only when every
estimate that is due has been made, and the scorer's time is counted to there; rounds per second are counted to the last
round. "per estimate" divides the scorer's time by the number of estimates made, of all metrics. Ratios are medians of
the ratios of adjacent periods, which had the same other jobs beside them.
"""

from __future__ import annotations

import argparse
import itertools
import os
import platform
import statistics
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import numpy as np

from optimist_client import Optimist, tensors
from optimist_client.metrics import FID, KID, RKE, Gaussian, InceptionScore, Mean
from raw import BATCH, GENERATORS, HEADERS, JSON, RawClient, batch_path, cpu_seconds, free_port, process, scorer_of
from rounds import PATH, WARM_UP, header, line

CLASSES, REAL_ROWS = 10, 2000
DISTINCT = 300
"""Number of different batches of a generator, which are told in turn."""
Batches = list[list[dict[str, np.ndarray]]]
ESTIMATES = "optimist_scoring_seconds_count"


class Period(NamedTuple):
    """What one period took, per round."""

    rate: float
    api: float
    scorer: float
    per_estimate: float
    """Seconds of the scorer for each estimate."""


class Driven:
    """An experiment with its one worker."""

    def __init__(self, client: RawClient, url: str, pids: list[int], name: str, arrays: Batches) -> None:
        self.name = name
        self.periods: list[Period] = []
        self._client, self._url, self._pids = client, url, pids
        self._path = f"/v1/experiments/{name}/picks"
        self._bodies = [itertools.cycle([tensors.encode(batch) for batch in own]) for own in arrays]
        self._pick = client.post(self._path, b'{"worker": "w"}', JSON)["picks"][0]

    def warm_up(self) -> None:
        """Run rounds until estimates are rare, as in the steady state of an experiment."""
        for _ in range(WARM_UP):
            self._round()
        self._settle()

    def turn(self, seconds: float) -> None:
        """Run rounds for some time, and wait until all of them are scored."""
        cpu, made = [*map(cpu_seconds, self._pids)], self._estimates()
        start, rounds = time.perf_counter(), 0
        while time.perf_counter() < start + seconds:
            self._round()
            rounds += 1
        rate = rounds / (time.perf_counter() - start)
        self._settle()
        api, scorer = (after - before for after, before in zip(map(cpu_seconds, self._pids), cpu, strict=True))
        estimates = max(1.0, self._estimates() - made)
        self.periods.append(Period(rate, api / rounds, scorer / rounds, scorer / estimates))

    def _round(self) -> None:
        body = next(self._bodies[GENERATORS.index(self._pick["generator"])])
        url = f"{batch_path(self._path, self._pick)}&next=1&worker=w"
        self._pick = self._client.post(url, body, HEADERS)["next"]["picks"][0]

    def _settle(self) -> None:
        """Wait until every estimate that is due has been made."""
        while True:
            report = httpx.get(f"{self._url}/v1/experiments/{self.name}/report").json()
            if report["scored"] and all(watched["scored"] for watched in report.get("watched", {}).values()):
                return
            time.sleep(0.02)

    def _estimates(self) -> float:
        lines = httpx.get(f"{self._url}/metrics").text.splitlines()
        return sum(float(each.split()[-1]) for each in lines if each.startswith(ESTIMATES))


def batches(d: int) -> Batches:
    """`DISTINCT` batches of each generator, with all arrays."""
    rng = np.random.default_rng(0)
    return [[_batch(rng, d, g) for _ in range(DISTINCT)] for g in range(len(GENERATORS))]


def _batch(rng: np.random.Generator, d: int, g: int) -> dict[str, np.ndarray]:
    return {
        "features": (rng.standard_normal((BATCH, d)) + 0.1 * g).astype(np.float32),
        "dinov2": (rng.standard_normal((BATCH, d)) * (1 + 0.1 * g)).astype(np.float32),
        "probabilities": rng.dirichlet(np.full(CLASSES, 0.3 + 0.1 * g), BATCH),
        "latency": (1.0 + 0.1 * g + rng.exponential(size=(BATCH, 1))).astype(np.float32),
    }


def create(optimist: Optimist, name: str, d: int, several: bool, **config: Any) -> None:
    """Create an experiment on FID, which watches the other metrics if there are several."""
    watch = [
        InceptionScore(dimension=CLASSES),
        RKE(kernel=Gaussian(sigma=float(np.sqrt(2 * d)), features=d)),
        KID(reference="real"),
        Mean(reads="latency", higher_is_better=False),
        FID(reads="dinov2", reference="normal"),
    ]
    optimist.create_experiment(
        name,
        GENERATORS,
        metric=FID(reference="normal"),
        watch=watch if several else [],
        stop=False,
        refuse_copies=False,
        **config,
    )


def main() -> None:
    """Run the measurements and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="two short periods")
    parser.add_argument("--seconds", type=float, default=2.0, help="length of one period")
    parser.add_argument("--repeats", type=int, default=5, help="number of periods of each experiment")
    parser.add_argument("--dimension", type=int, default=64)
    options = parser.parse_args()
    if options.quick:
        options.repeats, options.seconds = 2, min(options.seconds, 1.0)
    d = options.dimension
    print(f"Batches of {BATCH}, d = {d}; {os.cpu_count()} cores, {platform.machine()}\n")
    header("settings", "metrics", "rounds/s", "API, µs/round", "scorer, µs/round", "scorer, µs/estimate")
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="several-")))
        port = free_port()
        serve = [sys.executable, "-m", "optimist.cli", "serve", f"--port={port}", f"--data-dir={directory}/data"]
        pid = stack.enter_context(process(serve, port))
        url, pids = f"http://127.0.0.1:{port}", [pid, scorer_of(pid)]
        optimist = stack.enter_context(Optimist(url))
        optimist.create_reference("normal", mean=np.zeros(d), covariance=np.eye(d))
        real = np.random.default_rng(1).standard_normal((REAL_ROWS, d), dtype=np.float32)
        optimist.create_reference("real", features=real, keep_rows=True)
        everything = batches(d)
        alone = [[{"features": batch["features"]} for batch in own] for own in everything]
        for settings, config in (("default", {}), ("no waiting", PATH)):
            tag = settings.partition(" ")[0]
            pair: list[Driven] = []
            for name, arrays in ((f"one-{tag}", alone), (f"six-{tag}", everything)):
                create(optimist, name, d, several=arrays is everything, **config)
                pair.append(Driven(RawClient(port), url, pids, name, arrays))
            for driven in pair:
                driven.warm_up()
            for _ in range(options.repeats):
                for driven in pair:
                    driven.turn(options.seconds)
            for driven, metrics in zip(pair, ("FID", "six"), strict=True):
                rate, *times = (statistics.median(each) for each in zip(*driven.periods, strict=True))
                line(settings, metrics, f"{rate:.0f}", *(f"{1e6 * each:.0f}" for each in times))
            one, six = (driven.periods for driven in pair)
            ratios = [[b / a for a, b in zip(*both, strict=True)] for both in zip(one, six, strict=True)]
            line(settings, "ratio", *(f"{statistics.median(each):.2f}" for each in zip(*ratios, strict=True)))


if __name__ == "__main__":
    main()
