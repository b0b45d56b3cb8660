"""What grows with the number of experiments of 100 generators each, and with the picks that were ever made?

    python benchmarks/growth.py [--quick] [--experiments 10 100 1000] [--picks 1000 20000 200000] [--seconds 5]

Redis (`appendfsync always`), API and scorer are separate processes; API and scorer are started anew for each column. In
the first table so many experiments rest, each with 200 picks that were told and scored (copies of one such experiment,
made inside Redis), and every one of them has been asked for a pick through this API; in another one a worker tells and
asks. In the second table there are ten such experiments, and that other one has been told so many picks, which were
opened and told by the store's own calls, hundreds at once.

"CPU" is the processor time of the API: on a shared machine it says more than the milliseconds that a request took.
Idle shares are of one core, while nobody calls; Redis's commands are those of `INFO commandstats`, which counts the
commands inside scripts, too. "list" is a page of the ten newest, "search" the same of those whose texts match, "poll"
the report with its curve that a dashboard asks for every other second: of an experiment that rests, or of the active
one after some rounds. No answer is one that another request has just got. The scorer begins when it has looked at every
experiment once.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import statistics
import sys
import tempfile
import time
import urllib.request
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from redis import Redis
from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from endurance import MIB, resident
from optimist.records import AskGroup, Batch, Contents, Measures, NewPick, Opening, Size, Slice
from optimist.store import open_store
from optimist.store.keys import EXPERIMENTS, experiment_key
from optimist.store.redis_program import find_program
from optimist_client import Optimist, tensors
from optimist_client.metrics import Mean
from raw import BATCH, HEADERS, JSON, RawClient, batch_path, cpu_seconds, free_port, process

GENERATORS = [f"model-{g:03d}" for g in range(100)]
TOLD = 200
"""Picks that were told of every experiment that rests."""
TOGETHER = 250
"""Picks that are told, and opened, in one step."""
CYCLES = 6
ROUNDS = 40
"""Rounds of each cycle."""
CREATED = 8
PAGE = 10
FRESH = 1.05
"""Seconds after which the API makes a list or a poll anew."""
PATIENCE = 600.0
ACTIVE, MODEL = "active", "resting-0000"


def body_of(rng: np.random.Generator) -> tuple[bytes, np.ndarray]:
    """An encoded batch, and its values (n, 1)."""
    values = rng.standard_normal((BATCH, 1), np.float32)
    return tensors.encode({"values": values}), values


async def tell(url: str, name: str, picks: int, step: Callable[[int], None]) -> None:
    """Open picks of all generators in turn until there are `picks`, and tell them; `step` hears how many there are."""
    rng, places = np.random.default_rng(0), np.random.default_rng(1)
    async with open_store(url) as store:
        state = await store.state(name)
        rounds, last, handed = state.rounds, state.last, [generator.handed for generator in state.generators]
        batches: list[Batch] = []
        while rounds < picks or batches:
            new: list[NewPick] = []
            for _ in range(min(TOGETHER, picks - rounds)):
                g = int(places.integers(len(handed)))
                nonce = uuid.uuid4().hex
                record = json.dumps(
                    {"generator": GENERATORS[g], "size": BATCH, "start": handed[g], "seed": 1, "worker": "filler"}
                )
                new.append(NewPick(g, record, nonce, Slice(handed[g], BATCH), least=1, most=BATCH))
                handed[g] += BATCH
            opening = Opening([AskGroup(uuid.uuid4().hex, new)], 600.0, rounds, last) if new else None
            done = await store.exchange(name, batches, opening)
            assert all(hasattr(one, "seq") for one in done.settled), done.settled
            assert not new or done.opened, "somebody else opens picks of this experiment"
            batches = []
            for number, pick in enumerate(new, rounds + 1):
                body, values = body_of(rng)
                digest, row = tensors.digest({"values": values}), int(np.abs(values).argmax())
                size = Size("values", float(abs(values[row, 0])), row, float((values**2).mean()))
                batches.append(Batch(number, pick.nonce, Contents(digest, BATCH, body, Measures(digest, sizes=[size]))))
            rounds, last = rounds + len(new), new[-1].nonce if new else last
            step(rounds - len(batches))


def copy(redis: Redis, numbers: Sequence[int], step: Callable[[int], None]) -> None:
    """Copy the experiment `MODEL` with all it holds, under other names and as other instances."""
    prefix = experiment_key(MODEL, "")
    keys = [key.decode() for key in redis.scan_iter(f"{prefix.replace('{', '[{]')}*", 1000)]
    parts = [key.removeprefix(prefix) for key in keys]
    config = json.loads(redis.get(f"{prefix}config"))  # type: ignore[arg-type]
    for number in numbers:
        name, instance = f"resting-{number:04d}", uuid.uuid4().hex
        made = {**config, "config": {**config["config"], "name": name}, "instance": instance}
        with redis.pipeline(transaction=False) as pipeline:
            for part in parts:
                pipeline.copy(prefix + part, experiment_key(name, part))
            pipeline.delete(experiment_key(name, "claims"))
            pipeline.set(experiment_key(name, "config"), json.dumps(made))
            pipeline.hset(experiment_key(name, "counts"), "instance", instance)
            pipeline.zadd(EXPERIMENTS, {name: time.time()})
            pipeline.execute()
        step(number + 1)


def commands(redis: Redis) -> int:
    """Commands that Redis has run, those inside scripts included."""
    return sum(one["calls"] for one in redis.info("commandstats").values())  # type: ignore[union-attr]


def redis_seconds(redis: Redis) -> float:
    """Processor time of Redis."""
    info: Any = redis.info("cpu")
    return info["used_cpu_user"] + info["used_cpu_sys"]


@dataclass
class Service:
    """API and scorer, just started, on a Redis that goes on."""

    redis: Redis
    url: str
    port: int
    metrics: int
    api: int
    scorer: int
    raw: RawClient = field(init=False)

    def __post_init__(self) -> None:
        self.raw = RawClient(self.port)

    def swept(self) -> float:
        """When the scorer last looked at all experiments; 0 before that."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics}/metrics", timeout=60) as answer:
            for line in answer.read().decode().splitlines():
                if line.startswith("optimist_sweep_timestamp_seconds "):
                    return float(line.split(" ")[1])
        raise LookupError("no metric of the sweeps")

    def scored(self, name: str) -> None:
        """Wait until the scorer has nothing to do of an experiment."""
        until(lambda: self.raw.get(f"/v1/experiments/{name}/report")["scored"])

    def timed(self, request: Callable[[], object]) -> tuple[float, float]:
        """Milliseconds of a request, and of the API's processor time meanwhile."""
        before, start = cpu_seconds(self.api), time.perf_counter()
        request()
        return 1000 * (time.perf_counter() - start), 1000 * (cpu_seconds(self.api) - before)


def until(holds: Callable[[], bool]) -> None:
    """Wait until something holds."""
    end = time.monotonic() + PATIENCE
    while not holds():
        if time.monotonic() > end:
            raise TimeoutError(f"waited for {PATIENCE:.0f} s")
        time.sleep(0.2)


@contextmanager
def service(redis: Redis, url: str, found: dict[str, float]) -> Iterator[Service]:
    """Start API and scorer, and note what that took."""
    port, metrics = free_port(), free_port()
    optimist, at = [sys.executable, "-m", "optimist.cli"], f"--redis-url={url}"
    with ExitStack() as stack:
        start = time.perf_counter()
        api = stack.enter_context(process([*optimist, "serve", "--no-scoring", f"--port={port}", at], port))
        found["API begins, s"] = time.perf_counter() - start
        scorer = stack.enter_context(process([*optimist, "scorer", at, f"--metrics-port={metrics}"], metrics))
        running = Service(redis, url, port, metrics, api, scorer)
        until(lambda: running.swept() > 0)
        found["scorer begins, s of its CPU"] = cpu_seconds(scorer)
        yield running


def rest(running: Service, seconds: float, found: dict[str, float]) -> None:
    """What is done while nobody calls."""
    time.sleep(1.0)
    before = commands(running.redis), redis_seconds(running.redis), *map(cpu_seconds, (running.api, running.scorer))
    start = time.perf_counter()
    time.sleep(seconds)
    after = commands(running.redis), redis_seconds(running.redis), *map(cpu_seconds, (running.api, running.scorer))
    rates = (np.array(after) - before) / (time.perf_counter() - start)
    found["idle: Redis's commands per second"] = rates[0]
    for what, share in zip(("Redis", "API", "scorer"), rates[1:], strict=True):
        found[f"idle: {what}'s share of a core, %"] = 100 * share


def used(running: Service, resting: Sequence[str], optimist: Optimist, found: dict[str, float]) -> None:
    """Rounds, lists, polls, and new experiments."""
    raw, rng = running.raw, np.random.default_rng(2)
    path, asked = f"/v1/experiments/{ACTIVE}/picks", b'{"worker": "loop"}'
    pick = raw.post(path, asked, JSON)["picks"][0]
    times: dict[str, list[tuple[float, float]]] = {}

    def note(what: str, request: Callable[[], object], count: int = 1) -> None:
        wall, cpu = running.timed(request)
        times.setdefault(what, []).append((wall / count, cpu / count))

    def rounds(count: int) -> None:
        nonlocal pick
        for _ in range(count):
            body, _ = body_of(rng)
            pick = raw.post(f"{batch_path(path, pick)}&next=1&worker=loop", body, HEADERS)["next"]["picks"][0]

    rounds(ROUNDS)
    told = dict.fromkeys((ACTIVE, resting[0]), 0)

    def poll(name: str) -> None:
        told[name] = raw.get(f"/v1/experiments/{name}/report?after={told[name]}")["progress"]["told"]

    for name in told:
        note("first poll", lambda name=name: poll(name))
    for _ in range(CYCLES):
        note("round", lambda: rounds(ROUNDS), ROUNDS)
        time.sleep(FRESH)
        note("list", lambda: raw.get(f"/v1/experiments?limit={PAGE}"))
        note("search", lambda: raw.get(f"/v1/experiments?limit={PAGE}&search=ing-0"))
        note("poll at rest", lambda: poll(resting[0]))
        note("poll", lambda: poll(ACTIVE))
    for _ in range(CREATED):
        name = f"new-{uuid.uuid4().hex[:8]}"
        config = {"name": name, "generators": GENERATORS, "metric": {"name": "mean"}}
        note("create", lambda config=config: raw.post("/v1/experiments", json.dumps(config).encode(), JSON))
        optimist.delete_experiment(name)
    for what, seen in times.items():
        wall, cpu = (statistics.median(column) for column in zip(*seen, strict=True))
        found[f"{what}, p50 ms"], found[f"{what}, ms of CPU"] = wall, cpu


def measured(
    redis: Redis, url: str, resting: Sequence[str], seconds: float, say: Callable[[str], None]
) -> dict[str, float]:
    """Start the service, and measure everything."""
    found: dict[str, float] = {}
    say("starting")
    with service(redis, url, found) as running, Optimist(f"http://127.0.0.1:{running.port}") as optimist:
        say("waiting for the scorer")
        running.scored(ACTIVE)
        say("idle")
        rest(running, seconds, found)
        before = resident(running.api)
        for number, name in enumerate(resting):
            say(f"asking {number + 1} of {len(resting)}")
            running.raw.post(f"/v1/experiments/{name}/picks", b'{"worker": "one"}', JSON)
        found["API, MiB"] = resident(running.api) / MIB
        found["API, KiB per experiment asked"] = (resident(running.api) - before) / 1024 / len(resting)
        found["scorer, MiB"] = resident(running.scorer) / MIB
        say("rounds, lists and polls")
        used(running, resting, optimist, found)
    return found


def table(title: str, columns: Sequence[str], seen: Sequence[dict[str, float]]) -> Table:
    """One row for each measure, with the ratio of last to first."""
    out = Table(title=title, box=box.MARKDOWN)
    for column in ("", *columns, "last / first"):
        out.add_column(column, justify="right" if column else "left", no_wrap=True)
    for what in seen[-1]:
        values = [one.get(what, 0.0) for one in seen]
        texts = [f"{value:,.0f}" if value >= 100 else f"{value:.2f}" for value in values]
        out.add_row(what, *texts, f"{values[-1] / values[0]:.2f}" if values[0] else "")
    return out


def prepare(redis: Redis, url: str, make: int, say: Callable[[str], None]) -> None:
    """Create the active experiment and the one that the others are copies of, tell and score them."""
    with service(redis, url, {}) as running, Optimist(f"http://127.0.0.1:{running.port}") as optimist:
        for name, picks in ((MODEL, TOLD), (ACTIVE, make)):
            optimist.create_experiment(name, GENERATORS, metric=Mean(), stop=False, max_wait=0.0)
            say(f"telling {name}")
            asyncio.run(tell(url, name, picks, lambda _: None))
            running.scored(name)


@contextmanager
def database(directory: Path) -> Iterator[tuple[Redis, str]]:
    """A redis-server that syncs at every write."""
    port = free_port()
    settings = {"port": str(port), "dir": str(directory), "appendonly": "yes", "appendfsync": "always", "save": ""}
    options = [word for name, value in settings.items() for word in (f"--{name}", value)]
    with (
        process([find_program(), "--bind", "127.0.0.1", *options], port),
        Redis(port=port, socket_timeout=120) as redis,
    ):
        yield redis, f"redis://127.0.0.1:{port}"


def by_experiments(counts: Sequence[int], seconds: float, bar: Progress) -> Table:
    """Measure with so many experiments that rest."""
    seen: list[dict[str, float]] = []
    with tempfile.TemporaryDirectory(prefix="growth-") as directory, database(Path(directory)) as (redis, url):
        line = bar.add_task("experiments", total=counts[-1], now="")
        say = lambda now: bar.update(line, now=now)  # noqa: E731
        prepare(redis, url, 10 * len(GENERATORS), say)
        known = 1
        for count in counts:
            say("copying")
            before = redis.info("memory")["used_memory"]  # type: ignore[index]
            copy(redis, range(known, count), lambda made: bar.update(line, completed=made))
            size = (redis.info("memory")["used_memory"] - before) / 1024 / (count - known)  # type: ignore[index]
            known = count
            found = measured(redis, url, [f"resting-{number:04d}" for number in range(count)], seconds, say)
            seen.append({"Redis, KiB per experiment": size, **found})
        bar.update(line, now="done")
    return table("by experiments that rest", [f"{count:,}" for count in counts], seen)


def by_picks(counts: Sequence[int], seconds: float, bar: Progress) -> Table:
    """Measure with so many picks of the active experiment."""
    seen: list[dict[str, float]] = []
    with tempfile.TemporaryDirectory(prefix="growth-") as directory, database(Path(directory)) as (redis, url):
        line = bar.add_task("picks", total=counts[-1], now="")
        say = lambda now: bar.update(line, now=now)  # noqa: E731
        prepare(redis, url, 0, say)
        copy(redis, range(1, 10), lambda _: None)
        base, sizes = redis.info("memory")["used_memory"], dict[str, int]()  # type: ignore[index]
        for count in counts:
            with service(redis, url, {}) as running:
                say("telling")
                asyncio.run(tell(url, ACTIVE, count, lambda told: bar.update(line, completed=told)))
                say("scoring")
                running.scored(ACTIVE)
            size = (redis.info("memory")["used_memory"] - base) / 1024  # type: ignore[index]
            sizes = part_sizes(redis)
            found = measured(redis, url, [f"resting-{number:04d}" for number in range(10)], seconds, say)
            parts = {f"Redis, KiB of {part}": value / 1024 for part, value in sizes.items()}
            seen.append({"Redis, KiB": size, "Redis, bytes per pick": 1024 * size / count, **parts, **found})
        bar.update(line, now="done")
    return table("by picks of one experiment", [f"{count:,}" for count in counts], seen)


def part_sizes(redis: Redis) -> dict[str, int]:
    """Bytes of the parts of the active experiment."""
    prefix, sizes = experiment_key(ACTIVE, ""), dict[str, int]()
    for key in redis.scan_iter(f"{prefix.replace('{', '[{]')}*", 1000):
        part = key.decode().removeprefix(prefix).partition(":")[0]
        sizes[part] = sizes.get(part, 0) + redis.memory_usage(key, samples=20)  # type: ignore[operator]
    return dict(sorted(sizes.items()))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--experiments", type=int, nargs="*", default=[10, 100, 1000])
    parser.add_argument("--picks", type=int, nargs="*", default=[1_000, 20_000, 200_000])
    parser.add_argument("--seconds", type=float, default=5.0, help="seconds without calls")
    parser.add_argument("--quick", action="store_true", help="10 and 100 experiments; 1,000 and 10,000 picks")
    options = parser.parse_args()
    if options.quick:
        options.experiments, options.picks = [10, 100], [1_000, 10_000]
    console, begun = Console(width=160), time.perf_counter()
    columns = (
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.description}, {task.fields[now]}"),
        TimeElapsedColumn(),
    )
    os.environ["OMP_NUM_THREADS"] = "1"  # for the child processes
    with Progress(*columns, console=Console(stderr=True)) as bar:
        if options.experiments:
            console.print(by_experiments(options.experiments, options.seconds, bar))
        if options.picks:
            console.print(by_picks(options.picks, options.seconds, bar))
    load = ", ".join(f"{one:.1f}" for one in os.getloadavg())
    console.print(f"{os.cpu_count()} cores, {platform.machine()}, load {load}; {time.perf_counter() - begun:.0f} s")


if __name__ == "__main__":
    main()
