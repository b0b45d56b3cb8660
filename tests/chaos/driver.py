"""A whole service with faults: replicas, scorers and workers on one Redis, and an adversary with a seed.

    python -m tests.chaos.driver [--seeds 20] [--rounds 10000] [--apis 4] [--scorers 3] [--workers 32] [--json FILE]
                                 [--kinds "roll back" "kill api"]

Workers reach the API through a proxy; the API and the scorers reach Redis through another one. Both proxies can drop
replies. When the budgets are spent, all faults are repaired and everything is checked (checks.py). The exit code is 1
if a check failed.
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
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from optimist_client import tensors

from . import checks
from .adversary import KINDS, Adversary
from .lost_picks import LostPicks
from .outcomes import Outcome, record, recovery_table, run_table
from .processes import Deployment, RedisServer, ending
from .proxy import Proxy
from .questions import BATCH, QUESTIONS, Question
from .retractions import Retractor, found_in
from .survivors import check_logs, find_survivors
from .wire import Client
from .workers import Ledger, Worker


@dataclass(frozen=True)
class Plan:
    """The size of a run, and its faults. Times are in seconds; a run that takes longer than `limit` is aborted.

    `slow`: the share of batches that take `SLOWER` times as long as others, so that a pick can outlast a rollback.
    """

    rounds: int = 10_000
    apis: int = 4
    scorers: int = 3
    workers: int = 32
    faults: int = 60
    kinds: tuple[str, ...] = tuple(KINDS)
    pause: float = 6.0
    stop: float = 15.0
    lease: float = 30.0
    sampling: float = 0.1
    slow: float = 0.05
    growth: float = 0.02
    retractions: int = 100
    limit: float = 1800.0


class Crew:
    """Workers that are replaced when they are killed: half of the replacements have the old name, half a new one."""

    def __init__(self, plan: Plan, port: int, ledger: Ledger, rng: random.Random) -> None:
        self.tries: Counter[str] = Counter()
        self._plan = plan
        self._port = port
        self._ledger = ledger
        self._random = rng
        self._names = [f"worker-{i}" for i in range(plan.workers)]
        self._tasks = [asyncio.create_task(self._work(i)) for i in range(plan.workers)]

    def kill(self, number: int) -> None:
        """Kill one at an arbitrary point, and replace it, unless its work is done."""
        if self._tasks[number].done():
            return
        self._tasks[number].cancel()
        if self._random.random() < 0.5:
            self._names[number] += "-again"
        self._tasks[number] = asyncio.create_task(self._work(number))

    async def finish(self) -> None:
        """Return when every worker has seen the end of all experiments. Raises what a worker raised."""
        while working := [task for task in self._tasks if not task.done()]:
            await asyncio.wait(working, timeout=0.1)
        for task in self._tasks:
            task.result()

    def dismiss(self) -> None:
        """Stop all workers."""
        for task in self._tasks:
            task.cancel()

    async def _work(self, number: int) -> None:
        turn = number % len(QUESTIONS)
        questions = [*QUESTIONS[turn:], *QUESTIONS[:turn]]
        worker = Worker(self._names[number], self._port, questions, self._ledger, self._plan.sampling, self._plan.slow)
        try:
            await worker.run()
        finally:
            self.tries.update(worker.client.tries)


@asynccontextmanager
async def service(
    directory: Path, apis: int, scorers: int
) -> AsyncIterator[tuple[RedisServer, Deployment, Proxy, Proxy]]:
    """Redis, replicas and scorers, the proxy before the replicas and the one before Redis, ready to serve."""
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
    """One run; `progress` is called with the number of acknowledged rounds."""
    outcome, began = Outcome(seed), time.monotonic()
    with tempfile.TemporaryDirectory(prefix="chaos-") as place:
        async with service(Path(place), plan.apis, plan.scorers) as (redis, deployment, front, back):
            client, ledger = Client(front.port), Ledger(redis.rollbacks)
            given = {"lease": plan.lease, "rescore_growth": plan.growth, "max_wait": 0.5, "seed": seed}
            for question in QUESTIONS:
                await create(client, question, budget=plan.rounds * BATCH // len(QUESTIONS), **given)
            redis.remember()
            rng = random.Random(seed)
            crew = Crew(plan, front.port, ledger, rng)
            adversary = Adversary(rng, redis, deployment, front, back, plan.workers, crew.kill, ledger.strike,
                                  plan.pause, plan.stop, plan.kinds)  # fmt: skip
            attack = asyncio.create_task(
                spread(adversary, plan.faults, plan.rounds, lambda: len(ledger.acknowledged), progress)
            )
            retractor = Retractor(
                Client(front.port), ledger, random.Random(f"retract {seed}"), plan.rounds / plan.retractions
            )
            retracting = asyncio.create_task(retractor.run())
            lost_picks = LostPicks(Client(front.port), ledger, QUESTIONS)
            telling = asyncio.create_task(lost_picks.run())
            try:
                async with asyncio.timeout(plan.limit):
                    await crew.finish()
            except TimeoutError:
                ledger.violations.append(f"the run did not end within {plan.limit:g} s")
            finally:
                crew.dismiss()
                for task in (attack, retracting, telling):
                    task.cancel()
                await asyncio.gather(attack, retracting, telling, return_exceptions=True)
                await adversary.heal()
            for task in (attack, retracting, telling):
                if not task.cancelled():
                    task.result()  # raises the error that ended it too early
            await deployment.ready()
            outcome.doubtful = await checks.settle_doubts(client, QUESTIONS, ledger)
            reports = await checks.calm(client, QUESTIONS, plan.lease + 60.0)
            with redis.client() as connection:
                retracted = found_in(connection, QUESTIONS)
            outcome.retracted = sum(map(len, retracted.values()))
            survivors = find_survivors(reports, ledger, retracted)
            numbers, outcome.differences = checks.check_numbers(reports, QUESTIONS, survivors, plan.growth)
            with redis.client() as connection:
                outcome.violations = [
                    *ledger.violations,
                    *checks.check_picks(ledger),
                    *survivors.violations,
                    *retractor.check(retracted),
                    *checks.check_counts(reports, survivors),
                    *numbers,
                    *check_logs(connection, QUESTIONS, ledger, survivors),
                    *checks.check_keys(connection, QUESTIONS),
                    *await checks.check_deleting(client, connection, QUESTIONS),
                ]
            for one in (client, retractor.client, lost_picks.client):
                one.abort()
            outcome.exits = [line for child in (*deployment.children, redis.child) for line in child.exits]
    outcome.seconds = time.monotonic() - began
    outcome.acknowledged, outcome.lost, outcome.dropped = len(ledger.acknowledged), survivors.lost, ledger.dropped
    outcome.late, outcome.duplicates, outcome.stale = ledger.late, ledger.duplicates, ledger.stale
    outcome.faults, outcome.waits, outcome.tries = ledger.faults, ledger.waits, crew.tries
    outcome.uncounted = ledger.uncounted
    outcome.rollbacks, outcome.told_lost = redis.rollbacks, lost_picks.told
    return outcome


async def create(client: Client, question: Question, **config: Any) -> None:
    """The experiment of a question, with this config."""
    if question.reference is not None:
        mean, covariance = question.reference
        body = tensors.encode({"mean": mean, "covariance": covariance})
        await client.call("POST", f"/v1/references?name={question.name}-reference", body)
    await client.call("POST", "/v1/experiments", question.config(**config))


async def spread(
    adversary: Adversary, faults: int, rounds: int, count: Callable[[], int], progress: Callable[[int], None]
) -> None:
    """Spread the faults evenly over the rounds, so that a slow machine has as many as a fast one.

    count: how many rounds were acknowledged so far.
    """
    kinds = adversary.schedule(faults)
    for number, kind in enumerate(kinds, start=1):
        while count() < rounds * number / (len(kinds) + 1):
            await asyncio.sleep(0.02)
            progress(count())
        adversary.do(kind)
    while True:
        await asyncio.sleep(0.1)
        progress(count())


def main() -> int:
    """Run the seeds and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=1, help="number of runs")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    for name, kind in (("rounds", int), ("apis", int), ("scorers", int), ("workers", int), ("faults", int),
                       ("stop", float), ("lease", float), ("slow", float), ("limit", float)):  # fmt: skip
        parser.add_argument(f"--{name}", type=kind, default=getattr(Plan, name))
    parser.add_argument(
        "--kinds", nargs="+", choices=list(KINDS), default=Plan.kinds, help="kinds of faults (default: all)"
    )
    parser.add_argument("--json", type=Path, help="write all numbers to this file")
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
