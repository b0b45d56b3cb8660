"""Rounds per second through HTTP: tell a batch and ask for the next pick.

    python benchmarks/rounds.py [--quick] [--seconds 1] [--repeats 5] [--dimensions 64 768 2048] [--workers 1 16]
        [--generators 5 100 1000] [--variants combined] [--against PATH] [--processes 1 2]

The service runs on an embedded Redis with `appendfsync always`; a raw client drives it over keep-alive connections. The
output has medians over periods in which the variants take turns, with `--against` also the service of another checkout.
What users wait for is measured by `waiting.py`. The variants are:

- combined: a round is one `POST …/batch?next=1`. All workers share one experiment, or each has its own.
- two requests: a round is a tell, then an ask.
- default: combined, with the default settings of an experiment: asks wait for estimates, so the time includes the
  scorer's. In the other variants estimates are due when the samples have doubled (`rescore_growth` 1), and asks do not
  wait for them (`max_wait` 0).

Every experiment has 320 rounds, or one for each generator, before the measurement: in the first rounds an estimate is
due after nearly every batch, which is not the steady state of a run.

"CPU" is processor time per round of the process that answers, "scorer" that of the service's scorer, "Redis" that of
redis-server: these numbers are disturbed least by other jobs on the machine. With several numbers of `--processes`
services with so many API processes take turns; "API" is the number, and "CPU" the sum of these processes. "client" is
the share of one core that the load generator takes, with one thread per connection.
"""

from __future__ import annotations

import argparse
import os
import platform
import random
import statistics
import struct
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from optimist_client import Optimist, tensors
from raw import (
    BATCH,
    HEADERS,
    JSON,
    RawClient,
    batch_path,
    checkouts_of,
    cpu_seconds,
    free_port,
    header,
    line,
    process,
    redis_of,
    scorer_of,
    serve,
    wait_for_sockets,
    workers_of,
)

Action = Callable[[], object]
"""One round of one worker."""
Bodies = Mapping[str, bytes]
"""A batch of each generator, by its name."""
PATH: Mapping[str, Any] = {"max_wait": 0.0, "rescore_growth": 1.0, "grow": False}
WARM_UP = 320
"""Number of rounds of an experiment before it is measured, at least."""


@dataclass
class Variant:
    """A variant: the actions of its workers, the number of experiments, and the processes that serve them."""

    name: str
    actions: list[Action]
    pids: list[list[int]]
    """Of the processes that answer, of the scorer, of redis-server."""
    rounds: int
    """Before the measurement, of each experiment."""
    experiments: int = 1
    settle: Callable[[], None] = lambda: None
    """Waits until every estimate that is due has been made."""
    other: Variant | None = None
    """The same variant of the service of another checkout."""
    rates: list[float] = field(default_factory=list)
    cpu: list[list[float]] = field(default_factory=list)
    client: list[float] = field(default_factory=list)
    latencies: list[float] = field(default_factory=list)

    def warm_up(self) -> None:
        """Run rounds until every experiment is in its steady state, and let the scorer finish."""
        rounds = -(-self.rounds * self.experiments // len(self.actions))

        def work(action: Action) -> None:
            for _ in range(rounds):
                action()

        self._side_by_side(work)
        self.settle()

    def turn(self, seconds: float) -> None:
        """Let all workers run rounds for some time."""
        latencies: list[float] = []

        def work(action: Action) -> None:
            while (begun := time.perf_counter()) < end:
                action()
                latencies.append(time.perf_counter() - begun)

        cpu, client, start = [*map(cpu_of, self.pids)], time.process_time(), time.perf_counter()
        end = start + seconds
        self._side_by_side(work)
        taken = time.perf_counter() - start
        self.rates.append(len(latencies) / taken)
        used = zip(map(cpu_of, self.pids), cpu, strict=True)
        self.cpu.append([(after - before) / len(latencies) for after, before in used])
        self.client.append((time.process_time() - client) / taken)
        self.latencies += latencies

    @property
    def costs(self) -> list[float]:
        """Processor seconds of a round, medians over the turns, of each kind of process as in `pids`."""
        return [statistics.median(each) for each in zip(*self.cpu, strict=True)]

    def _side_by_side(self, work: Callable[[Action], None]) -> None:
        """Run the actions of each worker in a thread. Raises what one of them raised."""
        with ThreadPoolExecutor(len(self.actions)) as pool:
            for done in [pool.submit(work, action) for action in self.actions]:
                done.result()


class Service:
    """A service under test, and the batches that its experiments are told."""

    def __init__(self, checkout: Path, directory: Path, processes: int, stack: ExitStack) -> None:
        """Start the service of this checkout, which ends with the stack. Its data go into the directory."""
        self.port = free_port()
        several = [f"--workers={processes}"] if processes > 1 else []
        pid = stack.enter_context(process(serve(self.port, directory, *several), self.port, checkout))
        wait_for_sockets(self.port, processes)
        self.pids = [workers_of(pid), [scorer_of(pid)], [redis_of(pid)]]
        self._optimist = stack.enter_context(Optimist(f"http://127.0.0.1:{self.port}"))
        self._rng = np.random.default_rng(0)
        self._experiments: list[str] = []

    def bodies(self, d: int, generators: int) -> Bodies:
        """An encoded batch of each generator, by name: they get worse and worse."""
        names = [f"g{g}" for g in range(generators)]
        batches = [self._rng.standard_normal((BATCH, d)) + 0.5 * g / generators for g in range(generators)]
        encoded = [tensors.encode({"features": batch.astype(np.float32)}) for batch in batches]
        return dict(zip(names, encoded, strict=True))

    def experiment(self, name: str, d: int, generators: Sequence[str], **config: Any) -> str:
        """Create an experiment; return the path of its picks."""
        reference = f"normal-{d}"
        self._optimist.create_reference(reference, mean=np.zeros(d), covariance=np.eye(d))
        self._optimist.create_experiment(name, list(generators), reference=reference, stop=False, **config)
        self._experiments.append(name)
        return f"/v1/experiments/{name}/picks"

    def settle(self) -> None:
        """Wait until every estimate that is due has been made."""
        for name in self._experiments:
            while not self._optimist.experiment(name).report().scored:
                time.sleep(0.1)

    def combined(self, path: str, worker: str, bodies: Bodies) -> Action:
        """A worker that tells its pick and takes the next one from the answer."""
        client = RawClient(self.port)
        pick = client.post(path, b'{"worker": "%s"}' % worker.encode(), JSON)["picks"][0]

        def action() -> None:
            nonlocal pick
            body = fresh(bodies[pick["generator"]])
            pick = client.post(f"{batch_path(path, pick)}&next=1&worker={worker}", body, HEADERS)["next"]["picks"][0]

        return action

    def two_requests(self, path: str, worker: str, bodies: Bodies) -> Action:
        """A worker that asks, then tells."""
        client, ask = RawClient(self.port), b'{"worker": "%s"}' % worker.encode()

        def action() -> None:
            pick = client.post(path, ask, JSON)["picks"][0]
            client.post(batch_path(path, pick), fresh(bodies[pick["generator"]]), HEADERS)

        return action


def cpu_of(pids: list[int]) -> float:
    """The processor time that some processes have used together, in seconds."""
    return sum(map(cpu_seconds, pids))


def fresh(body: bytes) -> bytes:
    """The batch with another last number: the service notes batches that are equal, which in a real run none are."""
    return body[:-4] + struct.pack("<f", random.random())


def variants(service: Service, bodies: Bodies, d: int, workers: int) -> dict[str, Callable[[], Variant]]:
    """What makes each variant of the service, by its short name, for one dimension and number of workers."""
    tag, names = f"{d}-{len(bodies)}-{workers}", [f"w{i}" for i in range(workers)]
    variant = partial(Variant, pids=service.pids, rounds=max(WARM_UP, len(bodies)), settle=service.settle)
    experiment = partial(service.experiment, d=d, generators=[*bodies])

    def combined() -> Variant:
        shared = experiment(f"one-{tag}", **PATH)
        actions = [service.combined(shared, name, bodies) for name in names]
        return variant("combined", actions)

    def own() -> Variant:
        paths = [experiment(f"own-{tag}-{name}", **PATH) for name in names]
        actions = [service.combined(path, name, bodies) for path, name in zip(paths, names, strict=True)]
        return variant("combined, an experiment each", actions, experiments=len(paths))

    def two() -> Variant:
        shared = experiment(f"two-{tag}", **PATH)
        actions = [service.two_requests(shared, name, bodies) for name in names]
        return variant("two requests", actions)

    def default() -> Variant:
        shared = experiment(f"default-{tag}", grow=False)
        actions = [service.combined(shared, name, bodies) for name in names]
        return variant("default", actions)

    return {"combined": combined, "two": two, **({"default": default} if workers == 1 else {"own": own})}


def turns(groups: list[list[Variant]], repeats: int, seconds: float) -> None:
    """Warm up, then let the variants take turns; every other time in the opposite order within each group.

    Never in the opposite order as a whole: the last one would then go on at once, and be warmer than the others.
    """
    for group in groups:
        for variant in group:
            variant.warm_up()
    for repeat in range(repeats):
        for group in groups:
            for variant in group[:: -1 if repeat % 2 else 1]:
                variant.turn(seconds)


def main() -> None:
    """Run the measurements and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="only d = 64, two short periods")
    parser.add_argument("--seconds", type=float, default=1.0, help="length of one period")
    parser.add_argument("--repeats", type=int, default=5, help="number of periods of each variant")
    parser.add_argument("--dimensions", type=int, nargs="+", default=[64, 768, 2048])
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 16])
    parser.add_argument("--generators", type=int, nargs="+", default=[5])
    parser.add_argument("--variants", nargs="+", default=["combined", "own", "two", "default"])
    parser.add_argument("--against", type=Path, help="another checkout, whose service takes turns")
    parser.add_argument("--processes", type=int, nargs="+", default=[1], help="numbers of API processes, in turns")
    options = parser.parse_args()
    if options.quick:
        options.dimensions, options.repeats, options.seconds = [64], 2, min(options.seconds, 0.5)
    print(f"Batches of {BATCH}, float32; {os.cpu_count()} cores, {platform.machine()}\n")
    columns = [
        "d",
        "generators",
        "workers",
        "",
        "API",
        "rounds/s",
        "p50, ms",
        "p99, ms",
        "CPU, µs",
        "scorer, µs",
        "Redis, µs",
    ]
    header(*columns, "client", *(["rate, CPU, Redis to the other"] if options.against else []))
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rounds-")))
        cases = [(path, count) for path in checkouts_of(options.against) for count in options.processes]
        services = [Service(path, directory / f"{i}", count, stack) for i, (path, count) in enumerate(cases)]
        for d, generators, workers in product(options.dimensions, options.generators, options.workers):
            bodies = services[0].bodies(d, generators)
            made = [variants(service, bodies, d, workers) for service in services]
            groups: list[list[Variant]] = []
            for name in (name for name in made[0] if name in options.variants):
                group = [each[name]() for each in made]
                for mine, theirs in zip(group, group[len(options.processes) :], strict=False):
                    mine.other = theirs
                groups.append(group)
            turns(groups, options.repeats, options.seconds)
            for variant in (variant for group in groups for variant in group):
                line(f"{d}", f"{generators}", f"{workers}", *cells(variant))


def cells(variant: Variant) -> list[str]:
    """The cells of one variant."""
    p50, p99 = np.percentile(variant.latencies, [50, 99]) * 1e3
    cpu, scorer, redis = variant.costs
    return [
        variant.name,
        f"{len(variant.pids[0])}",
        f"{statistics.median(variant.rates):.0f}",
        f"{p50:.1f}",
        f"{p99:.1f}",
        f"{cpu * 1e6:.0f}",
        f"{scorer * 1e6:.0f}",
        f"{redis * 1e6:.0f}",
        f"{statistics.median(variant.client):.0%}",
        *([] if variant.other is None else [_compared(variant, variant.other)]),
    ]


def _compared(variant: Variant, other: Variant) -> str:
    rates = _ratio(variant.rates, other.rates)
    cpu, redis = (_ratio([one[i] for one in variant.cpu], [one[i] for one in other.cpu]) for i in (0, 2))
    return f"{rates:.2f}, {cpu:.2f}, {redis:.2f}"


def _ratio(these: list[float], those: list[float]) -> float:
    """The median ratio of one turn: both had the same other jobs beside them."""
    return statistics.median(a / b for a, b in zip(these, those, strict=True))


if __name__ == "__main__":
    main()
