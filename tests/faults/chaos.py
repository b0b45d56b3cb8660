"""A whole service under attack: replicas, scorers and workers on one Redis, and an adversary with a seed.

    python -m tests.faults.chaos [--seeds 20] [--rounds 10000] [--apis 4] [--scorers 3] [--workers 32] [--json FILE]

Workers reach the API through a proxy, and the API and the scorers reach Redis through another; both can lose replies.
When the budgets are used up, everything is healed and checked (checks.py). The exit code is 1 if anything was wrong.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import platform
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from optimist_client import tensors

from . import checks
from .adversary import Adversary
from .processes import Deployment, RedisServer, ending
from .proxy import Proxy
from .questions import BATCH, QUESTIONS
from .wire import Client
from .workers import Blow, Ledger, Worker


@dataclass(frozen=True)
class Plan:
    """How large a run is. `lease` and `sampling` are seconds; `limit` is when a run that hangs is given up."""

    rounds: int = 10_000
    apis: int = 4
    scorers: int = 3
    workers: int = 32
    blows: int = 54
    pause: float = 6.0
    stop: float = 15.0
    lease: float = 30.0
    sampling: float = 0.1
    growth: float = 0.02
    limit: float = 1800.0


@dataclass
class Outcome:
    """What a run came to; without `violations` every promise was kept."""

    seed: int
    seconds: float = 0.0
    acknowledged: int = 0
    late: int = 0
    duplicates: int = 0
    doubtful: int = 0
    """Told by workers that were killed before the answer; told again in the end."""
    stale: int = 0
    """Picks made without an estimate that was due."""
    blows: list[Blow] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)
    tries: Counter[str] = field(default_factory=Counter)
    exits: list[str] = field(default_factory=list)
    """Processes that ended though nobody had killed them."""
    differences: dict[str, float] = field(default_factory=dict)
    violations: list[str] = field(default_factory=list)


class Crew:
    """Workers that are replaced when they are killed: half of them come back under their name, half under another."""

    def __init__(self, plan: Plan, port: int, ledger: Ledger, rng: random.Random) -> None:
        self.tries: Counter[str] = Counter()
        self._plan = plan
        self._port = port
        self._ledger = ledger
        self._random = rng
        self._names = [f"worker-{i}" for i in range(plan.workers)]
        self._tasks = [asyncio.create_task(self._work(i)) for i in range(plan.workers)]

    def kill(self, number: int) -> None:
        """Kill one in the middle of whatever it does, and have it replaced, unless its work is done."""
        if self._tasks[number].done():
            return
        self._tasks[number].cancel()
        if self._random.random() < 0.5:
            self._names[number] += "-again"
        self._tasks[number] = asyncio.create_task(self._work(number))

    async def finish(self) -> None:
        """Return when every worker has seen all experiments end. Raises what a worker raised."""
        while working := [task for task in self._tasks if not task.done()]:
            await asyncio.wait(working, timeout=0.1)
        for task in self._tasks:
            task.result()

    def dismiss(self) -> None:
        """Let nobody work on."""
        for task in self._tasks:
            task.cancel()

    async def _work(self, number: int) -> None:
        turn = number % len(QUESTIONS)
        questions = [*QUESTIONS[turn:], *QUESTIONS[:turn]]
        worker = Worker(self._names[number], self._port, questions, self._ledger, self._plan.sampling)
        try:
            await worker.run()
        finally:
            self.tries.update(worker.client.tries)


@asynccontextmanager
async def service(
    directory: Path, apis: int, scorers: int
) -> AsyncIterator[tuple[RedisServer, Deployment, Proxy, Proxy]]:
    """A Redis, replicas and scorers, the proxy before the replicas, and the one before Redis; ready to serve."""
    async with AsyncExitStack() as stack:
        redis = RedisServer(directory / "redis")
        await stack.enter_async_context(ending(redis))
        back = Proxy([lambda: asyncio.open_unix_connection(str(redis.socket))])
        await stack.enter_async_context(back.listening())
        deployment = Deployment(directory, f"redis://127.0.0.1:{back.port}", apis, scorers)
        await stack.enter_async_context(ending(*deployment.children))
        front = Proxy([lambda port=port: asyncio.open_connection("127.0.0.1", port) for port in deployment.ports])
        await stack.enter_async_context(front.listening())
        await deployment.ready()
        yield redis, deployment, front, back


async def run(seed: int, plan: Plan, progress: Callable[[int], None] = lambda done: None) -> Outcome:
    """One run; `progress` is told how many rounds are acknowledged."""
    outcome, ledger, began = Outcome(seed), Ledger(), time.monotonic()
    with tempfile.TemporaryDirectory(prefix="chaos-") as place:
        async with service(Path(place), plan.apis, plan.scorers) as (redis, deployment, front, back):
            client = Client(front.port)
            await create_experiments(
                client,
                budget=plan.rounds * BATCH // len(QUESTIONS),
                lease=plan.lease,
                rescore_growth=plan.growth,
                max_wait=0.5,
                seed=seed,
            )
            rng = random.Random(seed)
            crew = Crew(plan, front.port, ledger, rng)
            adversary = Adversary(
                rng, redis, deployment, front, back, plan.workers, crew.kill, ledger.strike, plan.pause, plan.stop
            )
            attack = asyncio.create_task(_attack(adversary, ledger, plan, progress))
            try:
                async with asyncio.timeout(plan.limit):
                    await crew.finish()
            except TimeoutError:
                ledger.violations.append(f"the run did not end within {plan.limit:g} s")
            finally:
                crew.dismiss()
                attack.cancel()
                await asyncio.gather(attack, return_exceptions=True)
                await adversary.heal()
            if not attack.cancelled():
                attack.result()  # raises what ended the attack too soon
            await deployment.ready()
            outcome.doubtful = await checks.settle_doubts(client, QUESTIONS, ledger)
            reports = await checks.calm(client, QUESTIONS, plan.lease + 60.0)
            numbers, outcome.differences = checks.check_numbers(reports, QUESTIONS, ledger, plan.growth)
            with redis.client() as connection:
                outcome.violations = [
                    *ledger.violations,
                    *checks.check_picks(ledger),
                    *checks.check_counts(reports, ledger),
                    *numbers,
                    *checks.check_keys(connection, QUESTIONS),
                    *await checks.check_deleting(client, connection, QUESTIONS),
                ]
            client.abort()
            outcome.exits = [line for child in (*deployment.children, redis.child) for line in child.exits]
    outcome.seconds = time.monotonic() - began
    outcome.acknowledged = len(ledger.acknowledged)
    outcome.late, outcome.duplicates, outcome.stale = ledger.late, ledger.duplicates, ledger.stale
    outcome.blows, outcome.waits, outcome.tries = ledger.blows, ledger.waits, crew.tries
    return outcome


async def create_experiments(client: Client, **config: Any) -> None:
    """One experiment a metric, all with this config."""
    for question in QUESTIONS:
        if question.reference is not None:
            mean, covariance = question.reference
            body = tensors.encode({"mean": mean, "covariance": covariance})
            await client.call("POST", f"/v1/references?name={question.name}-reference", body)
        await client.call("POST", "/v1/experiments", question.config(**config))


async def _attack(adversary: Adversary, ledger: Ledger, plan: Plan, progress: Callable[[int], None]) -> None:
    """Deal the blows evenly over the rounds, so that a slow machine sees as many as a fast one."""
    kinds = adversary.schedule(plan.blows)
    for number, kind in enumerate(kinds, start=1):
        while len(ledger.acknowledged) < plan.rounds * number / (len(kinds) + 1):
            await asyncio.sleep(0.02)
            progress(len(ledger.acknowledged))
        adversary.do(kind)
    while True:
        await asyncio.sleep(0.1)
        progress(len(ledger.acknowledged))


def record(outcome: Outcome) -> dict[str, Any]:
    """Everything of a run as JSON takes it."""
    blows = [
        {"kind": blow.kind, "next_tell": blow.next_tell, "next_estimate": blow.next_estimate} for blow in outcome.blows
    ]
    return vars(outcome) | {"blows": blows}


def recovery_table(outcomes: list[Outcome]) -> Table:
    """Seconds from a blow to the next acknowledged tell, and to the next new estimate, by kind."""
    table = Table(title="seconds from a blow until it serves again", box=box.MARKDOWN)
    for column in ("blow", "times", "next tell p50", "p99", "next estimate p50", "p99"):
        table.add_column(column, justify="left" if column == "blow" else "right", no_wrap=True)
    blows = [blow for outcome in outcomes for blow in outcome.blows]
    for kind in sorted({blow.kind for blow in blows}):
        those = [blow for blow in blows if blow.kind == kind]
        columns = [[b.next_tell for b in those], [b.next_estimate for b in those]]
        table.add_row(kind, str(len(those)), *(cell for column in columns for cell in _quantiles(column)))
    return table


def run_table(outcomes: list[Outcome]) -> Table:
    """One row a seed."""
    table = Table(title="runs", box=box.MARKDOWN)
    for column in ("seed", "rounds", "s", "blows", "tries again", "repeats", "late", "doubtful", "stale", "wait p50",
                   "p99", "longest", "score off by", "error", "wrong"):  # fmt: skip
        table.add_column(column, justify="right", no_wrap=True)
    for o in outcomes:
        worst = [f"{o.differences.get(name, float('nan')):.0e}" for name in ("score", "error")]
        counts = (o.acknowledged, round(o.seconds), len(o.blows), sum(o.tries.values()), o.duplicates, o.late,
                  o.doubtful, o.stale)  # fmt: skip
        longest = f"{max(o.waits, default=0.0):.2f}"
        table.add_row(
            str(o.seed), *map(str, counts), *_quantiles(list(o.waits)), longest, *worst, str(len(o.violations))
        )
    return table


def _quantiles(seconds: list[float | None]) -> list[str]:
    known = [value for value in seconds if value is not None]
    if not known:
        return ["–", "–"]
    return [f"{quantile:.2f}" for quantile in np.quantile(known, [0.5, 0.99], method="higher")]


def main() -> int:
    """Run the seeds and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=1, help="how many runs")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    for name, kind in (("rounds", int), ("apis", int), ("scorers", int), ("workers", int), ("blows", int),
                       ("stop", float), ("lease", float), ("limit", float)):  # fmt: skip
        parser.add_argument(f"--{name}", type=kind, default=getattr(Plan, name))
    parser.add_argument("--json", type=Path, help="write every number here")
    options = parser.parse_args()
    given = {name: value for name, value in vars(options).items() if name in Plan.__dataclass_fields__}
    plan, console, outcomes = Plan(**given), Console(width=200), []
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    with Progress(*columns, console=Console(stderr=True)) as bar:
        for seed in range(options.first, options.first + options.seeds):
            line = bar.add_task(f"seed {seed}", total=plan.rounds)
            outcome = asyncio.run(run(seed, plan, lambda done, line=line: bar.update(line, completed=done)))
            outcomes.append(outcome)
            bar.update(line, completed=plan.rounds)
            for text in (*outcome.violations, *outcome.exits):
                bar.console.print(f"seed {seed}: {text}", markup=False, soft_wrap=True)
            if options.json:
                options.json.write_text(json.dumps({"plan": asdict(plan), "runs": [record(o) for o in outcomes]}))
    console.print(f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}")
    console.print(run_table(outcomes), recovery_table(outcomes))
    return int(any(outcome.violations for outcome in outcomes))


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        sys.exit(main())
