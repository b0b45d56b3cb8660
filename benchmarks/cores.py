"""What a machine can do by its cores: processor time of a round by process, and of a scored batch, and what follows.

    python benchmarks/cores.py [--cores 2 8 32] [--dimensions 64 768 2048] [--processes 1 2] [--samples 1000]
        [--repeats 5] [--seconds 1]

Three tables. All times are processor time, which other jobs on the machine disturb least; all are medians.

1. Scored batches: a generator that has `--samples` rows is told 5 at a time, and each time the next pick waits for the
   estimate if one is due; the scorer's time divided by the batches. "4 %" is the default, "0" the preset `fd-ucb`,
   which scores every batch. A turn has so many batches that the samples grow by 12 %, and at least 25 of them.
2. Rounds as in `rounds.py`: 16 loops on one experiment, and with one each, on services with one and with several API
   processes, which take turns. Estimates are due when the samples have doubled, so the scorer's share is that of taking
   batches in.
3. Calculated from these, for many experiments whose batches are all scored: the most rounds per second, with the times
   per round of the API (a, of the most processes, an experiment for each loop), of Redis (r), and of the scorer (s, of
   a scored batch): with one scorer min(1 / r, 1 / s, cores / (a + r + s)), with several without 1 / s. Scripts of Redis
   run on one thread, and so does a scorer with `OMP_NUM_THREADS=1`, as here. The API processes (N) and scorers are the
   fewest that reach it: rate × a and rate × s, rounded up.
"""

from __future__ import annotations

import argparse
import math
import os
import platform
import statistics
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np

from optimist_client import tensors
from raw import BATCH, HEADERS, JSON, RawClient, batch_path, cpu_seconds
from rounds import Service, Variant, header, line, turns, variants

LOOPS = 16
GROWTHS = {"4 %": {}, "0": {"policy": "fd-ucb"}}
"""Settings of an experiment by how its estimates are due."""
LEAST = 25
"""Least number of batches in a turn."""


@contextmanager
def started(processes: list[int]) -> Iterator[list[Service]]:
    """A service with nothing in it for each number of API processes."""
    here = Path(__file__).resolve().parents[1]
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="cores-")))
        yield [Service(here, directory / f"{count}", count, stack) for count in processes]


def rounds_of(services: list[Service], d: int, repeats: int, seconds: float) -> list[list[Variant]]:
    """The measured variants of each service: all loops on one experiment, and an experiment for each."""
    bodies = services[0].bodies(d)
    made = [variants(service, bodies, d, LOOPS) for service in services]
    groups = [[each[name]() for each in made] for name in ("combined", "own")]
    turns(groups, repeats, seconds)
    return groups


def scored(service: Service, d: int, growth: str, samples: int, repeats: int) -> float:
    """Seconds of the scorer for a batch of a generator that has some `samples` rows, the median over turns."""
    name, rng = f"scored-{d}-{growth.strip(' %')}", np.random.default_rng(0)
    picks = service.experiment(name, d, **GROWTHS[growth])
    client = RawClient(service.port)

    def tell(path: str, rows: int, headers: dict[str, str]) -> None:
        body = tensors.encode({"features": rng.standard_normal((rows, d), np.float32)})
        client.post(path, body, HEADERS | headers)

    def ask() -> dict:
        return client.post(picks, b'{"worker": "w", "generators": ["a"]}', JSON)["picks"][0]

    tell(f"/v1/experiments/{name}/generators/a/batches", samples, {"idempotency-key": "first"})
    pick, taken = ask(), []
    for _ in range(repeats):
        count = max(LEAST, math.ceil(0.12 * samples / BATCH))
        begun = cpu_seconds(service.pids[1][0])
        for _ in range(count):
            tell(batch_path(picks, pick), BATCH, {})
            pick = ask()
        taken.append((cpu_seconds(service.pids[1][0]) - begun) / count)
    return statistics.median(taken)


def most(limits: dict[str, float]) -> tuple[float, str]:
    """The least of these rates, and its name."""
    name = min(limits, key=lambda each: limits[each])
    return limits[name], name


def calculated(cores: int, api: float, redis: float, scorer: float) -> list[str]:
    """The cells of a row of the last table, from seconds of a round."""
    shared = {"Redis": 1 / redis, "the cores": cores / (api + redis + scorer)}
    cells = []
    for rate, name in (most({**shared, "the scorer": 1 / scorer}), most(shared)):
        cells += [f"{rate:.0f}", name, f"{math.ceil(rate * api)}", f"{math.ceil(rate * scorer)}"]
    return [*cells[:3], *cells[4:]]


def main() -> None:
    """Measure, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cores", type=int, nargs="+", default=[2, 8, 32])
    parser.add_argument("--dimensions", type=int, nargs="+", default=[64, 768, 2048])
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2], help="numbers of API processes, in turns")
    parser.add_argument("--samples", type=int, default=1000, help="rows of the generator whose batches are scored")
    parser.add_argument("--repeats", type=int, default=5, help="number of turns")
    parser.add_argument("--seconds", type=float, default=1.0, help="length of a turn of rounds")
    options = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"  # for the child processes
    print(f"Batches of {BATCH}, float32; {os.cpu_count()} cores, {platform.machine()}, load {os.getloadavg()[0]:.1f}\n")
    scores, times = {}, {}
    header("d", "growth", "scorer, ms per batch", "batches/s of one scorer")
    with started([1]) as (service,):
        for d in options.dimensions:
            for growth in GROWTHS:
                took = scores[d, growth] = scored(service, d, growth, options.samples, options.repeats)
                line(f"{d}", growth, f"{1e3 * took:.1f}", f"{1 / took:.0f}")
    print()
    header("d", "16 loops on", "API processes", "rounds/s", "API, µs", "Redis, µs", "scorer, µs")
    for d in options.dimensions:
        with started(options.processes) as services:
            groups = rounds_of(services, d, options.repeats, options.seconds)
        for variant, what in (
            (each, what) for group, what in zip(groups, ("one", "16"), strict=True) for each in group
        ):
            api, scorer, redis = variant.costs
            costs = (f"{1e6 * each:.0f}" for each in (api, redis, scorer))
            line(f"{d}", what, f"{len(variant.pids[0])}", f"{statistics.median(variant.rates):.0f}", *costs)
            times[d] = api, redis
    print(f"\nCalculated; load {os.getloadavg()[0]:.1f} at the end\n")
    one, several = ("one scorer: rounds/s", "what limits", "N"), ("several: rounds/s", "what limits", "N", "scorers")
    header("cores", "d", "growth", *one, *several)
    for cores in options.cores:
        for (d, growth), scorer in scores.items():
            line(f"{cores}", f"{d}", growth, *calculated(cores, *times[d], scorer))


if __name__ == "__main__":
    main()
